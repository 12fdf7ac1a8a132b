"""An exposition as a recording keeps it: every series and number, no text that a client may have sent. Pure.

vLLM's labels have values of its own; a label that we do not know may hold anything.
"""

import re
from typing import Final

from sidecar.parse.secrets import HIDDEN

_PLAIN: Final = re.compile(r"[\w.:+/-]{0,64}", re.ASCII)
_WORD: Final = re.compile(r"[a-z0-9_]{0,40}", re.ASCII)
_KEPT: Final = {
    "model_name": re.compile(r"[^\\\"]{0,256}"),
    **dict.fromkeys(
        (
            *("engine", "engine_index", "le", "quantile"),
            *("pid", "implementation", "major", "minor", "patchlevel", "version"),
            *("generation", "max_lora", "method", "status"),
            # Ray gives every series of its own.
            *("ReplicaId", "WorkerId", "NodeAddress", "SessionName", "Version"),
        ),
        _PLAIN,
    ),
    **dict.fromkeys(("finished_reason", "reason", "source", "sleep_state"), _WORD),
}
"""Labels whose values are vLLM's own, with the form that these have."""
_CONFIGURATION: Final = ("cache_config_info",)
"""Families whose labels are the server's settings: numbers, flags and types."""
_SETTING: Final = re.compile(r"True|False|None|[0-9.e+-]{1,24}|\[[0-9, ]{0,200}\]", re.ASCII)
_DTYPES: Final = frozenset({"cache_dtype", "mamba_cache_dtype", "mamba_ssm_cache_dtype"})
_NUMBER: Final = r"[+-]?(?:[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,4})?|[Ii]nf|[Nn]a[Nn])"
_PAIR: Final = r'[A-Za-z_]\w*="(?:[^"\\]|\\.)*"'
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"', re.ASCII)
_SERIES: Final = re.compile(
    rf"([A-Za-z_:][\w:]*)(?:\{{((?:{_PAIR}(?:,|(?=\}})))*)\}})?([ \t]+{_NUMBER}(?:[ \t]+-?[0-9.]{{1,20}})?)"
    r"[ \t]*(?:#.*)?",
    re.ASCII,
)
"""A series with its value; an exemplar behind it is of one request and is left out."""
_ABOUT: Final = re.compile(r"# (?:TYPE [A-Za-z_:][\w:]* [a-z]{1,16}|EOF)", re.ASCII)


def hide_labels(body: str) -> str:
    """The exposition without its help texts, and with the values of labels hidden that we do not know."""
    return "\n".join(_hide(line) for line in body.split("\n") if not line.startswith("# HELP "))


def _hide(line: str) -> str:
    line = line.rstrip("\r")
    if not line or _ABOUT.fullmatch(line):
        return line
    found = _SERIES.fullmatch(line)
    if found is None:
        return "#"
    name, labels, rest = found.groups()
    if labels is None:
        return f"{name}{rest}"
    kept = _kept_setting if name.endswith(_CONFIGURATION) else _kept
    return f"{name}{{{_LABEL.sub(kept, labels)}}}{rest}"


def _kept_setting(label: re.Match[str]) -> str:
    if _SETTING.fullmatch(label[2]) or (label[1] in _DTYPES and _WORD.fullmatch(label[2])):
        return label[0]
    return _kept(label)


def _kept(label: re.Match[str]) -> str:
    form = _KEPT.get(label[1])
    if form is not None and form.fullmatch(label[2]):
        return label[0]
    return f'{label[1]}="{HIDDEN}"'
