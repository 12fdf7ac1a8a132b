"""The real program with a web configuration: at its start, while it runs, and with real clients."""

import base64
import contextlib
import json
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.export.serving import hashed, put, tls_section
from tests.fakes.certificates import Authority
from tests.fakes.daemon import ROOT, Daemon, daemon, environment, run_command
from tests.fakes.live_prometheus import HOST, LivePrometheus, free_port, is_ready

EXAMPLE = ROOT / "deploy/web-config.example.yml"
WORD = "sk-canary-0451"
ALONE = ("--cgroup", "off", "--kernel-log", "off", "--gpu", "off", "--interval", "100ms",
         "--window", "200ms")  # fmt: skip


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.contextmanager
def secured(path: Path) -> Iterator[Daemon]:
    with daemon(*ALONE, "--web-config-file", str(path)) as running:
        yield running


def get(port: int, context: ssl.SSLContext | None, headers: Mapping[str, str]) -> int:
    """The status of a page; 0 for who is not let in at all."""
    scheme = "http" if context is None else "https"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}/", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return int(refused.code)
    except (OSError, ValueError):
        return 0


def basic(user: str, password: str) -> Mapping[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "no such file or directory"),
        (f"{WORD}: 1", "line 1: the file: unknown key"),
        (f"{WORD}: [", "line 1: not one document of YAML"),
        (
            f"basic_auth_users: {{{WORD}: {WORD}}}",
            "line 1: basic_auth_users: a password is not hashed by bcrypt ($2a$, $2b$ or $2y$)",
        ),
        (
            f"tls_server_config: {{cert: {WORD}, key: {WORD}}}",
            "line 1: cert: certificate or key are no PEM, or no such pair",
        ),
        (
            f"tls_server_config: {{cert_file: {WORD}, key_file: {WORD}}}",
            "line 1: cert_file: no such file or directory",
        ),
    ],
)
def test_a_bad_file_is_one_line_and_code_2(
    tmp_path: Path, command: str, text: str | None, line: str
) -> None:
    path = tmp_path / "web.yml"
    if text is not None:
        put(path, text)
    done = run_command(command, "--listen", "127.0.0.1:0", env={"VLLM_SIDECAR_WEB_CONFIG_FILE": str(path)})  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"vllm-sidecar: web-config-file: {line}\n"


@pytest.mark.component("openssl")
def test_check_says_how_clients_are_met_without_a_name(
    tmp_path: Path, authority: Authority
) -> None:
    authority.issue("server")
    text = EXAMPLE.read_text()
    for name in ("tls.crt", "tls.key"):
        text = text.replace(name, name.replace("tls", "server"))
    path = put(tmp_path / "web.yml", text)
    arguments = ("check", "--target", "http://127.0.0.1:1", "--web-config-file", str(path))
    said = run_command(*arguments).stdout.splitlines()[-1]
    assert said == "web: TLS 1.2 or later with a client's certificate, 1 user with a password"
    told = json.loads(run_command(*arguments, "--format", "json").stdout)
    assert told["web"] == {
        "tls": "1.2",
        "client_auth": "RequireAndVerifyClientCert",
        "users": 1,
    }


def test_check_says_of_a_file_without_rules_that_all_is_open(tmp_path: Path) -> None:
    path = put(tmp_path / "web.yml", "")
    arguments = ("check", "--target", "http://127.0.0.1:1")
    with_file = (*arguments, "--web-config-file", str(path))
    assert run_command(*with_file).stdout.splitlines()[-1] == "web: plain HTTP, no passwords"
    assert "web:" not in run_command(*arguments).stdout
    assert json.loads(run_command(*arguments, "--format", "json").stdout)["web"] is None


