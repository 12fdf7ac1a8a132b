"""Windows: their edges, gaps, stepped clocks; every tick in exactly one; dark is never health."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.classify.policy import Policy
from sidecar.derive.latency import measure_throughput
from sidecar.model.readings import (
    CgroupReading,
    EngineReading,
    HealthReading,
    KernelReading,
    LogReading,
    MetricsReading,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Fault, Severity, Source, Verdict
from sidecar.parse.recorded_cgroup import read_cgroup_row
from sidecar.pipeline import Pipeline

WANTED = frozenset({Source.VLLM_METRICS, Source.VLLM_HEALTH})


def pipeline(window_s: float = 10.0, wanted: frozenset[Source] = WANTED) -> Pipeline:
    return Pipeline(window_s=window_s, policy=Policy(), configured=wanted)


def at(unix: float, monotonic: float | None = None) -> Instant:
    return Instant(unix if monotonic is None else monotonic, unix)


def exposition(
    preemptions: float = 0.0, tokens: float = 0.0, running: float = 0.0, waiting: float = 0.0
) -> MetricsReading:
    values = {
        roles.RUNNING: running,
        roles.WAITING: waiting,
        roles.KV_USAGE: 0.5,
        roles.PREEMPTIONS: preemptions,
        roles.GENERATION_TOKENS: tokens,
        roles.FINISHED: tokens / 100,
    }
    return MetricsReading(
        naming="vllm:",
        found=frozenset(values),
        engines={"0": EngineReading(values=values)},
        generation="v1",
    )


def tick(moment: Instant, *readings: Reading, source: Source = Source.VLLM_METRICS) -> Tick:
    samples = tuple(Sample(source=source, at=moment, reading=reading) for reading in readings)
    return Tick(at=moment, samples=samples)


def run(p: Pipeline, *ticks: Tick) -> list[Judgement]:
    closed = [judgement for t in ticks for judgement in p.step(t).closed]
    return [*closed, *p.finish()]


def test_edges_are_multiples_of_the_window_on_the_wall_clock() -> None:
    found = run(pipeline(), *(tick(at(1003.0 + n), exposition()) for n in range(30)))
    assert [(j.window.start, j.window.end) for j in found] == [
        (1000, 1010),
        (1010, 1020),
        (1020, 1030),
        (1030, 1040),
    ]
    assert [j.window.partial for j in found] == [True, False, False, False]


def test_a_tick_on_an_edge_ends_the_window_before_it() -> None:
    p = pipeline()
    assert not p.step(tick(at(1009.0), exposition(0))).closed
    (ended,) = p.step(tick(at(1010.0), exposition(4))).closed
    assert ended.window.end == 1010
    assert ended.window.engines["0"].deltas[roles.PREEMPTIONS] == 4


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60), st.sampled_from([5.0, 10.0, 15.0]))
def test_every_preemption_lands_in_exactly_one_window(rises: list[int], window_s: float) -> None:
    total = 0.0
    ticks = []
    for n, rise in enumerate(rises):
        total += rise
        ticks.append(tick(at(1001.0 + n), exposition(total)))
    found = run(pipeline(window_s), *ticks)
    counted = sum(
        e.deltas.get(roles.PREEMPTIONS, 0) for j in found for e in j.window.engines.values()
    )
    assert counted == total - rises[0]
    assert all(j.window.end - j.window.start == window_s for j in found)
    assert len({j.window.end for j in found}) == len(found)


def test_a_machine_that_stood_still_gives_unknown_windows_in_between() -> None:
    found = run(
        pipeline(),
        *(tick(at(1000.0 + n), exposition()) for n in range(1, 6)),
        tick(at(1037.0), exposition()),
    )
    assert [(j.window.end, j.verdict) for j in found] == [
        (1010, Verdict.NONE),
        (1020, Verdict.UNKNOWN),
        (1030, Verdict.UNKNOWN),
        (1040, Verdict.NONE),
    ]


def test_a_rate_is_over_the_time_that_its_counter_rose_in() -> None:
    def look(n: int) -> Tick:
        moment = at(1000.0 + n)
        if 10 < n < 38:
            failed = Sample(source=Source.VLLM_METRICS, at=moment, fault=Fault.TIMEOUT)
            return Tick(at=moment, samples=(failed,))
        return tick(moment, exposition(tokens=100.0 * n))

    rates = {
        j.window.end - 1000: measure_throughput(j.window).get("generation")
        for j in run(pipeline(), *map(look, range(51)))
    }
    assert rates[10] == rates[50] == 100
    assert rates[20] is rates[30] is None
    assert rates[40] == 100, "what nobody looked at for 28 s was not made in ten"


def test_a_new_servers_rate_is_not_over_the_time_that_nobody_served() -> None:
    ticks = [tick(at(1000.0 + n), exposition(tokens=9000.0 + n)) for n in range(10)]
    ticks += [tick(at(1091.0 + n), exposition(tokens=100.0 * n)) for n in range(10)]
    found = run(pipeline(), *ticks)
    assert found[-1].window.restarted
    assert measure_throughput(found[-1].window)["generation"] == pytest.approx(90)


def test_a_year_without_a_tick_does_not_give_a_year_of_windows() -> None:
    found = run(pipeline(), tick(at(1001.0), exposition()), tick(at(3e7), exposition()))
    assert len(found) < 300


@pytest.mark.parametrize("step", [-3600.0, 3600.0, -7.0, 7.0])
def test_a_stepped_wall_clock_breaks_nothing(step: float) -> None:
    p = pipeline()
    ticks = [tick(at(1000.0 + n, 50.0 + n), exposition(n)) for n in range(1, 26)]
    ticks += [tick(at(1025.0 + step + n, 75.0 + n), exposition(25 + n)) for n in range(1, 31)]
    found = run(p, *ticks)
    counted = sum(
        e.deltas.get(roles.PREEMPTIONS, 0) for j in found for e in j.window.engines.values()
    )
    assert counted == 54
    assert all(j.window.stalled_s >= 0 for j in found)


FAULTS = st.sampled_from(list(Fault))


@given(st.lists(FAULTS, min_size=1, max_size=30))
def test_with_every_source_down_no_window_is_none(faults: list[Fault]) -> None:
    ticks = [
        Tick(
            at=at(1001.0 + n),
            samples=tuple(
                Sample(source=source, at=at(1001.0 + n), fault=fault) for source in Source
            ),
        )
        for n, fault in enumerate(faults)
    ]
    assert Verdict.NONE not in {j.verdict for j in run(pipeline(wanted=frozenset(Source)), *ticks)}


readings = st.sampled_from(
    [
        exposition(),
        exposition(3, 100, 2, 1),
        replace(exposition(), naming=None, found=frozenset(), engines={}),
        HealthReading(200),
        HealthReading(503),
        LogReading(),
        KernelReading(),
        CgroupReading(version=2, path="/a", events={"oom_kill": 0}),
        CgroupReading(version=2, path="/a", events={"oom_kill": 1}),
        CgroupReading(version=2, path="/a", gone=True),
        ProcessReading(()),
    ]
)
SOURCE_OF = {
    MetricsReading: Source.VLLM_METRICS,
    HealthReading: Source.VLLM_HEALTH,
    LogReading: Source.VLLM_LOG,
    KernelReading: Source.KERNEL_LOG,
    CgroupReading: Source.CGROUP,
    ProcessReading: Source.PROCESS,
}


@given(st.lists(st.lists(readings, max_size=5), max_size=40))
def test_any_order_of_anything_gives_every_window_one_verdict(
    rounds: list[list[Reading]],
) -> None:
    ticks = [
        Tick(
            at=at(1001.0 + n),
            samples=tuple(
                Sample(source=SOURCE_OF[type(reading)], at=at(1001.0 + n), reading=reading)
                for reading in each
            ),
        )
        for n, each in enumerate(rounds)
    ]
    found = run(pipeline(), *ticks)
    assert len({j.window.end for j in found}) == len(found)
    for j in found:
        assert j.causes == () or j.verdict is j.causes[0].cause.verdict
        ranks = [list(Cause).index(c.cause) for c in j.causes]
        assert ranks == sorted(ranks)


def loaded(n: int, *, waiting: float) -> Tick:
    return tick(at(1000.0 + n), exposition(n, 10.0 * n, running=4, waiting=waiting))


def test_preemption_that_lasts_while_requests_wait_becomes_critical() -> None:
    found = run(pipeline(), *(loaded(n, waiting=3) for n in range(1, 51)))
    levels = [j.severity for j in found]
    assert levels == [Severity.WARNING] * 2 + [Severity.CRITICAL] * 3


def test_preemption_that_lasts_while_nobody_waits_stays_a_warning() -> None:
    found = run(pipeline(), *(loaded(n, waiting=0) for n in range(1, 51)))
    assert {j.severity for j in found} == {Severity.WARNING}


def test_preemption_within_the_tolerance_is_info() -> None:
    ticks = [tick(at(1000.0 + n), exposition(n // 10, 1e6 * n, 4, 3)) for n in range(1, 21)]
    found = run(pipeline(), *ticks)
    assert [j.severity for j in found if j.verdict is Verdict.PREEMPTION] == [Severity.INFO] * 2


def test_a_log_that_is_far_behind_shows_no_health() -> None:
    p = pipeline(wanted=WANTED | {Source.VLLM_LOG})
    behind = LogReading(lag_bytes=100_000_000)
    ticks = []
    for n in range(1, 21):
        moment = at(1000.0 + n)
        log = behind if n > 10 else LogReading()
        samples = (
            Sample(source=Source.VLLM_METRICS, at=moment, reading=exposition()),
            Sample(source=Source.VLLM_LOG, at=moment, reading=log),
        )
        ticks.append(Tick(at=moment, samples=samples))
    assert [j.verdict for j in run(p, *ticks)] == [Verdict.NONE, Verdict.UNKNOWN]


def counted_kills(moment: float, kills: int) -> Tick:
    reading = CgroupReading(version=2, path="/a", events={"oom_kill": kills})
    sample = Sample(source=Source.CGROUP, at=at(moment), reading=reading)
    return Tick(at=at(moment), samples=(sample,), on_grid=False)


def test_a_failure_shows_before_its_window_closes() -> None:
    p = pipeline(wanted=WANTED | {Source.CGROUP})
    p.step(tick(at(1001.0), exposition()))
    before = p.step(counted_kills(1002.0, 0))
    assert not before.report.alerts
    step = p.step(counted_kills(1003.0, 1))
    assert not step.closed
    assert dict(step.report.alerts) == {Cause.HOST_OOM: Severity.CRITICAL}
    assert step.report.verdict is Verdict.HOST_OOM


@pytest.mark.parametrize("gap", [0, 1, 9], ids=["on_time", "the_edge_is_missed", "a_long_gap"])
def test_a_late_tick_takes_no_time_from_a_server_to_show_that_it_lives(gap: int) -> None:
    def looked(unix: float, kills: int) -> Tick:
        files = {"memory.events": f"oom_kill {kills}", "memory.events.local": f"oom_kill {kills}"}
        cgroup = read_cgroup_row({"version": 2, "path": "/ctr", "files": files})
        assert isinstance(cgroup, CgroupReading)
        samples = (
            Sample(source=Source.CGROUP, at=at(unix), reading=cgroup),
            Sample(source=Source.VLLM_METRICS, at=at(unix), reading=exposition()),
        )
        return Tick(at=at(unix), samples=samples)

    rest = (1010.0 + n for n in range(gap, 25))
    ticks = [looked(unix, int(unix > 1009.0)) for unix in (1008.0, 1009.5, *rest)]
    first, *_ = run(pipeline(), *ticks)
    assert [(c.cause, c.severity) for c in first.causes] == [(Cause.HOST_OOM, Severity.WARNING)]


def dying(moment: float, tokens: float, *, health: int = 200, running: float = 1) -> Tick:
    """A server whose engine was killed at 1000.95."""
    samples = (
        Sample(
            source=Source.VLLM_METRICS,
            at=at(moment),
            reading=exposition(tokens=tokens, running=running),
        ),
        Sample(source=Source.VLLM_HEALTH, at=at(moment), reading=HealthReading(health)),
        *counted_kills(moment, int(moment > 1000.95)).samples,
    )
    return Tick(at=at(moment), samples=samples)


@pytest.mark.parametrize(
    ("health", "running"), [(200, 1), (503, 1), (503, 0)], ids=["V0", "kept_alive", "idle"]
)
@pytest.mark.parametrize("interval", [1, 5, 15])
def test_tokens_made_before_a_kill_and_seen_after_it_show_no_life(
    interval: int, health: int, running: float
) -> None:
    """V0 answers well for up to 10 s after, and ``VLLM_KEEP_ALIVE_ON_ENGINE_DEATH`` (0.32) for ever."""
    seen = [interval * (1000 // interval + n) for n in range(3 + 40 // interval)]
    ticks = [
        *(dying(moment, 100) for moment in seen if moment <= 1000),
        counted_kills(1000.9, 0),
        counted_kills(1000.95, 1),
        *(dying(moment, 150, health=health, running=running) for moment in seen if moment > 1000),
    ]
    found = run(pipeline(15.0), *ticks)
    told = [j for j in found if j.window.start <= 1000.95 < j.window.end]
    assert [(j.verdict, j.severity) for j in told] == [(Verdict.HOST_OOM, Severity.CRITICAL)]


def refused(moment: float) -> Tick:
    return Tick(
        at=at(moment),
        samples=(Sample(source=Source.VLLM_METRICS, at=at(moment), fault=Fault.REFUSED),),
    )


def test_tokens_that_are_read_late_do_not_bring_a_dead_server_back() -> None:
    """The answer to a question asked before the kill comes once the window of the kill is closed."""
    ticks = [
        dying(999.0, 100),
        dying(1000.0, 110),
        counted_kills(1000.95, 0),
        counted_kills(1000.96, 1),
        refused(1002.0),
        replace(tick(at(1001.9), exposition(tokens=150)), at=at(1002.3), on_grid=False),
        *(refused(float(moment)) for moment in range(1003, 1013)),
    ]
    found = run(pipeline(2.0), *ticks)
    assert {j.verdict for j in found if j.window.start >= 1000} == {Verdict.HOST_OOM}


@pytest.mark.parametrize("interval", [1, 5, 15])
@pytest.mark.parametrize("begun", [1001.0, 1003.0, 1006.0, 1009.0, 1013.9])
def test_tokens_made_after_a_kill_show_life_however_slow_the_clock_is(
    interval: int, begun: float
) -> None:
    """A neighbour in the server's cgroup was killed; the server goes on."""
    readings = [
        tick(at(990 + t), exposition(tokens=100 + t, running=1)) for t in range(0, 90, interval)
    ]
    kills = [counted_kills(begun + 0.4, 0), counted_kills(begun + 0.5, 1)]
    ticks = sorted([*readings, *kills], key=lambda one: one.at.unix)
    told = [j for j in run(pipeline(15.0), *ticks) if j.verdict is Verdict.HOST_OOM]
    assert [j.severity for j in told] == [Severity.WARNING]


