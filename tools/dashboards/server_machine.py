"""One server's machine: memory of its GPUs and of its host."""

from sidecar.catalog import exported
from tools.dashboards.server_now import of
from tools.dashboards.shape import Query, Section, Unit, chart
from tools.dashboards.states import GREEN, ORANGE, RED

HOLDERS = ("total", "used", "vllm", "cotenant", "reserved")

GPU = Section(
    "GPU memory",
    (
        chart(
            "GPU memory by holder",
            Unit.BYTES,
            9,
            "What the card has, what of it is used, and by whom: this server, others on the same card, "
            "the driver.",
            Query(of(exported.GPU_MEMORY, kind=HOLDERS), "GPU {{gpu}} {{kind}}"),
            height=8,
        ),
        chart(
            "GPU memory that is free, and stays free",
            Unit.BYTES,
            6,
            "Free now, and the least that was free over ten minutes of serving: only that can be given "
            "to the KV cache.",
            Query(of(exported.GPU_MEMORY, kind="free"), "GPU {{gpu}} free"),
            Query(of(exported.GPU_FREE_DURABLE), "GPU {{gpu}} free for 10 minutes"),
            height=8,
        ),
        chart(
            "KV cache on each GPU",
            Unit.BYTES,
            4,
            "Bytes that the KV cache takes on each GPU of the engine, as vLLM tells them.",
            Query(of(exported.KV_CAPACITY_BYTES), "engine {{engine}}"),
            height=8,
        ),
        chart(
            "GPU time in use",
            Unit.SHARE,
            5,
            "Share of each window in which a kernel ran; full also where the work is slow.",
            Query(of(exported.GPU_UTILIZATION), "GPU {{gpu}}"),
            height=8,
            most=1,
        ),
    ),
)

HOST = Section(
    "Host memory",
    (
        chart(
            "Memory of the server's control group",
            Unit.BYTES,
            9,
            "Current memory against its limit; the kernel takes what is reclaimable back before it "
            "kills, and cannot take the rest.",
            Query(f"max by (kind) ({of(exported.HOST_MEMORY)})", "{{kind}}"),
            height=8,
        ),
        chart(
            "Headroom up to each limit",
            Unit.BYTES,
            6,
            "Bytes until the limit of the server's own group, of one above it, or of the host is met.",
            Query(f"max by (limit) ({of(exported.HOST_HEADROOM)})", "{{limit}}"),
            height=8,
        ),
        chart(
            "Time to the limit",
            Unit.SECONDS,
            4,
            "When the nearest limit is met if memory goes on growing; a gap where it does not grow.",
            Query(f"max({of(exported.HOST_TIME_TO_LIMIT)})", "time to limit"),
            steps=((None, RED), (600, GREEN)),
            height=8,
        ),
        chart(
            "Growth",
            Unit.BYTES_PER_SECOND,
            5,
            "How fast the group's memory grows without what is reclaimable, over the last minute.",
            Query(f"max({of(exported.HOST_GROWTH)})", "growth"),
            height=8,
        ),
        chart(
            "Memory pressure",
            Unit.SHARE,
            8,
            "Share of ten seconds in which some or all tasks of the group waited for memory: pressure, "
            "never a kill.",
            Query(f"max by (scope) ({of(exported.HOST_PRESSURE)})", "{{scope}}"),
            steps=((None, GREEN), (0.1, ORANGE)),
        ),
        chart(
            "Memory events of the kernel",
            Unit.NUMBER,
            8,
            "Events of the group as the kernel counts them; only oom_kill and oom_group_kill are kills.",
            Query(
                f"round(max by (event) (increase({of(exported.HOST_EVENT)}[$__rate_interval])))",
                "{{event}}",
            ),
            bars=True,
        ),
        chart(
            "Processes of the server",
            Unit.PROCESSES,
            8,
            "Processes by role; an orphaned engine has lost its API server and holds its GPU memory "
            "until it is killed.",
            Query(f"max by (role) ({of(exported.SERVER_PROCESSES)})", "{{role}}"),
            Query(f"max({of(exported.ORPHANED_PROCESSES)})", "orphaned"),
        ),
    ),
)

SECTIONS = (GPU, HOST)
