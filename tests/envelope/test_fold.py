"""What of a run counts: where its work begins and ends, several engines, GPUs, a growing queue."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.classify.policy import Policy
from sidecar.envelope.fold import LiveRules, Load, fold
from sidecar.envelope.span import place
from sidecar.model.envelope import ServerView
from sidecar.model.readings import (
    CgroupReading,
    EngineReading,
    Gpu,
    GpuProcess,
    Histogram,
    MetricsReading,
    NvmlReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, Source, Verdict

T0 = 1_700_000_000.0
ASKED = frozenset({Source.VLLM_METRICS})
RULES = LiveRules(5.0, Policy(), ASKED)
SOURCES = {
    MetricsReading: Source.VLLM_METRICS,
    NvmlReading: Source.NVML,
    CgroupReading: Source.CGROUP,
    ProcessReading: Source.PROCESS,
}


@dataclass(frozen=True)
class Seen:
    """One engine at one look."""

    done: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0
    preemptions: float = 0.0
    tokens: float = 0.0


def engine(seen: Seen) -> EngineReading:
    e2e = Histogram(((1.0, seen.done), (math.inf, seen.done)), seen.done, seen.done * 0.5)
    return EngineReading(
        values={
            roles.RUNNING: seen.running,
            roles.WAITING: seen.waiting,
            roles.KV_USAGE: seen.usage,
            roles.PREEMPTIONS: seen.preemptions,
            roles.GENERATION_TOKENS: seen.tokens or seen.done * 10,
            roles.PROMPT_TOKENS: seen.done * 100,
        },
        histograms={roles.E2E: e2e},
        outcomes={"length": seen.done, "abort": 0.0, "error": 0.0},
    )


def metrics(*engines: Seen, tokens_of_cache: str = "1000") -> MetricsReading:
    told = {str(n): engine(seen) for n, seen in enumerate(engines)}
    found = frozenset(role for one in told.values() for role in (*one.values, *one.histograms))
    info = {"kv_cache_size_tokens": tokens_of_cache, "model_name": "m", "cache_dtype": "auto"}
    return MetricsReading("vllm:", found, told, generation="v1", info=info)


def tick(second: float, *readings: Reading) -> Tick:
    at = Instant(second, T0 + second)
    return Tick(
        at=at, samples=tuple(Sample(SOURCES[type(one)], at, reading=one) for one in readings)
    )


def fold_all(
    ticks: Iterable[Tick], begun: float = 0.0, finished: float = 1e4, drained: float | None = None
) -> ServerView:
    over = None if drained is None else T0 + drained
    return fold(ticks, Load(T0 + begun, T0 + finished, over), RULES).server


IDLE = Seen()


def test_the_time_before_and_after_the_work_is_no_part_of_the_run() -> None:
    busy = [Seen(done=n, running=2, usage=0.4) for n in range(4)]
    looks = [IDLE, IDLE, IDLE, *busy, Seen(done=4), Seen(done=4), Seen(done=4)]
    view = fold_all(tick(n, metrics(seen)) for n, seen in enumerate(looks))
    # It began between the looks at 2 s and 3 s, and ended between those at 6 s and 7 s.
    assert view.seconds == 4.0
    assert view.completed == 4.0
    assert view.output_tokens_per_second == 10.0
    assert view.cache_mean == view.cache_peak == 0.4
    assert view.per_running == pytest.approx(200)
    assert view.e2e.mean == 0.5


def test_a_pause_amid_the_work_is_a_part_of_it() -> None:
    looks = [IDLE, Seen(running=1, usage=0.5), Seen(done=1), Seen(done=1), Seen(done=1)]
    looks += [Seen(done=1, running=1, usage=0.5), Seen(done=2), Seen(done=2)]
    view = fold_all(tick(n, metrics(seen)) for n, seen in enumerate(looks))
    assert view.seconds == 5.0
    assert view.cache_mean == pytest.approx(0.2)


def test_work_that_no_look_met_is_counted_and_fills_no_cache() -> None:
    looks = [IDLE, IDLE, Seen(done=3), Seen(done=3)]
    view = fold_all(tick(n, metrics(seen)) for n, seen in enumerate(looks))
    assert view.completed == 3.0
    assert view.seconds == 0.5
    assert view.cache_peak is None
    assert view.queue_grew is None


def test_what_was_done_before_the_load_is_not_the_loads() -> None:
    looks = [IDLE, Seen(done=5, running=1), Seen(done=9), Seen(done=9, running=1), Seen(done=11)]
    view = fold_all((tick(n, metrics(seen)) for n, seen in enumerate(looks)), begun=2.0)
    assert view.completed == 2.0
    assert view.seconds == 1.0


def test_a_load_that_did_nothing_completed_nothing() -> None:
    view = fold_all(tick(n, metrics(IDLE)) for n in range(5))
    assert (view.completed, view.preemptions, view.seconds) == (0.0, 0.0, 0.0)
    assert view.output_tokens_per_second is None
    assert view.preemptions_per_request is None


def test_nothing_that_was_seen_is_nothing_that_is_known() -> None:
    view = fold_all([])
    assert view == ServerView(seconds=0.0)
    blind = [Tick(Instant(n, T0 + n), (Sample(Source.VLLM_METRICS, Instant(n, T0 + n), fault=Fault.REFUSED),)) for n in range(3)]  # fmt: skip
    view = fold_all(blind)
    assert view.completed is None
    assert view.verdicts == {Verdict.UNKNOWN: 1}


def test_several_engines_are_one_server() -> None:
    looks = [
        (IDLE, IDLE),
        (Seen(running=3, usage=0.9, waiting=1), Seen(running=1, usage=0.1)),
        (
            Seen(done=4, running=1, usage=0.3, preemptions=2),
            Seen(done=1, running=2, usage=0.3, waiting=5, preemptions=1),
        ),
        (Seen(done=6, preemptions=2), Seen(done=2, preemptions=1)),
    ]
    view = fold_all(tick(n, metrics(*seen)) for n, seen in enumerate(looks))
    assert view.completed == 8.0
    assert view.preemptions == 3.0
    assert view.output_tokens_per_second == 80 / 2
    assert view.running_peak == 3.0
    assert view.waiting_peak == 5.0
    assert view.cache_peak == 0.9
    assert view.cache_mean == pytest.approx(0.6)
    assert view.per_running == pytest.approx(1000 * (0.6 + 0.2) / (2.0 + 1.5))
    assert view.e2e.mean == 0.5


def gpu(index: int, free: int) -> Gpu:
    processes = (GpuProcess(100 + index, 1000),)
    return Gpu(index, f"GPU-{index}", f"card {index}", 10_000, 10_000 - free, free, 0, 0.5, processes)  # fmt: skip


def test_memory_is_told_where_it_was_tightest() -> None:
    def look(second: float, free: int, host: int, seen: Seen) -> Tick:
        cards = NvmlReading("d", (gpu(0, free), gpu(1, 10)))
        cgroup = CgroupReading(
            2, "/c", current=host, reclaimable=0, limit=5000, events={"oom_kill": 0}
        )
        mine = ProcessReading((Process(100, "vllm", born=7),), root=100)
        return tick(second, mine, metrics(seen), cards, cgroup)

    looks = [
        look(0, 50, 4990, IDLE),
        look(1, 900, 1000, Seen(running=1)),
        look(2, 700, 3000, Seen(running=1)),
        look(3, 800, 2000, Seen(done=1)),
    ]
    folded = fold(looks, Load(T0, T0 + 3, T0 + 3), RULES)
    # The other card is another's; the tight moment was before the load.
    assert folded.server.gpu_headroom == 700.0
    assert folded.server.host_headroom == 2000.0
    assert folded.identity.gpus == ("card 0",)


def queue(waiting: Sequence[float], finished: float = 1e4) -> bool | None:
    looks = [IDLE, *(Seen(running=1, waiting=count) for count in waiting), Seen(done=1)]
    return fold_all(
        (tick(n, metrics(seen)) for n, seen in enumerate(looks)), finished=finished
    ).queue_grew


@pytest.mark.parametrize(
    ("waiting", "grew"),
    [
        ([0] * 9, False),
        ([0, 0, 0, 2, 2, 2, 4, 4, 4], True),
        ([0, 2, 4, 5, 5, 5, 5, 5, 5], False),
        ([5, 5, 5, 1, 1, 1, 5, 5, 5], False),
        ([4, 4, 4, 2, 2, 2, 4, 5, 4], False),
        ([0, 1, 0, 1, 0, 1, 1, 1, 1], False),
        ([100, 100, 100, 101, 102, 101, 105, 106, 104], False),
        ([100, 100, 100, 110, 112, 111, 125, 126, 124], True),
        ([1, 2], None),
    ],
)
def test_a_queue_grows_if_it_is_longest_at_last_and_by_more_than_chance(
    waiting: list[float], *, grew: bool | None
) -> None:
    assert queue(waiting) is grew


def test_a_queue_is_looked_at_while_the_load_goes_on() -> None:
    growing = [0, 0, 0, 2, 2, 2, 4, 4, 4]
    assert queue([*growing, *([0] * 30)], finished=9.0) is True


def test_a_server_that_was_drained_before_the_command_ended_took_no_time() -> None:
    looks = [tick(n, metrics(Seen(done=n))) for n in range(4)]
    assert fold_all(looks, finished=9.0, drained=8.5).drained_s == 0.0
    assert fold_all(looks, finished=2.0, drained=3.0).drained_s == 1.0
    assert fold_all(looks).drained_s is None


def test_a_restart_amid_the_run_is_a_death_without_a_cause() -> None:
    looks = [IDLE, Seen(done=9, running=1), Seen(done=1, running=1), Seen(done=3)]
    folded = fold([tick(n, metrics(s)) for n, s in enumerate(looks)], Load(T0, T0 + 9), RULES)
    assert folded.killed is Verdict.UNKNOWN
    assert folded.server.completed == 12.0


@dataclass
class World:
    """A server that works now and then."""

    looks: list[Seen] = field(default_factory=lambda: [IDLE])

    def add(self, done: int, running: int, preemptions: int) -> None:
        last = self.looks[-1]
        self.looks.append(
            Seen(
                done=last.done + done,
                running=running,
                usage=running / 10,
                preemptions=last.preemptions + preemptions,
            )
        )


looks_strategy = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=25
)


@given(looks_strategy)
def test_every_tick_of_the_work_counts_once(steps: list[tuple[int, int, int]]) -> None:
    world = World()
    for step in steps:
        world.add(*step)
    ticks = [tick(n, metrics(seen)) for n, seen in enumerate(world.looks)]
    placed = list(place(ticks, T0 - 1))
    assert [one.tick for one in placed] == ticks[: len(placed)]
    assert sum(one.ended for one in placed) <= 1
    assert not any(one.ended for one in placed[:-1])
    view = fold_all(ticks, begun=-1.0)
    last = world.looks[-1]
    assert view.completed == last.done
    assert view.preemptions == last.preemptions
    assert 0 <= view.seconds <= len(ticks)
    if view.cache_peak is not None:
        assert view.cache_peak == max(seen.running for seen in world.looks) / 10


@given(looks_strategy, st.integers(0, 5), st.integers(0, 5))
def test_idle_time_around_the_work_changes_nothing(
    steps: list[tuple[int, int, int]], before: int, after: int
) -> None:
    world = World()
    for step in [*steps, (1, 0, 0)]:
        world.add(*step)
    padded = [IDLE] * before + world.looks + [world.looks[-1]] * after
    bare, more = (
        fold_all([tick(n, metrics(seen)) for n, seen in enumerate(looks)], begun=-1.0)
        for looks in (world.looks, padded)
    )
    assert replace(more, verdicts={}, unobservable={}) == replace(
        bare, verdicts={}, unobservable={}
    )