@pytest.mark.parametrize(("interval", "window_s"), [(1, 10), (5, 15)])
@pytest.mark.parametrize("status", [500, 503])
def test_a_health_endpoint_that_fails_once_is_no_death(
    interval: int, window_s: int, status: int
) -> None:
    ticks = [
        dying(moment, moment, health=status if 1001 <= moment < 1001 + interval else 200)
        for moment in range(990, 1060, interval)
    ]
    kills = [counted_kills(1000.94, 0), counted_kills(1000.95, 1)]
    found = run(pipeline(float(window_s)), *sorted([*ticks, *kills], key=lambda one: one.at.unix))
    told = [j for j in found if j.verdict is Verdict.HOST_OOM]
    assert [j.severity for j in told] == [Severity.WARNING]


def test_what_rose_before_a_kill_shows_no_life_after_an_exposition_without_names() -> None:
    ticks = [
        dying(1000.0, 100),
        counted_kills(1000.94, 0),
        counted_kills(1000.95, 1),
        tick(at(1001.0), MetricsReading(naming=None, found=frozenset(), engines={})),
        tick(at(1002.0), MetricsReading(naming=None, found=frozenset(), engines={})),
        *(dying(1003.0 + n, 150) for n in range(20)),
    ]
    told = [j for j in run(pipeline(5.0), *ticks) if j.window.start == 1000]
    assert [(j.verdict, j.severity) for j in told] == [(Verdict.HOST_OOM, Severity.CRITICAL)]


