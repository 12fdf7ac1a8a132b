"""Program: the whole daemon beside a server to which something happens; tells, as JSON, what it showed.

Arguments: the root of a memory hierarchy, the kernel log, the interval in seconds, a directory to
write in, a large file on a disk, how many at a time, and the names of what shall happen. Needs root.
One result for each; each has its own server, cgroup and daemon.
"""

import contextlib
import gzip
import itertools
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import sidecar.app  # noqa: E402 - loaded once, for every daemon that is forked
import sidecar.commands.run  # noqa: E402, F401
from tests.fakes.daemon import Daemon, daemon  # noqa: E402
from tests.fakes.forked import Forked  # noqa: E402
from tests.process import vllm_stand_in  # noqa: E402
from tests.process.memory_cgroups import PodCgroup, pod_cgroup, take_until_killed  # noqa: E402

DATA = ROOT / "tests/data"
LIMIT = 24 << 20
"""Bytes: more than the server's own, and few, for pages are dear in user-mode Linux."""
HIGH_ABOVE = 4 << 20
GIVE_UP_S = 20.0
WINDOW = 2
"""Intervals."""
WATCHES = ('target_state{state="serving"}', 'source_up{source="cgroup"}')
POLLS = 8
"""For each interval; more of them take the guest's only core from what they look at."""
FIND_ALERTS = re.compile(
    r'^vllm_sidecar_alert\{cause="(\w+)",severity="(\w+)"\} 1(?:\.0)?$', re.MULTILINE
).findall


@dataclass(slots=True)
class Scene:
    """A server in its container's cgroup, and where it writes."""

    pod: PodCgroup
    place: Path
    work: Path
    large: Path
    server: Forked
    pids: dict[str, int]

    def order(self, text: str) -> None:
        self.server.stdin.write(f"{text}\n")
        self.server.stdin.flush()

    def await_end(self, who: str) -> None:
        """Return once a process is gone, or a zombie."""
        if who == "api_server":
            self.server.wait(GIVE_UP_S)
            return
        end = time.monotonic() + GIVE_UP_S
        while is_living(self.pids[who]):
            assert time.monotonic() < end, f"{who} lives"
            time.sleep(0.001)


Happening = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Way:
    """Something that happens to a server. ``wanted``: the cause that is to be alerted, if any.

    ``limit``: of the container's cgroup. ``alone``: it disturbs whatever runs beside it.
    """

    happen: Happening
    wanted: str | None
    prepare: Happening | None = None
    limit: int | None = LIMIT
    alone: bool = False


def takes_all(who: str, outlive: str = "no") -> Happening:
    """One of the server's processes takes memory until it is killed."""

    def happen(scene: Scene) -> None:
        scene.order(f"outlive {outlive}")
        scene.order(f"{who} take")
        scene.await_end(who)

    return happen


def is_sent(number: signal.Signals, who: str) -> Happening:
    """One of the server's processes is killed by a signal that anybody may have sent."""

    def happen(scene: Scene) -> None:
        os.kill(scene.pids[who], number)
        scene.await_end(who)

    return happen


def exits(scene: Scene) -> None:
    """The main process ends with 0, and nobody asked for it."""
    scene.order("api_server exit")
    scene.await_end("api_server")


def end_neighbour(scene: Scene) -> None:
    """A process of the server's cgroup that is none of the server's takes memory until killed."""
    end_hog(scene.place)


def end_sibling(scene: Scene) -> None:
    """Another container of the pod is killed at its own limit. It bears a name of vLLM's, too."""
    end_hog(scene.pod.add("side", LIMIT), "VLLM::EngineCore")


def end_hog(place: Path, name: str | None = None) -> None:
    hog = Forked(lambda: take_until_killed(place, name))
    assert hog.wait(GIVE_UP_S) == -signal.SIGKILL
    hog.close()


def reclaims(scene: Scene) -> None:
    """A file is read that is larger than the limit: the page cache is taken back, again and again."""
    scene.order(f"engine read {scene.large}")
    name = "memory.events" if scene.pod.version == 2 else "memory.failcnt"
    await_text(scene.place / name, r"(?m)^(?:max )?[1-9]\d*$")


def is_throttled(scene: Scene) -> None:
    """More is held than ``memory.high``, and less than ``memory.max``: the kernel slows it down."""
    high = int((scene.place / "memory.current").read_text()) + HIGH_ABOVE
    (scene.place / "memory.high").write_text(str(high))
    scene.order(f"engine hold {2 * HIGH_ABOVE >> 20}")
    await_text(scene.place / "memory.events", r"(?m)^high [1-9]\d*$")


