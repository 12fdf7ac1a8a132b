"""Nothing that users send, and no secret, reaches any output of the program."""

import gzip
import json
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.fakes.daemon import daemon, run_command

DATA = Path(__file__).parents[1] / "data"
PROMPT = "canary-prompt-Wie-geht-es"
KEY = "sk-canary-0451-key"
REQUEST = "cmpl-canary-7f3a"
TOKEN = "canary-bearer-token"
LABEL = "canary-label"
PATHNAME = "canary-user-path"
CANARIES = (PROMPT, KEY, REQUEST, TOKEN, LABEL, PATHNAME)
LINES = f"""\
INFO 11-29 21:03:30 [utils.py:326] non-default args: {{'model': 'x', 'api_key': ['{KEY}'], 'max_num_seqs': 4}}
INFO 11-29 21:03:31 [logger.py:41] Received request {REQUEST}: prompt: '{PROMPT}', params: SamplingParams(n=1), \
prompt_token_ids: [1, 2], lora_request: None.
INFO:     127.0.0.1:40594 - "POST /v1/completions?api_key={KEY} HTTP/1.1" 200 OK
INFO 11-29 21:03:32 [async_llm.py:269] Added request {REQUEST}.
X-Request-Id: {REQUEST}
{PROMPT} CUDA out of memory. Tried to allocate 1 GiB. EngineDeadError oom-kill Killed process 1 ({KEY})
ERROR 11-29 21:03:33 [serving.py:1] {PROMPT}
Traceback (most recent call last):
  File "/home/{PATHNAME}/vllm/engine.py", line 1, in {REQUEST}
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 960.00 MiB. {PROMPT}
(EngineCore_DP0 pid=8402) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to \
allocate 960.00 MiB. {KEY} {PROMPT}
"""  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """It demands the token, and shows canaries where an exposition may hold anything."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(str(self.headers.get("Authorization")))
        text = (DATA / "expositions/0.26.0.txt").read_text()
        text = text.replace("# HELP vllm:", f"# HELP {LABEL} vllm:", 1)
        text = text.replace('engine="0"', f'engine="0",request_id="{REQUEST}",user="{LABEL}"')
        text = text.replace('finished_reason="abort"', f'finished_reason="{LABEL}"')
        text += f'vllm:num_requests_waiting{{engine="0",reason="{LABEL}"}} 0.0\n'
        text += f'vllm:{LABEL.replace("-", "_")}{{prompt="{PROMPT}"}} 1.0\n'
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("X-Request-Id", REQUEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def target() -> Iterator[str]:
    Handler.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def without_canaries(**outputs: str) -> None:
    for name, text in outputs.items():
        assert text, name
        found = [
            canary for canary in CANARIES if canary in text or canary.replace("-", "_") in text
        ]
        assert not found, (name, found)


def test_the_daemon_tells_nothing_of_what_it_reads(target: str, tmp_path: Path) -> None:
    log = tmp_path / f"{PATHNAME}.log"
    log.touch()
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with daemon(
        "--target", target, "--log", str(log), "--target-token-file", str(token),
        "--interval", "200ms", "--window", "400ms", "--gpu", "off",
    ) as running:  # fmt: skip
        running.samples()
        with log.open("a") as file:
            file.write(LINES)

        running.until(
            lambda: any(
                name == "vllm_sidecar_alert" and labels[0] == "cuda_oom" and value
                for (name, labels), value in running.metrics().items()
            )
        )
        asked = urllib.parse.quote(PROMPT)
        pages = {
            path: running.get(path, {"X-Request-Id": REQUEST, "Authorization": f"Bearer {KEY}"})[1]
            for path in (
                "/", "/?span=24h", "/metrics", "/api/report", "/api/windows", "/healthz", "/readyz",
                f"/{asked}?api_key={KEY}", f"/api/windows?limit={asked}", f"/metrics?x={KEY}",
            )
        }  # fmt: skip
        openmetrics = running.get("/metrics", {"Accept": "application/openmetrics-text"})[1]
        running.end()
        assert f"Bearer {TOKEN}" in Handler.seen, "the token itself was sent"
        without_canaries(stderr="".join(running.said), openmetrics=openmetrics, **pages)


def test_a_broken_request_is_not_quoted(target: str) -> None:
    with daemon("--target", target, "--interval", "1s", "--window", "1s") as running:
        for line in (
            f"GET /{KEY}\x00 HTTP/1.1\r\n\r\n",
            f"{KEY}\r\n\r\n",
            f"GET /{KEY} HTTP/9\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", running.port)) as client:
                client.settimeout(5)
                client.sendall(line.encode())
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := client.recv(4096):
                    answer += chunk
            assert KEY.encode() not in answer
        running.end()
        assert KEY not in "".join(running.said)


@pytest.mark.parametrize("output", ["text", "json"])
def test_check_tells_nothing(target: str, output: str, tmp_path: Path) -> None:
    log = tmp_path / f"{PATHNAME}.log"
    log.write_text(LINES)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    done = run_command(
        "check", "--target", target, "--log", str(log), "--target-token-file", str(token),
        "--format", output, "--gpu", "off",
    )  # fmt: skip
    assert done.returncode in {0, 1}
    without_canaries(stdout=done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("output", ["text", "json"])
def test_scan_tells_nothing_but_the_name_of_the_file(output: str, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(LINES)
    done = run_command("scan", str(log), "--format", output)
    assert done.returncode == 0
    assert "cuda_oom" in done.stdout
    without_canaries(stdout=done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("output", ["text", "json"])
def test_replay_tells_nothing(output: str, tmp_path: Path) -> None:
    header = {"format": 1, "created": 1.7e9, "about": PROMPT, "target": {"url": KEY}}
    (tmp_path / "recording.json").write_text(json.dumps(header))
    rows = [{"t": 1.7e9 + n, "line": line} for n, line in enumerate(LINES.splitlines())]
    rows.append({"t": PROMPT, "line": PROMPT})
    body = (DATA / "expositions/0.26.0.txt").read_text()
    body = body.replace('finished_reason="abort"', f'finished_reason="{LABEL}"')
    body = body.replace('engine="0"', f'engine="0",user="{LABEL}"')
    scrapes = [{"t": 1.7e9 + n, "status": 200, "body": body} for n in range(20)]
    scrapes.append({"t": 1.7e9 + 20, "status": None, "error": KEY})
    for name, many in (("log", rows), ("metrics", scrapes)):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in many)
    done = run_command("replay", str(tmp_path), "--format", output)
    assert done.returncode == 0
    assert "cuda_oom" in done.stdout
    without_canaries(stdout=done.stdout, stderr=done.stderr)


def test_a_wrong_token_file_is_a_fault_and_not_quoted(target: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\nX-Injected: {KEY}\n")
    done = run_command(
        "check", "--target", target, "--target-token-file", str(token), "--format", "json",
    )  # fmt: skip
    assert json.loads(done.stdout)["sources"]["vllm_metrics"] == "denied"
    without_canaries(stdout=done.stdout)
    assert not any(TOKEN in seen for seen in Handler.seen)