def test_a_server_on_a_starved_host_has_time_to_show_that_it_lives() -> None:
    before, after = (999.5, 999.75, 1000.0, 1000.25), (1002.6, 1002.85, 1003.1)
    ticks = [
        *(tick(at(moment), exposition(tokens=moment, running=1)) for moment in before),
        counted_kills(1000.4, 0),
        *(counted_kills(moment, 1) for moment in (1000.41, 1001.0, 1002.3)),
        *(tick(at(moment), exposition(tokens=moment, running=1)) for moment in after),
    ]
    told = [j for j in run(pipeline(0.5), *ticks) if j.verdict is Verdict.HOST_OOM]
    assert [j.severity for j in told] == [Severity.WARNING]


@pytest.mark.parametrize(("interval", "window_s"), [(1, 1), (1, 2), (5, 5), (5, 10), (10, 10)])
@pytest.mark.parametrize("before_s", [0.05, 0.5, 1.05, 3.3])
def test_windows_are_told_in_order_though_one_waits_for_a_sign_of_life(
    interval: int, window_s: int, before_s: float
) -> None:
    readings = [
        tick(at(1000 + t), exposition(tokens=100, running=1)) for t in range(0, 80, interval)
    ]
    kills = [counted_kills(1020 - before_s - 0.01, 0), counted_kills(1020 - before_s, 1)]
    ticks = sorted([*readings, *kills], key=lambda one: one.at.unix)
    found = run(pipeline(float(window_s)), *ticks)
    ends = [j.window.end for j in found]
    assert ends == sorted(set(ends))
    assert sum(bool(j.causes) and j.verdict is Verdict.HOST_OOM for j in found) == 1
