"""A real pod by ``podman kube play``, from a manifest as Kubernetes takes it, with nothing pulled.

The images hold the package and a stand-in of vLLM; Python and what it needs are this machine's own,
mounted read-only. The pod has a network of its own with nothing but its loopback device.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HELD = ("sidecar", "tests/process/vllm_stand_in.py", "tests/data/expositions/0.26.0.txt")
FOLDERS = ("usr", "proc", "sys", "dev", "etc", "tmp", "run", "var", "opt/bin")
COMMANDS = {
    "vllm": "tests/process/vllm_stand_in.py - tests/data/expositions/0.26.0.txt /dev/stdout"
    " /dev/null 8000",
    "vllm-sidecar": '-m sidecar "$@"',
}
ENVIRONMENT = {
    "PATH": "/opt/bin:/usr/bin:/bin",
    "PYTHONPATH": "/opt/app",
    "PYTHONDONTWRITEBYTECODE": "1",
}
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
volumes = [{volumes}]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
"""``runc``, for ``crun`` refuses hosts with both versions of cgroups; limits that may be set anywhere."""
ASK = "import sys, urllib.request as u; sys.stdout.write(u.urlopen({args}, timeout=5).read().decode())"
PATIENCE_S = 30.0


class Pod:
    """A running pod of the manifest's name, ``vllm``."""

    def __init__(self, work: Path) -> None:
        self.work = work
        settings = work / "containers.conf"
        volumes = ", ".join(f'"{path}:{path}:ro"' for path in ("/usr", *_python()))
        settings.write_text(SETTINGS.format(volumes=volumes))
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(work),
            "CONTAINERS_CONF": str(settings),
        }

    def podman(self, *arguments: str | Path, wanted: bool = True) -> str:
        """What a command of podman prints; ``wanted``: it has to succeed."""
        where = (f"--root={self.work / 'storage'}", f"--runroot={self.work / 'run'}")
        done = subprocess.run(
            ["podman", "--log-level=error", "--storage-driver=vfs", *where, *arguments],
            env=self.environment,
            # The monitor of a container leaves a file where it was started, if the kernel kills.
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.returncode == 0 or not wanted, (arguments, done)
        return done.stdout

    def build(self) -> None:
        """The two images."""
        tree = self.work / "tree.tar"
        _pack(tree)
        settings = [f"--change=ENV {name}={value}" for name, value in ENVIRONMENT.items()]
        for name in COMMANDS:
            entry = f'--change=ENTRYPOINT ["{name}"]'
            self.podman("import", "-q", *settings, entry, tree, f"localhost/{name}:test")

    def ask(self, container: str, url: str, body: bytes | None = None) -> str:
        """The answer to a request from within a container; "" while nobody answers."""
        arguments = f"{url!r}" if body is None else f"{url!r}, data={body!r}"
        program = ASK.format(args=arguments)
        return self.podman("exec", container, sys.executable, "-c", program, wanted=False)

    def order(self, text: str) -> None:
        """Tell the stand-in what to do."""
        self.ask("vllm-vllm", "http://127.0.0.1:8000/order", text.encode())

    def metrics(self) -> str:
        """The sidecar's exposition."""
        return self.ask("vllm-sidecar", "http://127.0.0.1:9477/metrics")

    def windows(self) -> list[dict[str, Any]]:
        """The sidecar's closed windows."""
        text = self.ask("vllm-sidecar", "http://127.0.0.1:9477/api/windows")
        found: list[dict[str, Any]] = json.loads(text or "[]")
        return found

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once ``condition`` holds."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, self.account()
            time.sleep(0.2)

    def account(self) -> str:
        """For a test that fails: the containers, the server's output, and what is shown."""
        shown = [line for line in self.metrics().splitlines() if line.endswith(" 1.0")]
        listed = self.podman("ps", "-a", wanted=False)
        written = self.podman("logs", "vllm-vllm", wanted=False)
        return "\n".join((listed, written[-2000:], *shown))

    def shows(self, *wanted: str) -> None:
        """Return once the exposition holds all of these samples."""

        def is_there() -> bool:
            lines = self.metrics().splitlines()
            return all(f"vllm_sidecar_{sample}" in lines for sample in wanted)

        self.until(is_there)


@contextlib.contextmanager
def pod(manifest: Path) -> Iterator[Pod]:
    """The pod of a manifest, and nothing of it left in the end."""
    # Podman wants a short path.
    work = Path(tempfile.mkdtemp(prefix="pod-"))
    running = Pod(work)
    identities: list[str] = []
    try:
        running.build()
        try:
            running.podman("kube", "play", "--quiet", "--network=none", manifest)
        finally:
            identities = running.podman("pod", "ps", "-q", "--no-trunc").split()
        yield running
    finally:
        for command in (("kube", "down", manifest), ("pod", "rm", "-fa"), ("volume", "rm", "-fa")):
            running.podman(*command, wanted=False)
        _unmount(work)
        _remove_cgroups(identities)
        shutil.rmtree(work)


def _python() -> Iterator[str]:
    """Where this machine's Python is, beside what is below /usr."""
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix)):
        if not Path(prefix).is_relative_to("/usr"):
            yield prefix


def _pack(tree: Path) -> None:
    """The root of both images."""
    folders = dict.fromkeys((*FOLDERS, *(prefix.lstrip("/") for prefix in _python())), 0o755)
    # An emptyDir of Kubernetes may be written by anybody, one of podman as this folder.
    folders["log"] = 0o777
    with tarfile.open(tree, "w") as archive:
        for name, mode in folders.items():
            archive.addfile(_member(name, tarfile.DIRTYPE, mode))
        for name in ("bin", "sbin", "lib", "lib64"):
            link = _member(name, tarfile.SYMTYPE)
            link.linkname = f"usr/{name}"
            archive.addfile(link)
        for name, arguments in COMMANDS.items():
            script = f"#!/bin/sh\ncd /opt/app && exec {sys.executable} {arguments}\n".encode()
            file = _member(f"opt/bin/{name}", tarfile.REGTYPE)
            file.size = len(script)
            archive.addfile(file, io.BytesIO(script))
        for held in HELD:
            archive.add(ROOT / held, f"opt/app/{held}", filter=_for_anybody)


def _member(name: str, kind: bytes, mode: int = 0o755) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _for_anybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def _unmount(work: Path) -> None:
    """What podman mounted and did not unmount, innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4] for line in lines]
    for point in sorted((p for p in points if Path(p).is_relative_to(work)), reverse=True):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)


def _remove_cgroups(identities: list[str]) -> None:
    """The pods' cgroups; the one above them only where nobody else's is in it."""
    for identity in identities:
        for parent in Path("/sys/fs/cgroup").glob("**/libpod_parent"):
            places = [place for place in (parent / identity).glob("**/") if place.is_dir()]
            for place in (*sorted(places, reverse=True), parent):
                with contextlib.suppress(OSError):
                    place.rmdir()
