"""The checkpoint on disk: replaced whole, so that a kill at any moment leaves the old or the new one."""

import contextlib
import fcntl
import os
from hashlib import blake2b
from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.model.saved_state import Checkpoint
from sidecar.model.vocabulary import Fault
from sidecar.parse.saved_state import decode_checkpoint, encode_checkpoint
from sidecar.thread import CallThread

LARGEST = 4 * 1024 * 1024
"""Bytes. A checkpoint has a few thousand; a larger file is not ours."""
LOAD_LIMIT_S = 5.0
SAVE_LIMIT_S = 0.5
"""Seconds that a step waits for its checkpoint; a disk that hangs must not stop the clock."""


class StateFile:
    """The checkpoint of one server in a directory that several of us may share.

    It is ours alone from ``load`` to ``close``, or to our death: two of us would each undo what the
    other one kept. ``failures`` counts checkpoints that could not be written.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        name = blake2b(identity.encode(), digest_size=8).hexdigest()
        self.folder = folder
        self.path = folder / f"{name}.json"
        self.thread = CallThread("state")
        self.lock: int | None = None
        self.failures = 0

    async def load(self) -> Checkpoint | None:
        """The last checkpoint; None if there is none, or it cannot be read as one.

        Raises:
            ConfigError: the directory cannot be used, or another process keeps this server's state
                there: said at start, not found out at the kill.
        """
        loaded = await self.thread.call(self.read, LOAD_LIMIT_S)
        if isinstance(loaded, Fault):
            raise ConfigError(f"state-dir: {self.folder}: it does not answer")
        return loaded

    def read(self) -> Checkpoint | None:
        """Read the file; blocks. Raises what ``load`` raises."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.lock is None:
                self.lock = self.locked()
            probe = self.path.with_suffix(".new")
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise ConfigError(f"state-dir: {self.folder}: {error.strerror}") from None
        try:
            with self.path.open("rb") as file:
                return decode_checkpoint(file.read(LARGEST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            # Kept aside for whoever wants to know; we begin anew rather than half believe it.
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_suffix(".broken"))
            return None

    def locked(self) -> int:
        """The descriptor of the file that says whose the state is, held by us.

        Raises:
            OSError: it cannot be made.
            ConfigError: another process holds it.
        """
        descriptor = os.open(
            self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"state-dir: {self.folder}: another vllm-sidecar keeps this server's state there"
            ) from None
        except OSError:
            # A file system without locks (ENOLCK, EOPNOTSUPP) keeps a state all the same.
            return descriptor
        return descriptor

    async def save(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint; one that cannot be written in time is counted, and the next tried."""
        text = encode_checkpoint(checkpoint)
        done = await self.thread.call(lambda: self.write(text), SAVE_LIMIT_S)
        if isinstance(done, Fault):
            self.failures += 1

    def write(self, text: bytes) -> bool | Fault:
        """Replace the file. The page cache outlives our own death, so nothing is forced to disk."""
        fresh = self.path.with_suffix(".new")
        try:
            fresh.write_bytes(text)
            os.replace(fresh, self.path)  # noqa: PTH105  (atomic on purpose)
        except OSError:
            return Fault.IO_ERROR
        return True

    def close(self) -> None:
        """Let the thread and the lock go."""
        self.thread.close()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
