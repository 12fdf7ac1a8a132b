"""What is read again while the daemon runs holds from the next window on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from sidecar.config import Settings
from sidecar.model.vocabulary import Severity
from sidecar.reload import Outcome, Reloads
from tests.app.running import Running, running, settings_for
from tests.fakes.patience import until
from tests.fakes.vllm_server import FakeVllm, fake_vllm

NAMES = {
    "vllm:num_preemptions_total": 5,
    "vllm:generation_tokens_total": 100,
    'vllm:request_success_total{finished_reason="stop"}': 1,
}
GAUGES = {
    "vllm:num_requests_running": 4,
    "vllm:num_requests_waiting": 2,
    "vllm:kv_cache_usage_perc": 0.99,
}


def exposition(scrapes: int, engines: Sequence[str]) -> bytes:
    """Of engines that preempt more than they finish."""
    lines = []
    for engine in engines:
        for name, value in {k: v * scrapes for k, v in NAMES.items()}.items() | GAUGES.items():
            base, _, more = name.rstrip("}").partition("{")
            labels = ",".join(filter(None, (f'engine="{engine}"', 'model_name="m"', more)))
            lines.append(f"{base}{{{labels}}} {value}")
    return ("\n".join(sorted(lines)) + "\n").encode()


@contextlib.asynccontextmanager
async def pressed(engines: Sequence[str]) -> AsyncIterator[FakeVllm]:
    """A server whose counters rise all the time."""

    async def rise() -> None:
        scrapes = 0
        while True:
            scrapes += 1
            server.behaviour.body = exposition(scrapes, engines)
            await asyncio.sleep(0.02)

    async with fake_vllm() as server:
        rising = asyncio.create_task(rise())
        try:
            yield server
        finally:
            rising.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await rising


@dataclass
class Asking:
    """Settings that a test changes, and what came of its wishes."""

    settings: Settings
    outcomes: list[Outcome] = field(default_factory=list)

    def reloads(self) -> Reloads:
        return Reloads(lambda: self.settings, tell=self.outcomes.append)


def severity(seen: Running) -> Severity | None:
    """Of the last window that closed."""
    closed = [judgement for step in seen.steps for judgement in step.closed]
    return closed[-1].severity if closed else None


async def test_the_tolerance_decides_the_windows_that_close_from_then_on() -> None:
    async with pressed("0") as server:
        settings = settings_for(server.url(""))
        asking = Asking(settings)
        reloads = asking.reloads()
        async with running(settings, reloads=reloads) as seen:
            await until(lambda: severity(seen) in {Severity.WARNING, Severity.CRITICAL})
            asking.settings = settings_for(
                server.url(""), max_preemptions_per_request=1_000_000.0, interval="50ms"
            )
            reloads.wish.set()
            await until(lambda: severity(seen) is Severity.INFO)
            assert asking.outcomes == [Outcome(needs_restart=("interval",))]


async def test_the_number_of_engines_shown_apart_changes_with_the_next_tick() -> None:
    async with pressed("012") as server:
        settings = settings_for(server.url(""))
        asking = Asking(settings)
        reloads = asking.reloads()

        async def engines() -> set[str]:
            family = "vllm_sidecar_kv_usage_ratio"
            rows = await seen.metrics()
            return {labels[0] for name, labels in rows if name == family}

        async def are(wanted: set[str]) -> bool:
            return await engines() == wanted

        async with running(settings, reloads=reloads) as seen:
            await until(lambda: bool(seen.verdicts()))
            await until(lambda: are({"0", "1", "2"}))
            asking.settings = settings_for(server.url(""), max_engines=1)
            reloads.wish.set()
            await until(lambda: are({"0", "other"}))


async def test_what_came_of_a_reload_is_shown_before_the_next_tick() -> None:
    settings = settings_for("http://127.0.0.1:9", interval="5s", window="5s")
    asking = Asking(settings)
    reloads = asking.reloads()
    name = ("vllm_sidecar_config_last_reload_success_timestamp_seconds", ())
    async with running(settings, reloads=reloads) as seen:
        await until(lambda: bool(seen.steps))
        begun = (await seen.metrics())[name]
        ticks = len(seen.steps)
        reloads.wish.set()
        await until(lambda: bool(asking.outcomes))
        assert (await seen.metrics())[name] > begun
        assert len(seen.steps) - ticks <= 1
