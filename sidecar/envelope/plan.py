"""The plan of a capacity run: TOML in, a frozen ``Plan`` out, or one line that says what is wrong.

Unknown keys are refused with the nearest one, and no message holds a value: a command may bear a key.
"""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from sidecar.errors import ConfigError, hint_at
from sidecar.model.envelope import Client, Objectives
from sidecar.parse.quantity import parse_duration

Table = Mapping[str, Any]

MOST_STAGES: Final = 99
MOST_REPEATS: Final = 99
MOST_LOAD: Final = 1e9
MOST_TEXT: Final = 200
AUTO: Final = "auto"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
"""A stage's name is a folder's, a label's and a heading."""
BLANK: Final = re.compile(r"\{\{(?P<plain>[a-z_]+)\}\}|\{(?P<blank>[a-z_]+)\}")
"""``{word}`` is filled in, ``{{word}}`` stands for ``{word}``; other braces (JSON) stay as they are."""
RESULT, RESULT_DIR = "result", "result_dir"
BLANKS: Final = (RESULT, RESULT_DIR, "load", "stage", "repeat")


class LoadUnit(StrEnum):
    """What loads are counted in."""

    CONCURRENCY = "concurrency"
    REQUESTS_PER_SECOND = "requests_per_second"


@dataclass(frozen=True, slots=True)
class Settle:
    """When a stage may begin, and how long it may take to end; seconds.

    ``quiet``: nothing ran or waited for so long before it; ``limit``: how long to wait for that;
    ``drain``: time for what the load left in the server.
    """

    quiet: float = 5.0
    limit: float = 120.0
    drain: float = 60.0


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One step of the load. ``client``: whose result its command writes; None: to be found out."""

    name: str
    load: float
    command: tuple[str, ...]
    repeats: int = 2
    client: Client | None = None

    @property
    def promises_result(self) -> bool:
        """Whether the command is told where to write a result."""
        asked = {found["blank"] for word in self.command for found in BLANK.finditer(word)}
        return bool(asked & {RESULT, RESULT_DIR})

    def fill(self, *, result: str, result_dir: str, repeat: int) -> tuple[str, ...]:
        """The command of one repeat."""
        values = {
            RESULT: result,
            RESULT_DIR: result_dir,
            "load": say_load(self.load),
            "stage": self.name,
            "repeat": str(repeat),
        }

        def put(found: re.Match[str]) -> str:
            plain = found["plain"]
            return f"{{{plain}}}" if plain else values[found["blank"]]

        return tuple(BLANK.sub(put, word) for word in self.command)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run and what is asked of it. ``sidecar``: settings of the daemon, not checked here."""

    name: str
    unit: LoadUnit
    stages: tuple[PlannedStage, ...]
    intended: str
    objectives: Objectives = field(default_factory=Objectives)
    settle: Settle = field(default_factory=Settle)
    sidecar: Table = field(default_factory=dict)
    rollback: str | None = None


def say_load(load: float) -> str:
    """A load as a command line takes it."""
    return str(int(load)) if load.is_integer() else repr(load)


TOP: Final = (
    "name",
    "unit",
    "intended",
    "sidecar",
    "objectives",
    "settle",
    "rollback",
    "stage",
    "command",
    "repeats",
    "result",
)
"""``command``, ``repeats`` and ``result`` hold for every stage that has none of its own."""
STAGE: Final = ("name", "load", "command", "repeats", "result")
DURATION_OBJECTIVES: Final = ("ttft_p95", "inter_token_p95", "e2e_p95", "queue_p95")
SHARE_OBJECTIVES: Final = ("errors", "agree", "margin")
RESULTS: Final = (AUTO, *(client.value for client in Client))


def parse_plan(text: str) -> Plan:
    """The plan of a file.

    Raises:
        ConfigError: it is no TOML, a key is unknown, or a value cannot be honoured.
    """
    try:
        told = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"plan: {str(error).splitlines()[0]}") from None
    refuse_unknown(told, TOP, "")
    stages = read_stages(told)
    names = [stage.name for stage in stages]
    intended = told.get("intended", names[-1])
    if intended not in names:
        hint = hint_at(str(intended), names)
        raise ConfigError(f"plan: intended: no stage bears this name{hint}")
    rollback = read_table(told, "rollback")
    refuse_unknown(rollback, ("command",), "rollback.")
    return Plan(
        name=read_text(told, "name", ""),
        unit=LoadUnit(read_choice(told, "unit", "", tuple(LoadUnit))),
        stages=stages,
        intended=str(intended),
        objectives=read_objectives(read_table(told, "objectives")),
        settle=read_settle(read_table(told, "settle")),
        sidecar=read_table(told, "sidecar"),
        rollback=read_text(rollback, "command", "rollback.", most=100_000) if rollback else None,
    )


# Parts


def read_objectives(told: Table) -> Objectives:
    """What is asked of the configuration."""
    known = tuple(one.name for one in fields(Objectives))
    refuse_unknown(told, known, "objectives.")
    read: dict[str, float] = {}
    for name in told:
        where = f"objectives.{name}"
        if name in DURATION_OBJECTIVES:
            read[name] = read_duration(told, name, where)
        else:
            # More than one preemption for each request can be tolerated; more than all cannot fail.
            most = 1.0 if name in SHARE_OBJECTIVES else MOST_LOAD
            read[name] = read_number(told, name, where, 0.0, most)
    if read.get("margin") == 1.0:
        raise ConfigError("plan: objectives.margin: must leave some of the load, below 1")
    return Objectives(**read)