@pytest.mark.parametrize("is_given", [False, True])
def test_only_who_gives_a_file_pays_for_its_libraries(tmp_path: Path, *, is_given: bool) -> None:
    path = put(tmp_path / "web.yml", "")
    program = f"""
import asyncio, sys
from sidecar import app
from sidecar.clock import Clock
from sidecar.commands import run
from sidecar.config import load
async def main():
    stop = asyncio.Event()
    given = {{"web_config_file": {str(path)!r}}} if {is_given} else {{}}
    settings = load({{"listen": "127.0.0.1:0", "interval": "50ms", "window": "50ms", **given}})
    await app.run(settings, Clock(), stop, observe=lambda step: stop.set())
asyncio.run(main())
print(sorted({{"yaml", "bcrypt"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{['bcrypt', 'yaml'] if is_given else []}\n", "")


def test_a_change_is_taken_without_being_asked_for_and_a_bad_one_is_said(tmp_path: Path) -> None:
    path = put(tmp_path / "web.yml", f"basic_auth_users: {{alice: {hashed(WORD)}}}")
    alice, bob = basic("alice", WORD), basic("bob", WORD)
    with secured(path) as running:
        assert [get(running.port, None, one) for one in (alice, bob, {})] == [200, 401, 401]
        put(path, f"basic_auth_users: {{bob: {hashed(WORD)}}}")
        running.until(lambda: get(running.port, None, bob) == 200)
        assert get(running.port, None, alice) == 401
        put(path, f"basic_auth_users: {{{WORD}: {WORD}}}")
        running.until(lambda: "web_config_not_reloaded" in "".join(running.said))
        assert get(running.port, None, bob) == 200
        assert running.end()[0] == 0
        assert WORD not in "".join(running.said)
        (event,) = (one for one in running.events if one["event"] == "web_config_not_reloaded")
        assert event["level"] == "warning"
        assert event["why"].startswith("web-config-file: line 1: basic_auth_users: a password")


def test_a_hangup_has_it_read_at_once(tmp_path: Path) -> None:
    path = put(tmp_path / "web.yml", "")
    with secured(path) as running:
        assert get(running.port, None, {}) == 200
        put(path, f"basic_auth_users: {{alice: {hashed(WORD)}}}")
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda: "settings_reloaded" in "".join(running.said))
        assert get(running.port, None, {}) == 401
        put(path, f"{WORD}: 1")
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda: "settings_not_reloaded" in "".join(running.said))
        assert get(running.port, None, basic("alice", WORD)) == 200
        (event,) = (one for one in running.events if one["event"] == "settings_not_reloaded")
        assert event["why"] == "web-config-file: line 1: the file: unknown key"


@pytest.mark.component("openssl")
@pytest.mark.component("curl")
def test_curl_gets_a_page_with_a_certificate_and_a_password(
    tmp_path: Path, authority: Authority
) -> None:
    client = authority.issue("client", "DNS:prometheus")
    other = authority.issue("other", "DNS:other")
    more = "client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: ca.crt\n"
    names = "client_allowed_sans: [prometheus]\n"
    text = tls_section(authority.issue("server"), more + names)
    path = put(tmp_path / "web.yml", f"{text}basic_auth_users: {{alice: {hashed(WORD)}}}\n")
    with secured(path) as running:
        shared = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", "ca.crt")
        shown = ("--cert", client.certificate.name, "--key", client.key.name)
        url = f"https://127.0.0.1:{running.port}/metrics"
        running.until(lambda: curl(tmp_path, *shared, *shown, "-u", f"alice:{WORD}", url) == b"200")
        assert curl(tmp_path, *shared, *shown, "--http2", "-u", f"alice:{WORD}", url) == b"200"
        assert curl(tmp_path, *shared, *shown, "-u", "alice:guess", url) == b"401"
        assert curl(tmp_path, *shared, "-u", f"alice:{WORD}", url) == b"000"
        unnamed = ("--cert", other.certificate.name, "--key", other.key.name)
        assert curl(tmp_path, *shared, *unnamed, "-u", f"alice:{WORD}", url) == b"000"
        assert curl(tmp_path, *shared, *shown, url.replace("https", "http")) == b"000"


def curl(folder: Path, *arguments: str) -> bytes:
    """What curl prints."""
    return subprocess.run(arguments, cwd=folder, capture_output=True, check=False).stdout


@contextlib.contextmanager
def scraping(folder: Path, target: int, **job: object) -> Iterator[LivePrometheus]:
    """A Prometheus that scrapes a port over TLS every second; ``job``: how it shows itself."""
    folder.mkdir()
    port = free_port()
    targets = [{"targets": [f"{HOST}:{target}"]}]
    scrape = {"job_name": "sidecar", "scheme": "https", "static_configs": targets, **job}
    # JSON is YAML.
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    put(folder / "prometheus.yml", json.dumps(config))
    process = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         f"--web.listen-address={HOST}:{port}"],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        begun = time.time()
        while not is_ready(port):
            assert process.poll() is None
            assert time.time() < begun + 30
            time.sleep(0.1)
        yield LivePrometheus(port, begun)
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.component("openssl")
@pytest.mark.component("prometheus")
def test_a_real_prometheus_scrapes_with_a_certificate_and_a_password(
    tmp_path: Path, authority: Authority
) -> None:
    authority.issue("server")
    client = authority.issue("client", "DNS:prometheus.monitoring.svc")
    text = EXAMPLE.read_text().replace("tls.crt", "server.crt").replace("tls.key", "server.key")
    (written,) = (line for line in text.splitlines() if "$2y$" in line)
    path = put(tmp_path / "web.yml", text.replace(written, f"  prometheus: {hashed(WORD)}"))
    shown = {
        "ca_file": str(authority.pair.certificate),
        "cert_file": str(client.certificate),
        "key_file": str(client.key),
    }
    user = {"username": "prometheus", "password": WORD}
    with (
        secured(path) as running,
        scraping(tmp_path / "known", running.port, tls_config=shown, basic_auth=user) as known,
        scraping(tmp_path / "unknown", running.port, tls_config=shown) as unknown,
    ):
        known.until('vllm_sidecar_verdict{verdict="unknown"}')
        assert known.ask("query", query="up")["result"][0]["value"][1] == "1"
        unknown.until("up == 0")
        (target,) = unknown.ask("targets")["activeTargets"]
        assert target["lastError"] == "server returned HTTP status 401 Unauthorized"
