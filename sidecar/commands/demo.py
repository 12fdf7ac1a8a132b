"""``vllm-sidecar demo``: the daemon on a recorded real session. Needs no GPU, no vLLM, no settings."""

import asyncio
import sys
import tempfile
from pathlib import Path

from sidecar import app
from sidecar.clock import Clock, ClockLike
from sidecar.commands.run import run_until_signal
from sidecar.config import DEFAULTS, Settings, load
from sidecar.errors import ConfigError
from sidecar.model.vocabulary import Source, Verdict
from sidecar.pipeline import Step
from sidecar.recording.folder import Recording
from sidecar.stand_in import HOST, StandIn
from sidecar.telling.figures import iso_time
from sidecar.telling.sentences import say_found, window_text

SCENARIOS = Path(__file__).parent.parent / "scenarios"
INTERVAL, WINDOW = "1s", "5s"


def list_scenarios() -> dict[str, str]:
    """The scenarios that are shipped, and what each shows."""
    return {
        folder.name: Recording(folder).header().about
        for folder in sorted(SCENARIOS.iterdir())
        if (folder / "recording.json").is_file()
    }


def run_demo(scenario: str, *, listen: str, once: bool) -> int:
    """Play a scenario until a signal, or until its end with ``once``; returns the exit code.

    Raises:
        ConfigError: there is no such scenario, or the address cannot be had.
    """
    known = list_scenarios()
    if scenario == "list":
        sys.stdout.write("".join(f"{name}: {about}\n" for name, about in known.items()))
        return 0
    if scenario not in known:
        raise ConfigError(f"no scenario {scenario!r}; there are {', '.join(known)}")
    say(f"scenario {scenario}: {known[scenario]}")

    async def body(stop: asyncio.Event) -> None:
        recording = Recording(SCENARIOS / scenario)
        with tempfile.TemporaryDirectory(prefix="vllm-sidecar-demo-") as folder:
            await play(recording, Path(folder), listen, stop, Clock(), once=once)

    run_until_signal(body)
    return 0


async def play(
    recording: Recording,
    folder: Path,
    listen: str,
    stop: asyncio.Event,
    clock: ClockLike,
    *,
    once: bool,
) -> None:
    """Run the stand-in and the daemon beside each other.

    Raises:
        ConfigError: the address cannot be had.
    """
    stand_in = StandIn(recording, folder, clock)
    teller = Teller(stop)

    def ended() -> None:
        teller.say(
            "the recording has ended" + ("" if once else "; its last moment stays (Ctrl-C ends)")
        )
        if once:
            stop.set()

    try:
        await stand_in.open()
        settings = settle(stand_in, listen)
        async with asyncio.TaskGroup() as group:
            player = group.create_task(stand_in.play(stop, ended))
            await app.run(
                settings,
                clock,
                stop,
                without=frozenset({Source.PROCESS}),
                listening=teller.tell_listening,
                observe=teller.tell_step,
            )
            player.cancel()
    except ExceptionGroup as failed:
        refused = failed.subgroup(ConfigError)
        if refused is None:
            raise
        raise refused.exceptions[0] from None
    finally:
        await stand_in.close()


def settle(stand_in: StandIn, listen: str) -> Settings:
    """The daemon's settings: defaults, whatever the environment says, that point at the stand-in."""
    has = stand_in.sources
    defaults = dict(DEFAULTS)
    return load(
        {
            **defaults,
            "target": f"http://{HOST}:{stand_in.port}",
            "interval": INTERVAL,
            "window": WINDOW,
            "listen": listen,
            "log": [str(stand_in.log)] if Source.VLLM_LOG in has else [],
            "cgroup": str(stand_in.cgroup) if Source.CGROUP in has else "off",
            "kernel_log": str(stand_in.kernel_log) if Source.KERNEL_LOG in has else "off",
            "gpu": "off",
        }
    )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Teller:
    """Prints what a person wants to see: where to look, and every change of verdict."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.verdict: Verdict | None = None
        self.at_once = False

    def say(self, line: str) -> None:
        """Print a line; once nobody reads any more, there is nothing left to show."""
        try:
            say(line)
        except BrokenPipeError:
            self.stop.set()
        except OSError:
            return  # a full disk: our pages go on

    def tell_listening(self, host: str, port: int) -> None:
        """Say where to look."""
        shown = f"[{host}]" if ":" in host else host
        self.say(f"listening on http://{shown}:{port}/metrics")
        self.say(f"a page for people: http://{shown}:{port}/")

    def tell_step(self, step: Step) -> None:
        """Say a verdict that differs from the one before; a failure at once, then its window."""
        for found in step.report.urgent[:1]:
            if found.cause.verdict is not self.verdict:
                self.verdict = found.cause.verdict
                self.at_once = True
                now = iso_time(step.report.at.unix)
                self.say(
                    f"{now} {found.cause.value} ({found.severity.value}) at once: {say_found(found)}"
                )
        for judgement in step.closed:
            if judgement.verdict is not self.verdict or self.at_once:
                self.verdict = judgement.verdict
                self.at_once = False
                self.say(window_text(judgement))