def await_text(file: Path, pattern: str) -> None:
    end = time.monotonic() + GIVE_UP_S
    while not re.search(pattern, text := file.read_text()):
        assert time.monotonic() < end, text
        time.sleep(0.01)


def allow_swap(scene: Scene) -> None:
    """On v1 a limit of memory alone: where it is one with that of swap, its hits are not counted."""
    if scene.pod.version == 1:
        with contextlib.suppress(FileNotFoundError):  # swap is not accounted
            (scene.place / "memory.memsw.limit_in_bytes").write_text(str(4 * LIMIT))


def set_group(scene: Scene) -> None:
    """As the kubelet sets it: a kill takes all of the container's processes."""
    (scene.place / "memory.oom.group").write_text("1")


def prefer_engine(scene: Scene) -> None:
    """Nobody else is to be killed when the machine runs out of memory."""
    Path(f"/proc/{scene.pids['engine']}/oom_score_adj").write_text("1000")


WAYS = {
    "engine": Way(takes_all("engine"), "host_oom"),
    "api_server": Way(takes_all("api_server"), "host_oom"),
    "worker_unwell": Way(takes_all("worker", "unwell"), "host_oom"),
    "worker_outlived": Way(takes_all("worker", "well"), "host_oom"),
    "group": Way(takes_all("engine"), "host_oom", prepare=set_group),
    "neighbour": Way(end_neighbour, "host_oom"),
    "system": Way(takes_all("engine"), "host_oom", prepare=prefer_engine, limit=None, alone=True),
    "sibling": Way(end_sibling, None),
    "reclaim": Way(reclaims, None, prepare=allow_swap),
    "high": Way(is_throttled, None),
    "engine_sigkill": Way(is_sent(signal.SIGKILL, "engine"), "engine_failure"),
    "api_server_sigkill": Way(is_sent(signal.SIGKILL, "api_server"), "engine_failure"),
    "api_server_sigsegv": Way(is_sent(signal.SIGSEGV, "api_server"), "engine_failure"),
    "api_server_exit": Way(exits, "engine_failure"),
}


def last_words() -> str:
    """What a real vLLM wrote after its engine was killed."""
    with gzip.open(DATA / "recordings/i_enginecore_sigkill/log.jsonl.gz", "rt") as file:
        lines = [json.loads(line)["line"] for line in file]
    begin = next(n for n, line in enumerate(lines) if " ERROR " in line)
    return "".join(f"{line}\n" for line in lines[begin:])


@contextlib.contextmanager
def scene_of(pod: PodCgroup, limit: int | None, work: Path, large: Path) -> Iterator[Scene]:
    """The server, in its cgroup."""
    place = pod.add("ctr", limit)
    words, log = work / "last_words", work / "vllm.log"
    words.write_text(last_words())
    log.write_text("")
    arguments = [str(place), str(DATA / "expositions/0.26.0.txt"), str(log), str(words)]
    server = Forked(lambda: vllm_stand_in.main(arguments))
    try:
        yield Scene(pod, place, work, large, server, json.loads(server.stdout.readline()))
    finally:
        server.close()


