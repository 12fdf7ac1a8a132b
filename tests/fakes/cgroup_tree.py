"""A tree of plain files laid out as the kernel lays out /proc and /sys/fs/cgroup."""

from collections.abc import Mapping
from pathlib import Path

V2_EVENTS = "low 0\nhigh 0\nmax {max}\noom {kill}\noom_kill {kill}\noom_group_kill 0\n"
V1_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {kill}\n"
V2_MOUNT = "29 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HOST_MOUNT = "52 23 0:26 {above} {host} ro,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
HYBRID_MOUNTS = (
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)


V2_STAT = """anon 300
file 520
shmem 20
unevictable 7
inactive_file 300
active_file 200
slab_reclaimable 40
"""
V1_STAT = """active_file 1
inactive_file 2
total_shmem 20
total_inactive_file 300
total_active_file 200
total_unevictable 7
"""


class CgroupTree:
    """Fakes of both roots below one temporary directory; ``host`` is where a pod mounts the host's."""

    def __init__(self, base: Path) -> None:
        self.proc = base / "proc"
        self.cgroup = base / "cgroup"
        self.host = base / "host"
        self.mounts(V2_MOUNT)

    def mounts(
        self, text: str, root: str = "/", *, above: str = "/", of: int | str = "self"
    ) -> None:
        place = self.proc / str(of)
        place.mkdir(parents=True, exist_ok=True)
        (place / "mountinfo").write_text(text.format(root=root, above=above, host=self.host))

    def process(self, pid: int | str, membership: str) -> None:
        place = self.proc / str(pid)
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup").write_text(membership)

    def v2(self, name: str, *, kill: int = 0, limit: str = "max", at: Path | None = None) -> Path:
        files = {
            "memory.events": V2_EVENTS.format(max=kill * 3, kill=kill),
            "memory.events.local": V2_EVENTS.format(max=kill * 3, kill=kill),
            "memory.current": "1000\n",
            "memory.max": f"{limit}\n",
            "memory.peak": "2000\n",
            "memory.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n",
            "memory.stat": V2_STAT,
        }
        return write((at or self.cgroup) / name, files)

    def v1(self, name: str, *, kill: int = 0, limit: int = 9223372036854771712) -> Path:
        files = {
            "memory.oom_control": V1_CONTROL.format(kill=kill),
            "memory.failcnt": "12\n",
            "memory.usage_in_bytes": "1000\n",
            "memory.limit_in_bytes": f"{limit}\n",
            "memory.max_usage_in_bytes": "2000\n",
            "memory.stat": V1_STAT,
        }
        return write(self.cgroup / "memory" / name, files)


def write(directory: Path, files: Mapping[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory
