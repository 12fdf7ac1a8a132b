"""Program: a server with an engine process, that lives and dies as vLLM does, in a memory cgroup.

Arguments: the cgroup's directory, a file with the exposition, the log to write, a file with the
lines that vLLM writes when its engine is gone. Prints its port and its engine's pid as JSON. A line on
standard input lets the engine take memory until it is killed.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

GRACE_S = 0.2
"""vLLM's API server ends some tenths of a second after its engine."""


def rename(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def start_engine(order: int) -> int:
    """A child that idles until a byte can be read from ``order``, and then takes all memory."""
    pid = os.fork()
    if pid:
        return pid
    rename("VLLM::EngineCore")
    held: list[bytes] = []
    while os.read(order, 1):
        held.extend(os.urandom(1 << 20) for _ in range(4096))
    os._exit(0)


class Handler(BaseHTTPRequestHandler):
    lines: ClassVar[list[str]] = []
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = b"" if self.path == "/health" else self.exposition().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def exposition(self) -> str:
        """Tokens go on being made."""
        made = ("vllm:generation_tokens_total{", "vllm:prompt_tokens_total{")
        lines = []
        for line in self.lines:
            head, _, value = line.rpartition(" ")
            moves = line.startswith(made)
            lines.append(f"{head} {float(value) + self.asked}" if moves else line)
        return "\n".join(lines) + "\n"

    def log_message(self, *_: object) -> None:
        return


def mourn(engine: int, log: Path, last_words: str, server: ThreadingHTTPServer) -> None:
    """Once the engine is gone, say what vLLM says and end the server."""
    os.waitpid(engine, 0)
    with log.open("a") as file:
        file.write(last_words)
    time.sleep(GRACE_S)
    server.server_close()
    os._exit(1)


def main() -> None:
    cgroup, exposition, log, words = map(Path, sys.argv[1:5])
    Handler.lines = exposition.read_text().splitlines()
    last_words = words.read_text()
    (cgroup / "cgroup.procs").write_text("0")
    rename("vllm")
    order, write = os.pipe()
    engine = start_engine(order)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=mourn, args=(engine, log, last_words, server), daemon=True).start()
    sys.stdout.write(f"{json.dumps({'port': server.server_port, 'engine': engine})}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        os.write(write, b"x")


if __name__ == "__main__":
    main()
