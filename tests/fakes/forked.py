"""Programs that begin as a fork of this process, their modules loaded: where a start is dear.

In user-mode Linux the daemon's imports take seconds, a fork some hundredths of one.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import IO

LONGEST_POLL_S = 0.01
DESCRIPTORS = 4096


class Forked:
    """A child that runs ``program`` with pipes for its streams: as much of ``Popen`` as is needed.

    To be begun where no other thread does more than wait: a lock that one holds stays locked in the
    child.
    """

    def __init__(self, program: Callable[[], object]) -> None:
        given, taken = os.pipe(), (os.pipe(), os.pipe())
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _run(program, (given[0], taken[0][1], taken[1][1]))
        os.close(given[0])
        for _, write in taken:
            os.close(write)
        self.stdin: IO[str] = os.fdopen(given[1], "w")
        self.stdout: IO[str] = os.fdopen(taken[0][0])
        self.stderr: IO[str] = os.fdopen(taken[1][0])

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it ended."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.0005
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("fork", timeout or 0)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """End it, and give back its pipes."""
        self.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            # What could not be written any more is nobody's.
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def _run(program: Callable[[], object], streams: tuple[int, int, int]) -> None:
    """The child's life; nothing of the parent's is flushed, closed or unwound in it."""
    code = 1
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, DESCRIPTORS)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as it lives
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it was, the parent's code must not go on
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
