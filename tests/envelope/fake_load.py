"""Program: so many requests with so many at once, and a result as ``vllm bench serve`` writes it.

Arguments: the server's URL, requests at once, requests in all, the file for the result ("-": none), and
a word: what else is done. ``die``: the server is ended amidst. ``stick``: a request is left in it.
``fail``: ends with 3. ``wait``: takes as long as it is let.
"""

import contextlib
import json
import sys
import threading
import time
import urllib.request
from pathlib import Path


def post(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=30) as response:
        response.read()


class Load:
    """Requests, some at a time, until there are none left."""

    def __init__(self, url: str, requests: int) -> None:
        self.url = url
        self.left = list(range(requests))
        self.lock = threading.Lock()
        self.latencies: list[float] = []
        self.failed = 0

    def work(self) -> None:
        while True:
            with self.lock:
                if not self.left:
                    return
                self.left.pop()
            begun = time.monotonic()
            try:
                post(f"{self.url}/v1/completions")
                self.latencies.append(time.monotonic() - begun)
            except OSError:
                self.failed += 1

    def result(self, took: float) -> str:
        done = len(self.latencies)
        told = {
            "completed": done,
            "failed": self.failed,
            "duration": took,
            "request_throughput": done / took,
            "output_throughput": 20 * done / took,
            "latencies": self.latencies,
        }
        return json.dumps(told)


def main() -> int:
    url, at_once, requests, result, word = sys.argv[1:6]
    sys.stdout.write(f"load with {' '.join(sys.argv[6:])}\n")
    sys.stdout.flush()
    load = Load(url, int(requests))
    begun = time.monotonic()
    threads = [threading.Thread(target=load.work) for _ in range(int(at_once))]
    for thread in threads:
        thread.start()
    if word == "die":
        time.sleep(0.3)
        with contextlib.suppress(OSError):
            post(f"{url}/die")
    for thread in threads:
        thread.join()
    if word == "stick":
        post(f"{url}/stick")
    if word == "wait":
        time.sleep(600)
    if result != "-":
        Path(result).write_text(load.result(time.monotonic() - begun))
    return 3 if word == "fail" else 0


if __name__ == "__main__":
    sys.exit(main())
