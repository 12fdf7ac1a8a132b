"""What a recording says of the run around it: the load, the server's launch and the machine.

All of it is optional: a recording from elsewhere, or one that was cut short, has less.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.parse.launch import Launch, describe_launch
from sidecar.parse.secrets import hide_forms
from sidecar.recording.folder import HEADER, LAST_MOMENT, Recording, read_small

MOST_GPUS = 1024
MOST_NAME = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the load went (unix seconds): ``ended`` is why before its time, None if it is whole.

    ``exit_code``: of its command. ``drained``: when nothing ran or waited any more, None if that was
    not seen.
    """

    begun: float
    finished: float
    exit_code: int | None = None
    drained: float | None = None
    ended: str | None = None


@dataclass(frozen=True, slots=True)
class About:
    """The run around a recording. ``gpus``: names, as they were before the load."""

    outcome: Outcome | None = None
    launch: Launch | None = None
    machine: str | None = None
    cpus: int | None = None
    gpus: tuple[str, ...] = ()


def read_about(recording: Recording) -> About:
    """What the header tells beside what every recording has.

    Raises:
        RecordingError: the folder is no recording of a format we know.
    """
    recording.header()
    told = json.loads(read_small(recording.folder / HEADER))
    target, hardware, load = (table(told.get(name)) for name in ("target", "hardware", "load"))
    cpus = hardware.get("cpus")
    gpus = hardware.get("gpus_before")
    return About(
        outcome=read_outcome(load.get("outcome")),
        launch=read_launch(target.get("launch")),
        machine=text(hardware.get("machine")),
        cpus=cpus if isinstance(cpus, int) and not isinstance(cpus, bool) and cpus > 0 else None,
        gpus=tuple(
            name
            for one in (gpus[:MOST_GPUS] if isinstance(gpus, list) else ())
            if (name := text(table(one).get("name")))
        ),
    )


def table(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """A short text without what must not be shown."""
    return hide_forms(value[:MOST_NAME]) if isinstance(value, str) and value else None


def moment(value: object) -> float | None:
    """A time in seconds since 1970."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= LAST_MOMENT else None


def read_outcome(value: object) -> Outcome | None:
    """How the load went; None where begin and end are not told."""
    told = table(value)
    begun, finished = moment(told.get("begun")), moment(told.get("finished"))
    if begun is None or finished is None:
        return None
    code, ended = told.get("exit_code"), told.get("ended")
    return Outcome(
        begun=begun,
        # The wall clock may have stepped back in between.
        finished=max(begun, finished),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        drained=moment(told.get("drained")),
        ended=ended if isinstance(ended, str) else None,
    )


def read_launch(value: object) -> Launch | None:
    """How the server was started; secrets are hidden again, whoever wrote the recording."""
    told = table(value)
    argv, environment = told.get("argv"), table(told.get("environment"))
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        return None
    return describe_launch(
        argv, {name: value for name, value in environment.items() if isinstance(value, str)}
    )
