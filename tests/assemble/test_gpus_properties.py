"""Whatever driver and processes do: no more is told than they said, and unknown is never a number."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from sidecar.assemble.gpus import Gpus
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading, Process, ProcessReading
from sidecar.model.samples import Instant

PIDS = st.integers(0, 6)
BYTES = st.integers(0, 1 << 36)
SIZES = st.none() | BYTES
NAMES = st.sampled_from(["vllm", "VLLM::EngineCor", "VLLM::Worker", "python3"])
PROCESSES = st.builds(
    ProcessReading,
    processes=st.lists(
        st.builds(Process, pid=PIDS, comm=NAMES, born=st.none() | st.integers(0, 3)),
        max_size=4,
        unique_by=lambda one: one.pid,
    ).map(tuple),
    root=st.none() | PIDS,
    host_pids=st.booleans() | st.just(True),  # noqa: FBT003
)
CARDS = st.builds(
    Gpu,
    index=st.integers(0, 1),
    uuid=st.sampled_from(["a", "b"]),
    name=st.just("a"),
    total=SIZES,
    used=SIZES,
    free=SIZES,
    reserved=SIZES,
    utilization=st.none(),
    processes=st.none() | st.lists(st.builds(GpuProcess, PIDS, SIZES), max_size=5).map(tuple),
    mig=st.booleans(),
    lost=st.booleans(),
)
READINGS = st.builds(
    NvmlReading,
    driver=st.just("1"),
    gpus=st.lists(CARDS, max_size=2, unique_by=lambda gpu: gpu.index).map(tuple),
)
STEPS = st.tuples(READINGS | PROCESSES | st.none() | st.just("no listing"), st.booleans())


def told(steps: list[tuple[object, bool]]) -> Iterator[tuple[Gpus, tuple[GpuBudget, ...]]]:
    """What is known after each step."""
    seen = Gpus()
    for n, (step, serves) in enumerate(steps):
        now = Instant(n, n)
        match step:
            case NvmlReading():
                seen.feed(step, now, serves=serves)
            case ProcessReading():
                seen.see_processes(step)
            case None:
                seen.miss()
            case _:
                seen.see_processes(None)
        yield seen, seen.budgets(now)


@given(st.lists(STEPS, max_size=12))
def test_no_more_is_held_than_the_driver_says(steps: list[tuple[object, bool]]) -> None:
    for seen, budgets in told(steps):
        if seen.reading is None:
            continue
        for gpu, budget in zip(seen.reading.gpus, budgets, strict=True):
            listed = sum(one.used or 0 for one in gpu.processes or ())
            held = (budget.vllm or 0) + (budget.cotenant or 0)
            assert held <= listed
            assert (budget.orphans or 0) <= listed - (budget.vllm or 0)
            if budget.sight is Sight.SEEN:
                assert held == listed


@given(st.lists(STEPS, max_size=12))
def test_unknown_is_never_a_number(steps: list[tuple[object, bool]]) -> None:
    for seen, budgets in told(steps):
        reading, known = seen.processes, seen.reading
        for place, budget in enumerate(budgets):
            gpu = None if known is None else known.gpus[place]
            blind = gpu is None or gpu.lost or gpu.processes is None
            foreign = reading is None or not reading.host_pids
            if blind or foreign:
                assert budget.sight is not Sight.SEEN
                assert (budget.vllm, budget.cotenant, budget.orphans) == (None, None, None)
            sizes = [] if gpu is None else [one.used for one in gpu.processes or ()]
            if None in sizes:
                assert budget.sight is not Sight.SEEN
            if budget.sight is Sight.SEEN:
                assert None not in (budget.vllm, budget.cotenant, budget.orphans)


@given(st.lists(STEPS, max_size=12))
def test_a_judged_reading_is_the_budget_of_its_tick(steps: list[tuple[object, bool]]) -> None:
    for seen, budgets in told(steps):
        whose = seen.judge()
        assert seen.judge() == {}
        for budget in budgets if whose else ():
            one = whose[budget.index]
            assert (one.sight, one.cotenant) == (budget.sight, budget.cotenant)
            assert one.strangers <= (one.cotenant or 0)


FREE = st.lists(
    st.tuples(
        st.floats(0.1, 200.0),
        st.none() | st.integers(0, 1000) | st.just("miss") | st.just("asleep"),
    ),
    min_size=5,
    max_size=120,
)


@given(FREE)
def test_no_more_is_durable_than_was_ever_free_within_the_horizon(
    steps: list[tuple[float, int | str | None]],
) -> None:
    seen, at = Gpus(), 0.0
    free: list[tuple[float, int]] = []
    for pause, step in steps:
        at += pause
        now = Instant(at, at)
        gpu = Gpu(0, "a", "a", None, None, None, None, utilization=None, processes=None)
        if step == "miss":
            seen.miss()
            assert all(budget.free_durable is None for budget in seen.budgets(now))
            continue
        serves = step != "asleep"
        size = step if isinstance(step, int) else None
        if not serves:
            free.clear()
        if size is not None:
            free.append((at, size))
        shown = Gpu(**{**{n: getattr(gpu, n) for n in gpu.__slots__}, "free": size})
        seen.feed(NvmlReading("1", (shown,)), now, serves=serves)
        (budget,) = seen.budgets(now)
        within = [size for then, size in free if at - then <= 600]
        if budget.free_durable is not None:
            assert size is not None
            assert budget.free_durable <= min(within)
            assert free[0][0] <= at - 600
