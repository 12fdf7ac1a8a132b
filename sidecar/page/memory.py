"""GPU and host memory: who holds it, and how much room is left before something fails."""

from collections.abc import Iterator

from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import LimitOwner, Source
from sidecar.page.bars import show_bar
from sidecar.page.shown import Shown
from sidecar.telling.blind_spots import say_fault
from sidecar.telling.figures import UNKNOWN, say_bytes, say_duration, say_list
from sidecar.telling.markup import Markup, element, join
from sidecar.telling.plain import plain_text

MOST_GPUS = 16
SIGHT_WORDS = {
    Sight.SEEN: "",
    Sight.OTHER_NAMESPACE: "whose it is cannot be told: the driver's pids are of another namespace",
    Sight.HIDDEN: "whose it is cannot be told: the driver lists no processes",
    Sight.NO_SERVER: "whose it is cannot be told: no process of the server is known",
}
LIMIT_WORDS = {
    LimitOwner.OWN: "the server's own limit",
    LimitOwner.ABOVE: "the limit of the control group above it",
    LimitOwner.BELOW: "a limit below it",
    LimitOwner.HOST: "the end of the host's memory",
}


def show_memory(shown: Shown) -> Markup:
    """Both kinds of memory."""
    return element(
        "section",
        element("h2", "Memory", id="memory"),
        element("h3", "GPU"),
        show_gpus(shown),
        element("h3", "Host"),
        show_host(shown),
        aria_labelledby="memory",
    )


def say_absence(shown: Shown, source: Source) -> str:
    """Why a source shows nothing."""
    status = shown.report.sources.get(source)
    if status is None or not status.configured:
        return f"Not read: {source.value} was not asked for, or is not there."
    if status.last_fault is None:
        return "Not read yet."
    return f"Not read: {say_fault(source, status.last_fault)}."


def show_gpus(shown: Shown) -> Markup:
    """A bar for each GPU."""
    last = shown.report.last_window
    gpus = () if last is None else last.window.gpus
    if not gpus or shown.report.nvml is None:
        return element("p", say_absence(shown, Source.NVML))
    names = {gpu.index: plain_text(gpu.name) for gpu in shown.report.nvml.gpus}
    rows = [show_gpu(gpu, names.get(gpu.index, "")) for gpu in gpus[:MOST_GPUS]]
    return element("dl", join(rows), class_="budgets")


def show_gpu(gpu: GpuBudget, name: str) -> Markup:
    """One GPU: used of total, whose it is, and the least that was free."""
    share = gpu.used / gpu.total if gpu.total and gpu.used is not None else None
    said = say_list(list(gpu_words(gpu)))
    title = f"GPU {gpu.index} {name}"
    lost = " (lost)" if gpu.lost else ""
    bar = show_bar(share, f"{title}: {said}")
    return join((element("dt", f"{title}{lost}"), element("dd", bar, element("p", said))))


def gpu_words(gpu: GpuBudget) -> Iterator[str]:
    """What is known of a GPU's memory."""

    def say(value: float | None) -> str:
        return UNKNOWN if value is None else say_bytes(value)

    yield f"{say(gpu.used)} of {say(gpu.total)} used"
    yield f"{say(gpu.free)} free now"
    if gpu.free_durable is not None:
        yield f"at least {say(gpu.free_durable)} free over the last ten minutes"
    if gpu.vllm is not None:
        yield f"{say(gpu.vllm)} held by vLLM"
    if gpu.cotenant:
        yield f"{say(gpu.cotenant)} held by others"
    if gpu.orphans:
        yield f"{say(gpu.orphans)} held by engine processes that a dead server left"
    if SIGHT_WORDS[gpu.sight]:
        yield SIGHT_WORDS[gpu.sight]


def show_host(shown: Shown) -> Markup:
    """The server's control group, and the room up to each limit."""
    cgroup = shown.report.cgroup
    if cgroup is None or cgroup.gone:
        gone = (
            "The server's control group is gone." if cgroup else say_absence(shown, Source.CGROUP)
        )
        return element("p", gone)
    share = cgroup.current / cgroup.limit if cgroup.limit and cgroup.current is not None else None
    told = [element("p", sentence) for sentence in host_words(shown, cgroup)]
    bar = show_bar(share, "memory of the control group") if cgroup.limit else Markup("")
    return element(
        "dl", element("dt", "Control group"), element("dd", bar, *told), class_="budgets"
    )


def host_words(shown: Shown, cgroup: CgroupReading) -> Iterator[str]:
    """What is known of it, a sentence each."""
    current = UNKNOWN if cgroup.current is None else say_bytes(cgroup.current)
    limit = (
        "no limit of its own" if cgroup.limit is None else f"a limit of {say_bytes(cgroup.limit)}"
    )
    taken = (
        ""
        if cgroup.reclaimable is None
        else f", of which {say_bytes(cgroup.reclaimable)} can be taken back"
    )
    peak = "" if cgroup.peak is None else f", {say_bytes(cgroup.peak)} at most so far"
    yield f"{current} used now{taken}{peak}; {limit}."
    outlook = shown.report.outlook
    if outlook is None:
        return
    for owner, room in outlook.headroom.items():
        yield f"{say_bytes(room)} up to {LIMIT_WORDS[owner]}."
    if outlook.time_to_limit_s is not None:
        yield f"If it goes on to grow as it does, a limit is met in {say_duration(outlook.time_to_limit_s)}."