def read_settle(told: Table) -> Settle:
    """When a stage may begin and must have ended."""
    known = tuple(one.name for one in fields(Settle))
    refuse_unknown(told, known, "settle.")
    settle = Settle(**{name: read_duration(told, name, f"settle.{name}") for name in told})
    if settle.limit < settle.quiet:
        raise ConfigError("plan: settle.limit: must not be shorter than settle.quiet")
    return settle


def read_stages(told: Table) -> tuple[PlannedStage, ...]:
    """The stages, in order of their loads."""
    listed = told.get("stage", [])
    if not isinstance(listed, list) or not listed or not all(isinstance(s, dict) for s in listed):
        raise ConfigError("plan: stage: at least one [[stage]] is needed")
    if len(listed) > MOST_STAGES:
        raise ConfigError(f"plan: stage: at most {MOST_STAGES} stages")
    shared = {name: told[name] for name in ("command", "repeats", "result") if name in told}
    stages: list[PlannedStage] = []
    for number, one in enumerate(listed, start=1):
        where = f"stage {number}: "
        refuse_unknown(one, STAGE, where)
        stage = read_stage({**shared, **one}, where)
        if any(stage.name.lower() == before.name.lower() for before in stages):
            raise ConfigError(f"plan: {where}name: another stage bears it")
        if stages and stage.load <= stages[-1].load:
            raise ConfigError(f"plan: {where}load: must be above that of the stage before")
        stages.append(stage)
    return tuple(stages)


def read_stage(told: Table, where: str) -> PlannedStage:
    """One stage."""
    name = read_text(told, "name", where)
    if not NAME.fullmatch(name):
        raise ConfigError(f"plan: {where}name: not a plain word such as c4")
    load = read_number(told, "load", f"{where}load", 0.0, MOST_LOAD)
    if not load > 0:
        raise ConfigError(f"plan: {where}load: must be above 0")
    repeats = told.get("repeats", 2)
    if (
        not isinstance(repeats, int)
        or isinstance(repeats, bool)
        or not 1 <= repeats <= MOST_REPEATS
    ):
        raise ConfigError(f"plan: {where}repeats: not a whole number from 1 to {MOST_REPEATS}")
    result = read_choice({"result": AUTO, **told}, "result", where, RESULTS)
    return PlannedStage(
        name=name,
        load=load,
        command=read_command(told, where),
        repeats=repeats,
        client=None if result == AUTO else Client(result),
    )


def read_command(told: Table, where: str) -> tuple[str, ...]:
    """A command's words: a list as it stands, or a line split as a shell does; no shell runs it."""
    command = told.get("command")
    match command:
        case str():
            try:
                words = shlex.split(command, comments=False)
            except ValueError:
                raise ConfigError(f"plan: {where}command: a quote is not closed") from None
        case list() if all(isinstance(word, str) for word in command):
            words = command
        case None:
            raise ConfigError(f"plan: {where}command: it is missing")
        case _:
            raise ConfigError(f"plan: {where}command: not a line or a list of words")
    if not words or not words[0] or any("\0" in word for word in words):
        raise ConfigError(f"plan: {where}command: it names no program")
    for word in words:
        for found in BLANK.finditer(word):
            if found["blank"] and found["blank"] not in BLANKS:
                # Not said which: it may be a part of a password.
                hint = hint_at(found["blank"], BLANKS)
                raise ConfigError(
                    f"plan: {where}command: unknown {{word}}{hint} ({{{{word}}}} stands for itself)"
                )
    return tuple(words)


# Values


def refuse_unknown(told: Table, known: Iterable[str], where: str) -> None:
    """Refuse a key that is none of ours, with the nearest one that is."""
    names = tuple(known)
    for name in told:
        if name not in names:
            raise ConfigError(f"plan: {where}{name[:40]}: unknown key{hint_at(name, names)}")


def read_table(told: Table, name: str) -> Table:
    """A table; an empty one where it is not there."""
    table = told.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"plan: {name}: not a table")
    return table


def read_text(told: Table, name: str, where: str, *, most: int = MOST_TEXT) -> str:
    """A text that is there, printable and not too long."""
    text = told.get(name)
    if text is None:
        raise ConfigError(f"plan: {where}{name}: it is missing")
    if not isinstance(text, str) or not text.strip() or len(text) > most:
        raise ConfigError(f"plan: {where}{name}: not a text of 1 to {most} characters")
    if most == MOST_TEXT and not text.isprintable():
        raise ConfigError(f"plan: {where}{name}: holds what cannot be printed")
    return text


def read_choice(told: Table, name: str, where: str, known: Iterable[str]) -> str:
    """One of a closed set of words."""
    words = tuple(str(word) for word in known)
    text = read_text(told, name, where)
    if text not in words:
        raise ConfigError(f"plan: {where}{name}: not one of {', '.join(words)}")
    return text


def read_number(told: Table, name: str, where: str, least: float, most: float) -> float:
    """A number between two bounds."""
    value = told.get(name)
    if value is None:
        raise ConfigError(f"plan: {where}: it is missing")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise ConfigError(f"plan: {where}: not a number from {least:g} to {most:g}")
    return float(value)


def read_duration(told: Table, name: str, where: str) -> float:
    """Seconds of a duration in words. The parser's message holds none of them."""
    try:
        return parse_duration(told[name])
    except (ValueError, AttributeError):
        raise ConfigError(f"plan: {where}: not a duration such as 250ms, 5s or 2m") from None
