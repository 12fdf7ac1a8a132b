"""What a row of the policy holds."""

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.advise.facts import Facts
from sidecar.model.advice import Lever, Step

NO_STEP = Step(None)


def never_forbidden(_facts: Facts) -> str | None:
    """Nothing speaks against it where something calls for it."""
    return None


def no_figure(_facts: Facts) -> Step:
    """No setting of the server is turned, or no figure can be given."""
    return NO_STEP


@dataclass(frozen=True, slots=True)
class Row:
    """One lever. ``calls``: the evidence for it in words, empty where there is none.

    ``forbids``: why not, where something calls for it. ``step``: the smallest sensible change.
    ``words``: the step for people, behind its figures. ``cost``, ``verify``, ``rollback``: plain
    words. ``must_go_at_once``: where it is forbidden it is not shown a window longer.
    """

    lever: Lever
    calls: Callable[[Facts], tuple[str, ...]]
    words: str | Callable[[Facts], str]
    cost: str
    verify: str | Callable[[Facts], str]
    rollback: str
    forbids: Callable[[Facts], str | None] = never_forbidden
    step: Callable[[Facts], Step] = no_figure
    must_go_at_once: bool = False
