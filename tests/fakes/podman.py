"""Podman with a store of its own, as root, on a host of any kind; nothing of it is left in the end."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
"""``runc``, for ``crun`` refuses hosts with both versions of cgroups; limits that may be set anywhere."""
COMMAND_S = 40


class Podman:
    """The command, with all that it keeps below ``work``."""

    def __init__(self, work: Path) -> None:
        self.work = work
        settings = work / "containers.conf"
        settings.write_text(SETTINGS)
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(work),
            "CONTAINERS_CONF": str(settings),
        }

    def __call__(
        self, *arguments: str | Path, wanted: bool = True, most_s: float = COMMAND_S
    ) -> str:
        """What a command prints; ``wanted``: it has to succeed."""
        done = self.run(*arguments, most_s=most_s)
        assert done.returncode == 0 or not wanted, (arguments, done)
        return done.stdout

    def run(
        self, *arguments: str | Path, most_s: float = COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """A command, however it ends."""
        where = (f"--root={self.work / 'storage'}", f"--runroot={self.work / 'run'}")
        return subprocess.run(
            ["podman", "--log-level=error", "--storage-driver=overlay", *where, *arguments],
            env=self.environment,
            # The monitor of a container leaves a file where it was started, if the kernel kills.
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=most_s,
            check=False,
        )


@contextlib.contextmanager
def podman() -> Iterator[Podman]:
    """A store, which is gone in the end with all that ran from it."""
    # Podman wants a short path.
    work = Path(tempfile.mkdtemp(prefix="pod-"))
    running = Podman(work)
    try:
        yield running
    finally:
        for command in (("pod", "rm", "-fa"), ("rm", "-fa"), ("volume", "rm", "-fa")):
            running(*command, wanted=False)
        _unmount(work)
        shutil.rmtree(work)


def remove_cgroups(identities: list[str]) -> None:
    """The cgroups of pods; the one above them only where nobody else's is in it."""
    for identity in identities:
        for parent in Path("/sys/fs/cgroup").glob("**/libpod_parent"):
            places = [place for place in (parent / identity).glob("**/") if place.is_dir()]
            for place in (*sorted(places, reverse=True), parent):
                with contextlib.suppress(OSError):
                    place.rmdir()


def _unmount(work: Path) -> None:
    """What podman mounted and did not unmount, innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4] for line in lines]
    for point in sorted((p for p in points if Path(p).is_relative_to(work)), reverse=True):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
