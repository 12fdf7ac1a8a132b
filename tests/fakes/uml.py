"""A second kernel, 6.1, as a process: user-mode Linux whose root is this machine's, read-only."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

XSTATE = Path(__file__).with_name("uml_xstate.c")
HEAD = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmp /mnt
mknod /mnt/kmsg c 1 11
export PYTHONDONTWRITEBYTECODE=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin
"""
TAIL = """
echo o > /proc/sysrq-trigger
sleep 20
"""


def run(script: str, directory: Path, *, memory: str = "256M", seconds: float = 50) -> str:
    """What ``script`` and the kernel print; cgroup v2 is mounted, /mnt is writable, no network."""
    init = directory / "init"
    init.write_text(HEAD + script + TAIL)
    init.chmod(0o755)
    kernel = shutil.which("linux.uml") or shutil.which("linux")
    assert kernel is not None
    with subprocess.Popen(
        [kernel, f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "hostfs=/", "ro",
         f"init={init}", "con=null", "con0=fd:0,fd:1", "quiet",
         # What the guest's threads do not use, they need not have saved.
         "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW"],
        env={"PATH": os.environ.get("PATH", ""), "HOME": str(directory), **_preload(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as guest:  # fmt: skip
        try:
            return guest.communicate(timeout=seconds)[0]
        finally:
            # The guest's processes are processes here, and outlive a kernel that was killed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guest.pid, signal.SIGKILL)


def _preload(directory: Path) -> dict[str, str]:
    """Needed on processors with more state than this kernel knows of; harmless on others."""
    if shutil.which("gcc") is None:
        return {}
    library = directory / "uml_xstate.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, XSTATE],
        check=True,
    )
    return {"LD_PRELOAD": str(library)}
