"""The folder of a capacity run, and the envelope that follows from it.

``plan.toml``, ``NN-STAGE/REPEAT/{recording/,result.json,done.json}``, ``envelope.json``. A repeat is done
once ``done.json`` is there; everything else of it was written before. The same folder gives the same
envelope, byte for byte.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sidecar.classify.policy import Policy
from sidecar.config import read_environment
from sidecar.envelope.accept import accept, find_bounds
from sidecar.envelope.agreement import find_disagreements
from sidecar.envelope.artifact import FILE_NAME, encode_envelope
from sidecar.envelope.clients import MOST_CHARACTERS, read_result
from sidecar.envelope.fold import LiveRules, Load, fold
from sidecar.envelope.masked_plan import mask_line, mask_plan
from sidecar.envelope.plan import Plan, PlannedStage, parse_plan
from sidecar.envelope.settings import find_differences
from sidecar.errors import ConfigError, RecordingError
from sidecar.model.envelope import ClientView, Envelope, Identity, ServerView, Stage, StageRun
from sidecar.parse.secrets import Secrets
from sidecar.recording.about import About, read_about
from sidecar.recording.folder import INTERVAL_S, WINDOW_S, Recording
from sidecar.recording.replayed_ticks import replay_ticks

PLAN, DONE = "plan.toml", "done.json"
RECORDING, RESULT, RESULT_FOLDER = "recording", "result.json", "result"
RESULT_NAMES: Final = ("summary_lifecycle_metrics.json", "benchmarks.json")
"""What inference-perf and guidellm call the file that sums up, in a folder that they are given."""
FORMAT: Final = 1
MOST_PLAN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where one repeat of a stage is kept."""

    stage: PlannedStage
    repeat: int
    folder: Path

    @property
    def recording(self) -> Path:
        """What the daemon saw."""
        return self.folder / RECORDING

    @property
    def result(self) -> Path:
        """Where the client is told to write its result."""
        return self.folder / RESULT

    @property
    def result_folder(self) -> Path:
        """The same for clients that want a folder."""
        return self.folder / RESULT_FOLDER

    @property
    def is_done(self) -> bool:
        """Whether it went to its end."""
        return (self.folder / DONE).is_file()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat that was read: its figures, the server it was of, and when it was begun."""

    place: Place
    run: StageRun
    identity: Identity
    created: float


def say_place(place: Place) -> str:
    """A repeat by its name."""
    return f"{place.stage.name} repeat {place.repeat}"


def list_places(folder: Path, plan: Plan) -> tuple[Place, ...]:
    """Every repeat of a plan, in the order in which they are run."""
    return tuple(
        Place(stage, repeat, folder / f"{number:02d}-{stage.name}" / str(repeat))
        for number, stage in enumerate(plan.stages, start=1)
        for repeat in range(1, stage.repeats + 1)
    )


# The plan


def read_plan(path: Path) -> tuple[Plan, str]:
    """A plan and its text.

    Raises:
        ConfigError: it cannot be read, or is no plan.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_PLAN + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: it is not UTF-8") from None
    if len(data) > MOST_PLAN:
        raise ConfigError(f"{path}: larger than {MOST_PLAN >> 20} MiB")
    return parse_plan(text), text


def keep_plan(folder: Path, text: str, plan: Plan) -> Plan:
    """Make the folder the run of this plan, or see that it is; returns the plan as it is kept.

    Raises:
        ConfigError: it is the run of another plan, something else is in it, or it cannot be written.
    """
    masked = mask_plan(text, plan, read_environment())
    kept = folder / PLAN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if kept.is_file():
            if kept.read_text(encoding="utf-8") != masked:
                raise ConfigError(f"{folder}: it is the run of another plan")
        elif any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ConfigError(f"{folder}: something else is in it")
        else:
            replace_file(kept, masked)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its plan is not UTF-8"
        raise ConfigError(f"{folder}: {why}") from None
    return parse_plan(masked)


# Repeats


def put_aside(place: Place) -> None:
    """Keep what an interrupted repeat left, under a name that is no repeat's. Raises OSError."""
    if not place.folder.exists():
        return
    number = 1
    while (aside := place.folder.with_name(f"{place.repeat}.aside-{number}")).exists():
        number += 1
    place.folder.rename(aside)


def mask_results(place: Place, secrets: Secrets) -> None:
    """Take secrets out of what the client wrote: some write their headers into their results.

    A result too large to be read stays as it is. Raises OSError.
    """
    written = [place.result] if place.result.is_file() else []
    if place.result_folder.is_dir():
        written += [path for path in place.result_folder.glob("**/*") if path.is_file()]
    for path in written:
        if path.is_symlink() or path.stat().st_size > MOST_CHARACTERS:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            told = json.loads(text)
            masked = secrets.hide(told)
            safe = text if masked == told else json.dumps(masked)
        except (ValueError, RecursionError):
            safe = str(secrets.hide(text))
        if safe != text:
            replace_file(path, safe)


def mark_done(place: Place, ended: str | None) -> None:
    """Say that all of a repeat is written; ``ended``: why before its time. Raises OSError."""
    replace_file(
        place.folder / DONE,
        json.dumps({"format": FORMAT, "stage": place.stage.name, "ended": ended}) + "\n",
    )


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all, also over a power cut. Raises OSError."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)  # noqa: PTH105  (atomic on purpose)


