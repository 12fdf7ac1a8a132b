"""A server that is watched in virtual time: readings as the sources give them, without the sources."""

from dataclasses import dataclass, field

from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.model.readings import (
    CgroupReading,
    Gpu,
    GpuProcess,
    HealthReading,
    KernelReading,
    LogReading,
    NvmlReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Source
from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.pipeline import Pipeline, Step
from tests.benchmarks.made_exposition import TEXT, MadeExposition

GIB = 1 << 30
BEGIN = 1_700_000_000.0
WINDOW_S = 15.0
EVIDENCE_KEYS = EVIDENCE


@dataclass(slots=True)
class VirtualServer:
    """Ticks of a server with so many engines, ``interval_s`` apart."""

    engines: int = 1
    interval_s: float = 1.0
    ticks: int = 0
    reader: ExpositionReader = field(default_factory=ExpositionReader)
    made: MadeExposition = field(init=False)
    pipeline: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        self.made = MadeExposition(self.engines)
        self.pipeline = Pipeline(
            window_s=WINDOW_S,
            policy=Policy(),
            configured=frozenset({Source.VLLM_METRICS, Source.VLLM_HEALTH}),
        )

    @property
    def now(self) -> Instant:
        """The moment of the next tick."""
        passed = self.ticks * self.interval_s
        return Instant(passed, BEGIN + passed)

    def body(self) -> bytes:
        """The exposition at this moment."""
        return self.made.scrape(self.ticks)

    def step(self, body: bytes) -> Step:
        """One tick through all of the thinking."""
        now = self.now
        readings: tuple[tuple[Source, Reading], ...] = (
            (Source.VLLM_METRICS, self.reader.read(body, TEXT)),
            (Source.VLLM_HEALTH, HealthReading(200)),
            (Source.PROCESS, self.processes()),
            (Source.CGROUP, self.cgroup()),
            (Source.VLLM_LOG, LogReading(lines=1, bytes=90, positions={"log": {"at": self.ticks}})),
            (Source.KERNEL_LOG, KernelReading(position={"at": self.ticks})),
            (Source.NVML, self.gpus()),
        )
        samples = tuple(Sample(source, now, reading=reading) for source, reading in readings)
        self.ticks += 1
        step = self.pipeline.step(Tick(at=now, samples=samples))
        self.pipeline.checkpoint(now)
        return step

    def processes(self) -> ProcessReading:
        """An API server and an engine process for each engine."""
        names = ["VLLM::APIServer", *["VLLM::EngineCor"] * self.engines]
        listed = (
            Process(pid=100 + n, comm=name, rss=GIB + self.ticks % 5, born=n)
            for n, name in enumerate(names)
        )
        return ProcessReading(tuple(listed), root=100, host_pids=True)

    def cgroup(self) -> CgroupReading:
        """A cgroup far from its limit."""
        return CgroupReading(
            version=2,
            path="/a",
            identity=7,
            events={"oom": 0, "oom_kill": 0},
            current=20 * GIB + self.ticks % 7,
            limit=64 * GIB,
            reclaimable=2 * GIB,
        )

    def gpus(self) -> NvmlReading:
        """A GPU for each engine, which is busy on it."""
        return NvmlReading(
            driver="550.1",
            gpus=tuple(
                Gpu(
                    index=n,
                    uuid=f"GPU-{n}",
                    name="a GPU",
                    total=80 * GIB,
                    used=70 * GIB,
                    free=10 * GIB,
                    reserved=0,
                    utilization=0.9,
                    processes=(GpuProcess(pid=101 + n, used=69 * GIB),),
                )
                for n in range(self.engines)
            ),
        )
