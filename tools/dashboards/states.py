"""How the members of the closed sets look: each a word and a colour, none left out."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from sidecar.model.advice import Lever
from sidecar.model.vocabulary import ServerState, Severity, Verdict
from tools.dashboards.shape import State

Word = TypeVar("Word", bound=StrEnum)

GREEN, BLUE, YELLOW, ORANGE, RED, PURPLE, GREY = (
    "green", "blue", "yellow", "orange", "red", "purple", "#8e8e8e",
)  # fmt: skip
DARK_RED, DARK_BLUE, LIGHT_BLUE = "dark-red", "dark-blue", "light-blue"
UNKNOWN = "unknown"

VERDICT_COLOURS: Mapping[Verdict, str] = {
    Verdict.NONE: GREEN,
    Verdict.PREEMPTION: YELLOW,
    Verdict.CUDA_OOM: RED,
    Verdict.HOST_OOM: DARK_RED,
    Verdict.ENGINE_FAILURE: PURPLE,
    Verdict.STALLED: ORANGE,
    Verdict.UNKNOWN: GREY,
}
STATE_COLOURS: Mapping[ServerState, str] = {
    ServerState.STARTING: BLUE,
    ServerState.SERVING: GREEN,
    ServerState.SLEEPING: LIGHT_BLUE,
    ServerState.STOPPED: "semi-dark-yellow",
    ServerState.DEAD: RED,
    ServerState.UNKNOWN: GREY,
}
SEVERITY_COLOURS: Mapping[Severity, str] = {
    Severity.INFO: BLUE,
    Severity.WARNING: ORANGE,
    Severity.CRITICAL: RED,
}
LEVER_COLOURS: Mapping[Lever, str] = {
    Lever.NONE: GREEN,
    Lever.RAISE_KV_CACHE_MEMORY: BLUE,
    Lever.LOWER_GPU_MEMORY_UTILIZATION: PURPLE,
    Lever.LOWER_MAX_NUM_SEQS: LIGHT_BLUE,
    Lever.LOWER_MAX_NUM_BATCHED_TOKENS: DARK_BLUE,
    Lever.RAISE_WATERMARK: "light-purple",
    Lever.LOWER_MAX_MODEL_LEN: "dark-purple",
    Lever.LOWER_KV_CACHE_PRECISION: "semi-dark-blue",
    Lever.ADD_PARALLELISM: "super-light-blue",
    Lever.FREE_COTENANT_MEMORY: "semi-dark-purple",
    Lever.RAISE_HOST_MEMORY_LIMIT: ORANGE,
    Lever.INSPECT_ENGINE_FAILURE: RED,
}
"""Green where nothing is to be turned; beyond that colours only tell one lever from the next."""


def named(words: type[Word], colours: Mapping[Word, str]) -> tuple[State, ...]:
    """The members as words of a label."""
    return tuple(State(word.value, word.value, colours[word]) for word in words)


def numbered(states: Iterable[State], zero: State) -> tuple[State, ...]:
    """The members by their number from 1 on, as ``Chosen.numbered`` counts; 0 is ``zero``."""
    return (
        State("0", zero.text, zero.colour),
        *(
            State(str(number), state.text, state.colour)
            for number, state in enumerate(states, 1)
        ),
    )  # fmt: skip


NOT_TOLD = State("0", UNKNOWN, GREY)
"""No member is 1: never taken for the first of them."""
VERDICTS = named(Verdict, VERDICT_COLOURS)
STATES = named(ServerState, STATE_COLOURS)
SEVERITIES = named(Severity, SEVERITY_COLOURS)
LEVERS = named(Lever, LEVER_COLOURS)
VERDICT_NUMBERS = numbered(VERDICTS, NOT_TOLD)
STATE_NUMBERS = numbered(STATES, NOT_TOLD)
LEVER_NUMBERS = numbered(LEVERS, NOT_TOLD)
SEVERITY_NUMBERS = numbered(SEVERITIES, State("0", "no episode", GREEN))
SEEN = (State("0", "cannot be seen", ORANGE), State("1", "can be seen", GREEN))
READ = (
    State("0", "not asked for", GREY),
    State("1", "fails", RED),
    State("2", "works", GREEN),
)
FOUND = (State("0", "not found", ORANGE), State("1", "found", GREEN))
