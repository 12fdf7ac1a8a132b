"""A real ``vllm serve`` on CPU: a tiny model, a cache of 128 blocks, a free port, a log in a file."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = Path(os.environ.get("VLLM_VENV", ROOT / ".venv-vllm")).absolute()
VLLM = VENV / "bin/vllm"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
ON_CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # Of the usual five seconds a busy machine may take so many from a client that its next request
    # meets a connection that is just being closed.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "300",
}
NAME = "tiny"
CACHE_TOKENS = 128 * 32
"""One block of the 129 is vLLM's own."""
ROOMY = ("--num-gpu-blocks-override", "129", "--kv-cache-memory-bytes", str(64 << 20))
START_S = 300.0
"""Seconds that a start may take: 25 on a quiet machine, 100 were seen on a busy one."""
STOP_S = 60.0
API_SERVER, ENGINE, WORKER = "vllm", "VLLM::EngineCor", "VLLM::Worker"
"""Processes by the names that the kernel gives them: 15 characters."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def session_of(pid: int) -> tuple[int, str] | None:
    """A living process's session and its name; None once it is gone, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else (int(fields[3]), name)


@dataclass(slots=True)
class VllmServer:
    """One server; stopped, it can be started again, also with other options.

    ``cgroup``: the directory of a memory cgroup in which it shall live.
    """

    model: Path
    work: Path
    options: Sequence[str] = ROOMY
    env: Mapping[str, str] = field(default_factory=dict)
    cgroup: Path | None = None
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it writes, one run after the other."""
        return self.work / "vllm.log"

    def start(self) -> None:
        """Begin to start; the log goes on where it was."""
        command: list[str | Path] = [
            *(VLLM, "serve", self.model, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--served-model-name", NAME, "--max-num-seqs", "32", "--block-size", "32"),
            "--enforce-eager",
            *(() if "--max-model-len" in self.options else ("--max-model-len", "2048")),
            *self.options,
        ]
        if self.cgroup is not None:
            enter = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
            command = ["/bin/sh", "-c", enter, self.cgroup, *command]
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with self.log.open("ab") as written:
            self.process = subprocess.Popen(
                command,
                env={**kept, **OFFLINE, **ON_CPU, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )

    def status(self, path: str) -> int | None:
        """Status of a page; None if nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return None

    def await_ready(self) -> None:
        """Return once it serves; fail if it ends before."""
        end = time.monotonic() + START_S
        while self.status("/health") != 200:
            assert self.exit_code() is None, self.last_words()
            assert time.monotonic() < end, self.last_words()
            time.sleep(0.2)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def exit_code(self) -> int | None:
        """How its main process ended; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def pids(self, name: str | None = None) -> list[int]:
        """Its processes, also those that outlived the main one; those of a name."""
        assert self.process is not None
        every = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return [
            pid
            for pid in every
            if (told := session_of(pid)) is not None
            and told[0] == self.process.pid
            and name in {None, told[1]}
        ]

    def kill(self, name: str) -> int:
        """SIGKILL for its process of this name; the pid."""
        (pid,) = self.pids(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_end(self, seconds: float = STOP_S) -> int:
        """The exit code of the main process, once it ended."""
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> int:
        """Stop it as a supervisor does; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.await_end()

    def close(self) -> None:
        """End all that is left of it."""
        if self.process is None:
            return
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(STOP_S)
        end = time.monotonic() + STOP_S
        while self.pids():
            assert time.monotonic() < end, "a process of the server lives on"
            time.sleep(0.05)


@contextlib.contextmanager
def vllm_server(
    model: Path,
    work: Path,
    *options: str,
    env: Mapping[str, str] = {},
    cgroup: Path | None = None,
) -> Iterator[VllmServer]:
    """A server that begins to start, ended whatever happens."""
    work.mkdir(parents=True, exist_ok=True)
    server = VllmServer(model, work, options or ROOMY, env, cgroup)
    try:
        server.start()
        yield server
    finally:
        server.close()