def is_living(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def observe(running: Daemon, wanted: str | None, interval_s: int) -> dict[str, Any]:
    """All that is alerted from now on until a whole window is closed, and when first what we want."""
    window_s = WINDOW * interval_s
    ever: dict[str, list[str]] = {}
    late, died, died_unix = None, time.monotonic(), time.time()
    shown: dict[str, str] = {}
    windows: list[dict[str, Any]] = []
    for poll in itertools.count():
        shown = dict(FIND_ALERTS(page_of(running, "/metrics")))
        for cause, severity in shown.items():
            if severity not in ever.setdefault(cause, []):
                ever[cause].append(severity)
        if late is None and wanted in ever:
            late = time.monotonic() - died
        if poll % POLLS == 0:
            windows = json.loads(page_of(running, "/api/windows"))
        told = is_told(windows, wanted, died_unix) and (wanted is None or late is not None)
        if told or time.monotonic() > died + GIVE_UP_S:
            break
        time.sleep(interval_s / POLLS)
    causes = [
        one
        for window in windows
        if window["window"]["end"] > died_unix - window_s
        for one in window["causes"]
    ]
    records = [
        (one.get("victim"), one.get("limit_owner"))
        for cause in causes
        for one in cause["evidence"]
        if one["signal"] == "oom_kill_record"
    ]
    return {
        "late_s": late,
        "ever": ever,
        "at_last": shown,
        "causes": sorted({(one["cause"], one["kind"], one["confidence"]) for one in causes}),
        "parties": sorted(set(records), key=str),
    }


def page_of(running: Daemon, path: str) -> str:
    """A page; what the daemon said, if it answers no more."""
    try:
        return running.get(path)[1]
    except OSError as error:
        raise AssertionError(running.said) from error


def is_told(windows: list[dict[str, Any]], wanted: str | None, died_unix: float) -> bool:
    """Whether a window that began since is closed, and one that names what is wanted."""
    named = {cause["cause"] for window in windows for cause in window["causes"]}
    begun_since = any(one["window"]["start"] >= died_unix for one in windows)
    return begun_since and (wanted is None or wanted in named)


def counts(running: Daemon) -> dict[str, Any]:
    """What the daemon counted: evidence, the kernel's events, sources."""
    shown = running.metrics()

    def of(family: str) -> dict[str, float]:
        return {
            " ".join(labels): value
            for (name, labels), value in shown.items()
            if name == f"vllm_sidecar_{family}"
        }

    evidence = {key: value for key, value in of("evidence_total").items() if value}
    return {
        "evidence": evidence,
        "events": of("host_memory_events_total"),
        "sources": of("source_up"),
    }


@dataclass(frozen=True, slots=True)
class Setting:
    """Where it happens and how it is watched."""

    root: Path
    kmsg: str
    interval_s: int
    work: Path
    large: Path

    def try_out(self, name: str) -> dict[str, Any]:
        """One server, one daemon, one happening."""
        way, work, window_s = WAYS[name], self.work / name, WINDOW * self.interval_s
        work.mkdir(parents=True)
        with (
            pod_cgroup(self.root, f"sidecar-test-{os.getpid()}-{name}") as pod,
            scene_of(pod, way.limit, work, self.large) as scene,
            daemon(
                *("--target", f"http://127.0.0.1:{scene.pids['port']}"),
                *("--log", str(work / "vllm.log"), "--kernel-log", self.kmsg),
                *("--interval", f"{self.interval_s}s", "--window", f"{window_s}s"),
                forks=True,
            ) as running,
        ):
            if way.prepare is not None:
                way.prepare(scene)
            self.await_watch(running)
            way.happen(scene)
            found = observe(running, way.wanted, self.interval_s)
            found |= counts(running)
            found["code"], _ = running.end()
            found["said"] = running.events
        return {"what": name, **found}

    def await_watch(self, running: Daemon) -> None:
        """Return once the server was seen serving, and its cgroup found."""
        end = time.monotonic() + GIVE_UP_S
        while not all(f"vllm_sidecar_{one} 1" in page_of(running, "/metrics") for one in WATCHES):
            assert time.monotonic() < end, running.said
            time.sleep(self.interval_s / POLLS)

    def tell(self, name: str) -> None:
        """Leave in a file what came of it."""
        try:
            found = self.try_out(name)
        except Exception:  # noqa: BLE001 - told, so that the others' results stand
            found = {"what": name, "error": traceback.format_exc()}
        (self.work / f"{name}.json").write_text(json.dumps(found))

    def tell_all(self, names: Sequence[str], at_a_time: int) -> None:
        """Have each told by a process of its own: what forks had better have no other threads."""
        running = 0
        for name in names:
            if running == at_a_time:
                os.wait()
                running -= 1
            if os.fork() == 0:
                try:
                    self.tell(name)
                finally:
                    os._exit(0)
            running += 1
        for _ in range(running):
            os.wait()


def main() -> None:
    root, kmsg, interval_s, work, large, at_a_time, *names = sys.argv[1:]
    setting = Setting(Path(root), kmsg, int(interval_s), Path(work), Path(large))
    setting.work.mkdir(exist_ok=True)
    # Most of the time is spent in waiting for what must not come.
    setting.tell_all([name for name in names if not WAYS[name].alone], int(at_a_time))
    setting.tell_all([name for name in names if WAYS[name].alone], 1)
    for name in names:
        found = (setting.work / f"{name}.json").read_text()
        sys.stdout.write(f"RESULT {found}\n")


if __name__ == "__main__":
    main()
