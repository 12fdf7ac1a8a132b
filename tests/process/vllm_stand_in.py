"""Program: a server with processes named as vLLM's, that lives and dies as vLLM does.

Arguments: the memory cgroup's directory to live in ("-": the one it was begun in), a file with the
exposition, the log to write, a file with the lines that vLLM writes when its engine is gone, and the
port (0, or none: a free one). Prints its port and its processes' pids as JSON, later each death of
one with its moment. Orders come as lines of standard input, or as bodies of POST requests:

``WHO take``, ``WHO hold MEGABYTES``, ``WHO read FILE``, ``WHO exit`` with ``api_server``, ``engine``
or ``worker``; ``outlive no|unwell|well``: what the API server does once another of its processes is
gone: end as vLLM does, answer health with 503, or go on.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GRACE_S = 0.2
"""vLLM's API server ends some tenths of a second after its engine."""
NAMES = {"engine": "VLLM::EngineCore", "worker": "VLLM::Worker_TP0"}
MADE = ("vllm:generation_tokens_total{", "vllm:prompt_tokens_total{")
STARTED = "INFO:     Started server process [1]\nINFO:     Application startup complete.\n"
EVERYTHING = 4096
MEGABYTE = 1 << 20


def rename(name: str) -> None:
    """The name that the kernel prints, which cuts it at 15 characters."""
    Path("/proc/self/comm").write_text(name)


def say(**told: object) -> None:
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


class Hands:
    """What a process is told to do with memory."""

    def __init__(self) -> None:
        self.held: list[bytes] = []

    def obey(self, order: str) -> None:
        what, _, about = order.partition(" ")
        match what:
            case "take":
                self.held.extend(b"\1" * MEGABYTE for _ in range(EVERYTHING))
            case "hold":
                self.held.extend(b"\1" * MEGABYTE for _ in range(int(about)))
            case "read":
                with Path(about).open("rb", buffering=0) as file:
                    while file.read(MEGABYTE):
                        continue
            case "exit":
                os._exit(0)
            case _:
                raise ValueError(order)


def start(name: str) -> tuple[int, int]:
    """A child that obeys what is written to the descriptor, and ends with its parent."""
    orders, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(orders)
        return pid, write
    os.close(write)
    rename(name)
    hands = Hands()
    with os.fdopen(orders) as lines:
        for line in lines:
            hands.obey(line.strip())
    os._exit(0)


class Server(ThreadingHTTPServer):
    """Answers as vLLM's API server, whose counters move while it is well."""

    def __init__(self, port: int, exposition: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lines = exposition.splitlines()
        self.asked = 0
        self.well = True
        self.outlive = "no"
        self.hands = Hands()
        self.orders: dict[str, int] = {}
        self.pids: dict[str, int] = {}

    def exposition(self) -> str:
        """Tokens go on being made."""
        self.asked += self.well
        lines = []
        for line in self.lines:
            head, _, value = line.rpartition(" ")
            lines.append(f"{head} {float(value) + self.asked}" if line.startswith(MADE) else line)
        return "\n".join(lines) + "\n"

    def obey(self, order: str) -> None:
        who, _, what = order.strip().partition(" ")
        if who == "outlive":
            self.outlive = what
        elif who in self.orders:
            os.write(self.orders[who], f"{what}\n".encode())
        else:
            self.hands.obey(what)

    def mourn(self, who: str, log: Path, last_words: str) -> None:
        """Once a process is gone, say what vLLM says, and end or go on."""
        os.waitpid(self.pids[who], 0)
        say(died=who, at=time.monotonic())
        if self.outlive == "well":
            return
        with log.open("a") as file:
            file.write(last_words)
        self.well = False
        if self.outlive == "no":
            time.sleep(GRACE_S)
            self.server_close()
            os._exit(1)


class Handler(BaseHTTPRequestHandler):
    @property
    def vllm(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def do_GET(self) -> None:
        health = self.path == "/health"
        body = b"" if health else self.vllm.exposition().encode()
        self.answer(503 if health and not self.vllm.well else 200, body)

    def do_POST(self) -> None:
        order = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(200, b"")
        self.vllm.obey(order)

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def main(arguments: Sequence[str], children: Sequence[str] = tuple(NAMES)) -> None:
    cgroup, (exposition, log, words) = arguments[0], map(Path, arguments[1:4])
    port = int(arguments[4]) if len(arguments) > 4 else 0
    if cgroup != "-":
        Path(cgroup, "cgroup.procs").write_text("0")
    rename("vllm")
    last_words = words.read_text()
    started = {who: start(NAMES[who]) for who in children}
    server = Server(port, exposition.read_text())
    server.pids = {who: pid for who, (pid, _) in started.items()}
    server.orders = {who: write for who, (_, write) in started.items()}
    for who in started:
        threading.Thread(target=server.mourn, args=(who, log, last_words), daemon=True).start()
    with log.open("a") as file:
        file.write(STARTED)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(port=server.server_port, api_server=os.getpid(), **server.pids)
    for line in sys.stdin:
        server.obey(line)
    if cgroup == "-":
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
