"""How a server was started -> its limits: from its argv, or from what its log says of its arguments.

Only the numbers of known limits leave this file. Texts are taken apart, never evaluated. Keywords that
are cut or broken tell as much as stands before the break; a dict tells all or nothing, because what it
leaves out is at its default.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sidecar.catalog.vllm_settings import ARGUMENTS, NEIGHBOURS, SETTINGS, Setting, Unit
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.parse.limit_values import limit_value

_MOST_IN_FRONT: Final = 16
"""Words in which the program's name must stand: an interpreter and its own options come before it."""

_MODULE = re.compile(r"vllm\.entrypoints\.(?:[a-z_]+\.)*(?:api_server|grpc_server)")
_SCRIPT = re.compile(r"(?:.*/)?vllm/entrypoints/(?:[a-z_]+/)*(?:api_server|grpc_server)\.py")
_PROGRAM = re.compile(r"(?:.*/)?vllm|vllm\.entrypoints\.cli\.main")

_SHORT: Final[Mapping[str, Setting]] = {
    f"-{name}": setting for setting in SETTINGS for name in setting.short
}
_BY_FLAG: Final[Mapping[str, Setting | None]] = {
    **dict.fromkeys(NEIGHBOURS),
    **{setting.flag: setting for setting in SETTINGS},
}
"""Every option that is known; None for those that are no limit of ours."""

Values = Mapping[Limit, float]


def limits_of_argv(argv: Sequence[str]) -> Limits:
    """The limits that stand on the command line of ``vllm serve`` or of a module of vLLM's.

    As argparse reads it: the last of several counts, and an abbreviation where it is the only one
    that fits. Another program's command line gives nothing, as does a value that cannot be.
    """
    values: dict[Limit, float | None] = {}
    rest = iter(_own_arguments(argv))
    pending: Setting | None = None
    for word in rest:
        if word == "--":
            break
        if pending is not None and not word.startswith("-"):
            values[pending.limit] = limit_value(pending.unit, word)
            pending = None
            continue
        pending = _read_option(word, values)
    return with_origin(
        {limit: value for limit, value in values.items() if value is not None}, Origin.COMMAND_LINE
    )


def with_origin(values: Values, origin: Origin) -> Limits:
    """Numbers as limits that were read at ``origin``."""
    return {limit: Known(value, origin) for limit, value in values.items()}


def _own_arguments(argv: Sequence[str]) -> Sequence[str]:
    """What stands behind the name of the server's program."""
    for at, word in enumerate(argv[:_MOST_IN_FRONT]):
        if _MODULE.fullmatch(word) or _SCRIPT.fullmatch(word):
            return argv[at + 1 :]
        if _PROGRAM.fullmatch(word) and argv[at + 1 : at + 2] == ["serve"]:
            return argv[at + 2 :]
    return ()


def _read_option(word: str, values: dict[Limit, float | None]) -> Setting | None:
    """Take in one option; the setting whose value the next word may be."""
    if not word.startswith("-"):
        return None
    name, equals, value = word.partition("=")
    setting, wanted = _setting_of(name)
    if setting is None:
        return None
    if setting.unit is Unit.FLAG:
        values[setting.limit] = None if equals else float(wanted)
        return None
    if not wanted:
        return None
    values[setting.limit] = limit_value(setting.unit, value) if equals else None
    return None if equals else setting


def _setting_of(name: str) -> tuple[Setting | None, bool]:
    """The setting that an option names, and whether it is switched on: ``--no-...`` is off."""
    if not name.startswith("--"):
        return _SHORT.get(name), True
    flag = name[2:].replace("_", "-")
    is_on = not flag.startswith("no-")
    flag = flag.removeprefix("no-")
    if flag in _BY_FLAG:
        return _BY_FLAG[flag], is_on
    fitting = [known for known in _BY_FLAG if flag and known.startswith(flag)]
    return (_BY_FLAG[fitting[0]] if len(fitting) == 1 else None), is_on


# --- Python's text ------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[(\[{]|[)\]}]|,|['\"]", re.DOTALL
)
"""What structures the text of Python values: whole strings, brackets, commas; last, a cut string."""

_DICT_ITEM = re.compile(r"\s*(?:'([a-z_]{1,40})'|\"([a-z_]{1,40})\")\s*:\s*(.{1,80})", re.DOTALL)
_KEYWORD = re.compile(r"\s*([a-z_]{1,40})=(.{1,80})", re.DOTALL)
_QUOTED = re.compile(r"'([^'\\]{0,80})'|\"([^\"\\]{0,80})\"")


def values_of_dict(text: str, names: Mapping[str, Setting] = ARGUMENTS) -> Values:
    """The limits among the items of a dict's text, as in ``non-default args: {...}``.

    Only its own items count, not those of a dict inside. A text that is cut tells nothing: whoever
    reads that a setting is not there takes it for its default.
    """
    if not text.startswith("{"):
        return {}
    pieces = tuple(_pieces(text[1:]))
    if not pieces or pieces[-1] is not None:
        return {}
    items = (_DICT_ITEM.fullmatch(piece) for piece in pieces if piece is not None)
    return _values(((one[1] or one[2], one[3]) for one in items if one is not None), names)


def values_of_keywords(text: str, names: Mapping[str, Setting]) -> Values:
    """The limits in ``name=value, name=value``, as in ``args: Namespace(...)`` or an engine's config.

    ``text`` begins behind the bracket that opens, if there is one.
    """
    items = (_KEYWORD.fullmatch(piece) for piece in _pieces(text) if piece is not None)
    return _values(((one[1], one[2]) for one in items if one is not None), names)


def _pieces(text: str) -> Iterator[str | None]:
    """What stands between commas outside all brackets and strings, up to the bracket that closes.

    None comes last, where that bracket stands. What stands last in a text without it may be cut, and
    is left out.
    """
    depth = begin = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0:
                yield text[begin : found.start()]
                yield None
                return
            depth -= 1
        elif mark == ",":
            if depth == 0:
                yield text[begin : found.start()]
                begin = found.end()
        elif mark in "'\"":
            return


def _values(items: Iterator[tuple[str, str]], names: Mapping[str, Setting]) -> Values:
    values: dict[Limit, float] = {}
    for name, text in items:
        setting = names.get(name)
        if setting is None:
            continue
        quoted = _QUOTED.fullmatch(text.strip())
        told = (quoted[1] or quoted[2] or "") if quoted else text.strip()
        value = limit_value(setting.unit, told)
        if value is not None:
            values[setting.limit] = value
    return values
