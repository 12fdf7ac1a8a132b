"""Reports whose lines are mixed: every victim is told once, and nothing is told of it that is not so."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind
from sidecar.parse.kernel_line import KernelFold

SIZES = "total-vm:1kB, anon-rss:1kB, file-rss:0kB"


@dataclass(frozen=True)
class Case:
    """One OOM: its victims by pid, and what is so of each."""

    pid: int
    kind: Kind
    comm: str
    trigger: str
    form: str
    members: tuple[int, ...] = ()

    @property
    def victims(self) -> tuple[int, ...]:
        return (self.pid, *self.members)

    @property
    def limit(self) -> str | None:
        return f"/pod{self.pid}" if self.kind is Kind.CGROUP else None

    @property
    def cgroup(self) -> str:
        return f"/pod{self.pid}/c1"

    @property
    def why(self) -> str:
        return "Memory cgroup out of memory" if self.kind is Kind.CGROUP else "Out of memory"

    def lines(self) -> list[str]:
        invoked = f"{self.trigger} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0"
        owner = f"oom_memcg={self.limit}" if self.limit else "global_oom"
        summary = (
            f"oom-kill:constraint=CONSTRAINT_X,nodemask=(null),cpuset=/,mems_allowed=0,{owner},"
            f"task_memcg={self.cgroup},task={self.comm},pid={self.pid},uid=0"
        )
        limits = f"Task in {self.cgroup} killed as a result of limit of {self.limit}"
        announced = f"{self.why}: Kill process {self.pid} ({self.comm}) score 9 or sacrifice child"
        bare = f"Killed process {self.pid} ({self.comm}) {SIZES}"
        killed = f"{self.why}: {bare}"
        match self.form:
            case "old":
                return [invoked, *([limits] if self.limit else []), announced, bare]
            case "between":
                return [invoked, summary, announced, bare]
            case "short":
                return [killed]
            case _:
                return [invoked, summary, killed, *self.group(killed)]

    def group(self, killed: str) -> list[str]:
        if not self.members:
            return []
        others = [killed.replace(f" {self.pid} ", f" {pid} ") for pid in self.members]
        head = f"Tasks in {self.cgroup} are going to be killed due to memory.oom.group set"
        return [head, killed, *others]


@st.composite
def cases(draw: st.DrawFn, forms: tuple[str, ...]) -> list[Case]:
    """Some OOMs under one kernel, all of distinct victims."""
    count = draw(st.integers(1, 5))
    form = draw(st.sampled_from(forms))
    return [
        Case(
            pid=100 * (number + 1),
            kind=draw(st.sampled_from((Kind.CGROUP, Kind.SYSTEM))),
            comm=draw(st.sampled_from(("VLLM::EngineCor", "python3", "a, (b) c"))),
            trigger=draw(st.sampled_from(("VLLM::Worker", "python3", "kswapd0"))),
            form=draw(st.sampled_from(("new", "short"))) if form == "any" else form,
            members=tuple(100 * (number + 1) + n for n in range(1, draw(st.integers(1, 3))))
            if form in {"new", "any"}
            else (),
        )
        for number in range(count)
    ]


def mix(data: st.DataObject, reports: list[list[str]]) -> list[str]:
    """The lines of all reports, each report in its own order."""
    waiting = [list(report) for report in reports]
    mixed = []
    while waiting := [report for report in waiting if report]:
        mixed.append(data.draw(st.sampled_from(waiting)).pop(0))
    return mixed


def fold(lines: list[str]) -> list[KernelKill]:
    folding = KernelFold()
    kills: list[KernelKill] = []
    for number, line in enumerate(lines):
        kills += folding.feed(line, Instant(number * 0.001, number * 0.001))
    return kills + list(folding.flush())


@settings(max_examples=300)
@given(data=st.data())
def test_every_victim_is_told_once_and_none_is_invented(data: st.DataObject) -> None:
    chosen = data.draw(cases(("old", "between", "new", "any", "short")))
    kills = fold(mix(data, [case.lines() for case in chosen]))
    assert sorted(kill.pid or 0 for kill in kills) == sorted(
        pid for case in chosen for pid in case.victims[: 1 if case.form == "short" else None]
    )


@settings(max_examples=300)
@given(data=st.data())
def test_what_is_told_of_a_victim_is_so_or_unknown(data: st.DataObject) -> None:
    chosen = {case.pid: case for case in data.draw(cases(("old", "between", "new")))}
    kills = fold(mix(data, [case.lines() for case in chosen.values()]))
    for kill in (kill for kill in kills if kill.pid in chosen):
        case = chosen[kill.pid or 0]
        assert (kill.kind, kill.comm) == (case.kind, case.comm)
        assert kill.limit_cgroup in {None, case.limit}
        assert kill.victim_cgroup in {None, case.cgroup}
        assert kill.trigger in {None, case.trigger}


@given(case=cases(("old", "between", "new")))
def test_reports_one_after_another_are_told_whole(case: list[Case]) -> None:
    kills = fold([line for one in case for line in one.lines()])
    told = {kill.pid: kill for kill in kills}
    for one in case:
        assert told[one.pid].trigger == one.trigger
        assert told[one.pid].limit_cgroup == one.limit
