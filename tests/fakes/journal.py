"""A real journald of its own namespace, without systemd, and a way to write to it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

JOURNALD = Path("/lib/systemd/systemd-journald")


class Journal:
    """Journal of one namespace; entries are written by the native protocol."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.program = ("journalctl", f"--namespace={namespace}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    @property
    def address(self) -> str:
        return f"/run/systemd/journal.{self.namespace}/socket"

    def connect(self) -> None:
        self._socket.connect(self.address)

    def close(self) -> None:
        self._socket.close()

    def say(self, unit: str, *messages: bytes) -> None:
        """One entry about ``unit``; several messages are a repeated field."""
        fields = b"".join(
            b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n"
            for message in messages
        )
        # Only a unit's own processes get _SYSTEMD_UNIT; root may speak about a unit.
        self._socket.send(fields + f"OBJECT_SYSTEMD_UNIT={unit}\nPRIORITY=6\n".encode())


@contextmanager
def running_journal(namespace: str) -> Iterator[Journal]:
    """A journald that runs as long as the context."""
    process = subprocess.Popen(
        [JOURNALD, namespace], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    journal = Journal(namespace)
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                journal.connect()
                break
            except OSError:
                assert time.monotonic() < deadline, "journald does not come up"
                time.sleep(0.01)
        yield journal
    finally:
        journal.close()
        process.terminate()
        process.wait(10)
        shutil.rmtree(f"/run/systemd/journal.{namespace}", ignore_errors=True)
        for folder in (Path("/var/log/journal"), Path("/run/log/journal")):
            for left in folder.glob(f"*.{namespace}"):
                shutil.rmtree(left, ignore_errors=True)
