"""Kills, removals, restarts of the server and of ourselves in any order, through the whole pipeline."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.catalog import signals
from sidecar.classify.policy import Policy
from sidecar.model.readings import KernelReading
from sidecar.model.report import EvidenceKey
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Source
from sidecar.parse.kernel_line import KernelFold
from sidecar.parse.saved_state import decode_checkpoint, encode_checkpoint
from sidecar.pipeline import Pipeline
from tests.fakes.cgroup_machine import DEEDS, POD, CgroupMachine

COUNTED = (signals.OOM_KILL, signals.OOM_KILL_BELOW, signals.OOM_KILL_WITNESSED)
WINDOW_S = 2.0


def new_pipeline() -> Pipeline:
    return Pipeline(window_s=WINDOW_S, policy=Policy(), configured=frozenset({Source.CGROUP}))


class Run:
    """The machine, its kernel log, and a sidecar that may be restarted after any step."""

    def __init__(self, *, has_witness: bool, has_log: bool) -> None:
        self.machine = CgroupMachine(has_witness=has_witness)
        self.has_log = has_log
        self.now = 1000.0
        self.told = 0
        self.fold = KernelFold()
        self.pipeline = new_pipeline()
        self.judgements: list[Judgement] = []
        self.step()

    def do(self, deed: str) -> None:
        if deed == "step":
            self.step()
        elif deed == "restart":
            kept = encode_checkpoint(self.pipeline.checkpoint(self.at))
            self.pipeline = new_pipeline()
            self.pipeline.restore(decode_checkpoint(kept), self.at)
        else:
            self.machine.do(deed)

    @property
    def at(self) -> Instant:
        return Instant(self.now, self.now)

    def step(self) -> None:
        self.now += 1.0
        at = self.at
        samples = [Sample(Source.CGROUP, at, reading=self.machine.look())]
        if self.has_log:
            kills = [
                kill
                for pid, inode in list(enumerate(self.machine.victims, start=100))[self.told :]
                for kill in self.fold.feed(
                    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
                    f"oom_memcg={POD}/c{inode},task_memcg={POD}/c{inode},"
                    f"task=VLLM::EngineCor,pid={pid},uid=0",
                    at,
                )
            ]
            self.told = len(self.machine.victims)
            samples.append(Sample(Source.KERNEL_LOG, at, reading=KernelReading(tuple(kills))))
        self.judgements += self.pipeline.step(Tick(at, tuple(samples))).closed

    def total(self, source: Source, *names: str) -> float:
        counted = self.pipeline.totals.evidence
        return sum(counted[EvidenceKey(Cause.HOST_OOM, source, name)] for name in names)


@settings(max_examples=200)
@given(
    deeds=st.lists(st.sampled_from((*DEEDS, "step", "step", "restart")), max_size=30),
    has_witness=st.booleans(),
    has_log=st.booleans(),
)
def test_each_kill_is_counted_once_or_its_window_says_that_it_could_not_see(
    deeds: list[str], *, has_witness: bool, has_log: bool
) -> None:
    run = Run(has_witness=has_witness, has_log=has_log)
    for deed in [*deeds, "step", "step", "step"]:
        run.do(deed)
    run.judgements += run.pipeline.finish()
    counted = run.total(Source.CGROUP, *COUNTED)
    blind = [j for j in run.judgements if not j.observable[Cause.HOST_OOM]]
    assert counted <= run.machine.kills
    if has_witness:
        assert counted == run.machine.kills
        assert not any(j.window.kills_unseen for j in run.judgements)
    else:
        assert counted == run.machine.kills or has_log or blind
    if has_log:
        records = run.total(Source.KERNEL_LOG, signals.OOM_KILL_RECORD)
        assert records <= run.machine.kills
        assert records == run.machine.kills or blind or has_witness
    seen = any(cause.cause is Cause.HOST_OOM for j in run.judgements for cause in j.causes)
    if run.machine.kills:
        assert seen or blind
    else:
        assert not seen