def read_repeat(place: Place) -> Repeat:
    """One repeat from its recording and its client's result.

    Raises:
        RecordingError: the recording is missing, or was cut short.
    """
    recording = Recording(place.recording)
    header, about = recording.header(), read_about(recording)
    outcome = about.outcome
    if outcome is None:
        raise RecordingError(f"{place.recording}: it does not tell how the load went")
    asked = recording.sources() if header.asked is None else header.asked
    tolerance = Policy() if header.tolerance is None else Policy(header.tolerance)
    interval_s = header.interval_s or INTERVAL_S
    folded = fold(
        replay_ticks(recording, interval_s),
        Load(outcome.begun, outcome.finished, outcome.drained),
        LiveRules(header.window_s or WINDOW_S, tolerance, asked),
    )
    client, client_fault = read_client(place)
    run = StageRun(
        repeat=place.repeat,
        server=folded.server,
        client=client,
        disagreements=()
        if client is None
        else find_disagreements(folded.server, client, interval_s),
        exit_code=outcome.exit_code,
        killed=folded.killed,
        whole=outcome.ended is None,
        client_fault=client_fault,
    )
    identity = add_machine(folded.identity, about)
    # The server is asked for its version now and then: the whole recording knows it.
    identity = replace(identity, vllm_version=identity.vllm_version or header.version)
    return Repeat(place, run, identity, header.created)


def add_machine(identity: Identity, about: About) -> Identity:
    """The server's identity with the machine and the launch, which no tick tells."""
    launch = about.launch
    return replace(
        identity,
        gpus=identity.gpus or about.gpus,
        cpus=about.cpus,
        machine=about.machine,
        launch=() if launch is None else launch.argv,
        environment={} if launch is None else launch.environment,
    )


def read_client(place: Place) -> tuple[ClientView | None, str | None]:
    """What the client says of a repeat, and why not where it should."""
    try:
        path = find_result(place)
        if path is None:
            is_missing = place.stage.promises_result or place.stage.client is not None
            return None, "no result was written" if is_missing else None
        with path.open(encoding="utf-8", errors="replace") as file:
            return read_result(file.read(MOST_CHARACTERS + 1), place.stage.client), None
    except OSError as error:
        return None, f"the result cannot be read: {error.strerror}"
    except ValueError as error:
        return None, f"the result: {error}"


def find_result(place: Place) -> Path | None:
    """The client's result, wherever it was to be written.

    Raises:
        ValueError: there are several, and none is known to sum up.
    """
    if is_plain(place.result):
        return place.result
    found = sorted(filter(is_plain, place.result_folder.glob("**/*.json")))
    for name in RESULT_NAMES:
        named = [path for path in found if path.name == name]
        if named:
            return named[0]
    if len(found) > 1:
        raise ValueError("there are several files")
    return found[0] if found else None


def is_plain(path: Path) -> bool:
    """Whether a file is there that may be read: a pipe would never end, a link may lead anywhere."""
    return path.is_file() and not path.is_symlink()


# The envelope


def read_run(folder: Path) -> Envelope:
    """The envelope of a run, from its plan and every repeat that is done.

    Raises:
        ConfigError: the folder is no run, or nothing of it is done.
        RecordingError: a recording cannot be read, or not all are of the same server.
    """
    plan, _ = read_plan(folder / PLAN)
    done = [read_repeat(place) for place in list_places(folder, plan) if place.is_done]
    if not done:
        raise ConfigError(f"{folder}: nothing of the run is done")
    for one in done[1:]:
        changed = find_changes(done[0].identity, one.identity)
        if changed:
            name = say_place(one.place)
            raise RecordingError(f"{folder}: {name} is of another server: {', '.join(changed)}")
    return put_together(plan, done)


def find_changes(first: Identity, other: Identity) -> tuple[str, ...]:
    """The settings in which the server is another one than before; what one side does not tell is none."""
    differences = find_differences(first, other)
    return tuple(one.setting for one in (*differences.causes, *differences.followers))


def put_together(plan: Plan, done: Sequence[Repeat]) -> Envelope:
    """The envelope of the repeats that are done; there is one at least."""
    runs: dict[str, list[StageRun]] = {}
    for one in done:
        runs.setdefault(one.place.stage.name, []).append(one.run)
    stages = tuple(
        Stage(stage.name, stage.load, tuple(fill_up(runs[stage.name], stage.repeats)))
        for stage in plan.stages
        if stage.name in runs
    )
    return Envelope(
        name=plan.name,
        created=min(one.created for one in done),
        identity=combine([one.identity for one in done]),
        objectives=plan.objectives,
        unit=plan.unit.value,
        stages=stages,
        acceptance=accept(stages, plan.objectives, plan.intended),
        bounds=find_bounds(stages, plan.objectives),
        rollback=None if plan.rollback is None else mask_line(plan.rollback, {}),
    )


def fill_up(runs: list[StageRun], repeats: int) -> Iterator[StageRun]:
    """The repeats of a stage that was begun; one that was not run is none that went to its end."""
    by_number = {run.repeat: run for run in runs}
    for number in range(1, repeats + 1):
        yield by_number.get(number) or StageRun(number, ServerView(0.0), whole=False)


def combine(told: Sequence[Identity]) -> Identity:
    """What any repeat told of the server, the first first."""
    found: dict[str, Any] = {}
    limits: dict[str, float] = {}
    for identity in told:
        for name in Identity.__dataclass_fields__:
            value = getattr(identity, name)
            if not found.get(name):
                found[name] = value
        limits = {**identity.limits, **limits}
    return Identity(**{**found, "limits": limits})


def write_envelope(folder: Path, envelope: Envelope) -> Path:
    """Write ``envelope.json``; returns where it is. Raises OSError."""
    path = folder / FILE_NAME
    replace_file(path, encode_envelope(envelope))
    return path
