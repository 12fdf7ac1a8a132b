"""Every scenario of the demo, played to the whole daemon: it shows what its name promises."""

import asyncio
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

import aiohttp
import pytest
from blockbuster import BlockBuster

from sidecar.commands import demo
from sidecar.model.vocabulary import Verdict
from sidecar.pipeline import Step
from sidecar.recording.folder import Recording
from tests.app.running import running, settings_for
from tests.fakes.daemon import values
from tests.fakes.patience import until
from tests.fakes.scaled_clock import ScaledClock
from tests.fakes.vllm_server import fake_vllm

FASTER = 20.0
PROMISED: dict[str, Verdict] = {
    "cuda_oom": Verdict.CUDA_OOM,
    "engine_failure": Verdict.ENGINE_FAILURE,
    "healthy": Verdict.NONE,
    "host_oom": Verdict.HOST_OOM,
    "preemption": Verdict.PREEMPTION,
    "stalled": Verdict.STALLED,
    "startup_rejection": Verdict.CUDA_OOM,
    "unknown": Verdict.UNKNOWN,
}
BESIDE: dict[str, set[Verdict]] = {
    "stalled": {Verdict.PREEMPTION},
    "startup_rejection": {Verdict.ENGINE_FAILURE},
}
"""What may be shown before it. The session of the stall is a thrashing one; of the rejection, the
line that says that the start failed came 2.1 s before the one that says why."""
EXPOSITION = (Path(__file__).parents[1] / "data/expositions/0.26.0.txt").read_text()


@pytest.fixture(autouse=True)
def the_stand_in_may_write(no_blocking_call: BlockBuster) -> None:
    """The stand-in writes short lines to files of its own, on the loop, for nobody's harm."""
    no_blocking_call.deactivate()


def lint(text: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text.encode(),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def shown_verdict(text: str) -> Verdict:
    """The one member of the state set that is 1."""
    (verdict,) = [
        labels[0]
        for (name, labels), value in values(text).items()
        if name == "vllm_sidecar_verdict" and value == 1
    ]
    return Verdict(verdict)


class Watcher:
    """Scrapes the daemon all the while, and keeps the last exposition of each verdict."""

    def __init__(self) -> None:
        self.expositions: dict[Verdict, str] = {}
        self.most = 0

    async def scrape(self, port: int) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    text = await response.text()
                if response.status == 200:
                    self.most = max(self.most, len(values(text)))
                    self.expositions[shown_verdict(text)] = text
                await asyncio.sleep(0.1)


async def play(scenario: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Watcher:
    """The demo as it is, on a faster clock, until the recording ends."""
    watcher = Watcher()
    stop = asyncio.Event()
    recording = Recording(demo.SCENARIOS / scenario)
    task = asyncio.create_task(
        demo.play(recording, folder, "127.0.0.1:0", stop, ScaledClock(FASTER), once=True)
    )
    printed = ""
    while "/metrics" not in printed:
        await asyncio.sleep(0.01)
        printed += capsys.readouterr().out
    port = int(printed.partition("127.0.0.1:")[2].partition("/")[0])
    scraping = asyncio.create_task(watcher.scrape(port))
    done, _ = await asyncio.wait({task, scraping}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    scraping.cancel()
    await asyncio.gather(scraping, return_exceptions=True)
    stop.set()
    await task
    assert done == {task}
    return watcher


def test_the_promises_are_of_all_scenarios() -> None:
    assert set(PROMISED) == set(demo.list_scenarios())


def alerted(text: str) -> Iterator[str]:
    for (name, labels), value in values(text).items():
        if name == "vllm_sidecar_alert" and value == 1:
            yield labels[0]


@pytest.mark.component("promtool")
@pytest.mark.parametrize("scenario", PROMISED)
async def test_a_scenario_shows_what_it_promises_and_is_clean_at_every_moment(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = await play(scenario, tmp_path / "stand-in", capsys)
    for text in watcher.expositions.values():
        lint(text)
    assert watcher.most <= 300
    harmless = {Verdict.NONE, Verdict.UNKNOWN} | BESIDE.get(scenario, set())
    assert PROMISED[scenario] in watcher.expositions
    assert set(watcher.expositions) <= {PROMISED[scenario], *harmless}
    if PROMISED[scenario] not in {Verdict.NONE, Verdict.UNKNOWN}:
        found = set(alerted(watcher.expositions[PROMISED[scenario]]))
        assert found - BESIDE.get(scenario, set()) == {PROMISED[scenario]}, "one failure, one alert"


def engines_of(step: Step) -> Collection[str]:
    """The engines of the last window that is closed."""
    last = step.report.last_window
    return () if last is None else last.window.engines.keys()


def many_engines(count: int, label: str) -> str:
    """A real exposition, as so many engines with hostile names would show it."""
    lines = []
    for line in EXPOSITION.splitlines():
        if 'engine="0"' not in line:
            lines.append(line)
            continue
        lines.extend(line.replace('engine="0"', f'engine="{label}{n}"') for n in range(count))
    return "\n".join(lines) + "\n"


@pytest.mark.component("promtool")
@pytest.mark.parametrize(
    ("label", "most"), [("", 2500), (r"\"}\n#", 300), ("<b>", 300)], ids=["plain", "quote", "tag"]
)
async def test_64_engines_stay_within_the_budget_and_hostile_names_are_folded(
    label: str, most: int
) -> None:
    async with fake_vllm() as server:
        server.behaviour.body = many_engines(64, label).replace("tiny", "t{}iny").encode()
        settings = settings_for(server.url(""), interval="500ms", window="500ms")
        async with running(settings) as seen:
            # Of engines that are folded no counter is believed, so their health is not seen.
            await seen.verdict(Verdict.UNKNOWN if label else Verdict.NONE)
            await until(lambda: any(engines_of(step) for step in seen.steps[-1:]))
            status, text = await seen.get("/metrics")
            assert status == 200
            shown = values(text)
            assert ("vllm_sidecar_kv_usage_ratio", ("0" if not label else "other", "max")) in shown
            assert len(shown) <= most
            await asyncio.to_thread(lint, text)
