"""Program: a server that counts requests as vLLM does, with a cache for so many of them at once.

Arguments: the port (0: a free one), requests that fit, and milliseconds that each takes. A request beyond
what fits preempts another. ``POST /die`` ends it at once, ``POST /stick`` leaves a request running for
ever. Prints its port.
"""

import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LABELS = 'engine="0",model_name="fake"'
PROMPT, OUTPUT = 10, 20
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
CONFIG = 'vllm:cache_config_info{engine="0",block_size="16",kv_cache_size_tokens="1600"} 1'
REASONS = ("stop", "length", "abort", "error")


class Histogram:
    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges, self.seen = edges, list[float]()

    def lines(self, name: str) -> list[str]:
        counts = [(f"{edge:g}", sum(value <= edge for value in self.seen)) for edge in self.edges]
        return [
            f"# TYPE vllm:{name} histogram",
            *(
                f'vllm:{name}_bucket{{{LABELS},le="{edge}"}} {count}'
                for edge, count in (*counts, ("+Inf", len(self.seen)))
            ),
            f"vllm:{name}_count{{{LABELS}}} {len(self.seen)}",
            f"vllm:{name}_sum{{{LABELS}}} {sum(self.seen)}",
        ]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, fits: int, takes_s: float) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.fits, self.takes_s = fits, takes_s
        self.lock = threading.Lock()
        self.running = self.done = self.preemptions = 0
        self.latencies = {
            name: Histogram(EDGES)
            for name in (
                "time_to_first_token_seconds",
                "inter_token_latency_seconds",
                "e2e_request_latency_seconds",
                "request_queue_time_seconds",
            )
        }
        self.lengths = {
            name: Histogram((1.0, 10.0, 20.0, 50.0))
            for name in ("request_prompt_tokens", "request_generation_tokens")
        }

    def serve(self) -> None:
        with self.lock:
            self.running += 1
            self.preemptions += self.running > self.fits
        time.sleep(self.takes_s)
        with self.lock:
            self.running -= 1
            self.done += 1
            told = (self.takes_s / 10, self.takes_s / OUTPUT, self.takes_s, 0.0)
            for histogram, value in zip(self.latencies.values(), told, strict=True):
                histogram.seen.append(value)
            self.lengths["request_prompt_tokens"].seen.append(PROMPT)
            self.lengths["request_generation_tokens"].seen.append(OUTPUT)

    def ended(self, reason: str) -> str:
        count = self.done if reason == "length" else 0
        return f'vllm:request_success_total{{{LABELS},finished_reason="{reason}"}} {count}'

    def exposition(self) -> str:
        with self.lock:
            usage = min(1.0, self.running / self.fits)
            lines = [
                "# TYPE vllm:num_requests_running gauge",
                f"vllm:num_requests_running{{{LABELS}}} {self.running}",
                "# TYPE vllm:num_requests_waiting gauge",
                f"vllm:num_requests_waiting{{{LABELS}}} 0",
                "# TYPE vllm:kv_cache_usage_perc gauge",
                f"vllm:kv_cache_usage_perc{{{LABELS}}} {usage}",
                "# TYPE vllm:num_preemptions_total counter",
                f"vllm:num_preemptions_total{{{LABELS}}} {self.preemptions}",
                "# TYPE vllm:prompt_tokens_total counter",
                f"vllm:prompt_tokens_total{{{LABELS}}} {PROMPT * self.done}",
                "# TYPE vllm:generation_tokens_total counter",
                f"vllm:generation_tokens_total{{{LABELS}}} {OUTPUT * self.done}",
                "# TYPE vllm:request_success_total counter",
                *(self.ended(reason) for reason in REASONS),
                "# TYPE vllm:cache_config_info gauge",
                CONFIG,
            ]
            for name, histogram in (*self.latencies.items(), *self.lengths.items()):
                lines += histogram.lines(name)
        return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    @property
    def fake(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def do_GET(self) -> None:
        body = {"/metrics": self.fake.exposition(), "/version": '{"version":"0.32.0"}'}
        self.answer(body.get(self.path, ""))

    def do_POST(self) -> None:
        match self.path:
            case "/die":
                os._exit(1)
            case "/stick":
                self.fake.running += 1
            case _:
                self.fake.serve()
        self.answer("{}")

    def answer(self, body: str) -> None:
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


def main() -> None:
    port, fits, takes_ms = map(int, sys.argv[1:4])
    server = Server(port, fits, takes_ms / 1000)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
