"""Label matchers as PromQL writes them between braces: checked, and made true for a unit test."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_ONE = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\["\\])*)"\s*(,|$)')
_MOST = 1000
OWN_LABELS = frozenset(
    {"alertname", "alertstate", "engine", "envelope", "metric", "quantile", "reason", "severity"}
    | {"stat", "state", "__name__"}
)
"""Labels that the rules' families and alerts have beside the target's."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    label: str
    operator: str
    value: str

    @property
    def text(self) -> str:
        """As PromQL takes it."""
        return f"{self.label}{self.operator}{quote(self.value)}"


def quote(text: str) -> str:
    """A printable text as a string of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """Matchers with commas between them: ``job="vllm",instance=~"gpu-.*"``.

    Raises:
        ValueError: it is anything else.
    """
    text = text.strip().removeprefix("{").removesuffix("}").strip()
    if len(text) > _MOST or not text.isprintable():
        raise ValueError("not label matchers")
    found = []
    at = 0
    while at < len(text):
        one = _ONE.match(text, at)
        if one is None:
            raise ValueError('not label matchers, as in job="vllm",instance=~"gpu-.*"')
        if one[1] in OWN_LABELS:
            raise ValueError(f"{one[1]} is no label of a target: the rules set it themselves")
        value = re.sub(r"\\(.)", r"\1", one[3])
        if "~" in one[2]:
            _check_pattern(value)
        found.append(Matcher(one[1], one[2], value))
        at = one.end()
    return tuple(found)


def _check_pattern(pattern: str) -> None:
    # Prometheus knows neither looking around nor back.
    if re.search(r"\(\?[^:i]|\\\d|\(\?P", pattern):
        raise ValueError("a label matcher's regular expression is beyond Prometheus")
    try:
        re.compile(pattern)
    except re.error:
        raise ValueError("a label matcher holds no regular expression") from None


def is_met(matcher: Matcher, value: str) -> bool:
    """Whether a label's value meets the condition."""
    is_same = (
        re.fullmatch(matcher.value, value) is not None
        if "~" in matcher.operator
        else matcher.value == value
    )
    return is_same is not matcher.operator.startswith("!")


def _candidates(matchers: tuple[Matcher, ...]) -> Iterator[str]:
    for matcher in matchers:
        for part in matcher.value.split("|"):
            yield part
            yield re.sub(r"\.[*+]|\\d\+?|\[0-9\]\+?", "1", part).replace("\\", "")
    yield "a"
    yield "b"


def find_labels(matchers: tuple[Matcher, ...]) -> Mapping[str, str] | None:
    """Labels that meet all the conditions; None if none are found, as a pattern can ask anything."""
    labels = {}
    for name in dict.fromkeys(matcher.label for matcher in matchers):
        wanted = tuple(matcher for matcher in matchers if matcher.label == name)
        fitting = (
            value
            for value in _candidates(wanted)
            if value and all(is_met(matcher, value) for matcher in wanted)
        )
        value = next(fitting, None)
        if value is None:
            return None
        labels[name] = value
    return labels
