"""Program: the shipped units under the systemd that is PID 1 here, and what becomes of them; tells as JSON.

To be run in a machine of its own (``tests.fakes.systemd_guest``): it installs as the README says, kills
for memory and stops things. Each stage tells one result, also one that failed, and the next goes on.
"""

import gzip
import json
import re
import sys
import threading
import time
import traceback
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.deploy.systemd_instances import (  # noqa: E402
    FULL,
    LLAMA,
    OTHER,
    PORTS,
    alerts,
    await_alert,
    await_state,
    command,
    events,
    evidence,
    journal,
    metrics,
    ones,
    page,
    process_of,
    show,
    sum_of,
    until,
)

DATA = ROOT / "tests/data"
SHIPPED = ROOT / "deploy/systemd"
ETC = Path("/etc/vllm-sidecar")
UNITS = Path("/etc/systemd/system")
FIFO = Path("/run/vllm/llama")
CONFIG = ETC / "llama.toml"
DROP_INS = {
    FULL: ("kernel-log", "process-details", "gpu"),
    OTHER: ("target-token", "local-only"),
}
OUTSIDE = "10.9.9.9"
"""An address of this machine that is not of the loopback network."""
TOKEN = "token-canary-0451"
OOM_EXCERPT = "c029"
"""Of ``logs.jsonl``: a failed CUDA allocation, as vLLM's workers log it."""
SERVER_UNIT = """[Service]
RuntimeDirectory=vllm
MemoryMax=64M
Restart=no
ExecStart=
ExecStart=/bin/sh -c 'mkfifo {fifo}; exec 3<>{fifo}; cat {fifo} & exec /opt/vllm-sidecar/bin/python \
{root}/tests/process/vllm_stand_in.py - {exposition} {fifo} /etc/vllm/last_words 8000'
"""
STICKS = """import signal
def stick(*_):
    while True:
        continue
signal.signal(signal.SIGUSR1, stick)
"""
"""``sitecustomize``: a signal that has the daemon's loop stand still."""


def order(text: str) -> None:
    """Tell the server's stand-in what to do."""
    with urllib.request.urlopen("http://127.0.0.1:8000/", data=text.encode(), timeout=5):
        return


class Elsewhere(BaseHTTPRequestHandler):
    """Another server, that notes who asks."""

    asked: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.asked.add(self.headers.get("Authorization", ""))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


def prepare() -> dict[str, Any]:
    """The server, its user, and settings; the units themselves are installed by the README's commands."""
    for name, line in (("passwd", "vllm:x:900:900::/:/usr/sbin/nologin"), ("group", "vllm:x:900:")):
        with Path(f"/etc/{name}").open("a") as file:
            file.write(f"{line}\n")
    Path("/etc/vllm").mkdir()
    Path("/etc/vllm/llama.env").write_text("MODEL=m\n")
    with gzip.open(DATA / "recordings/i_enginecore_sigkill/log.jsonl.gz", "rt") as file:
        lines = [json.loads(line)["line"] for line in file]
    begin = next(n for n, line in enumerate(lines) if " ERROR " in line)
    Path("/etc/vllm/last_words").write_text("".join(f"{line}\n" for line in lines[begin:]))
    command("cp", str(SHIPPED / "vllm@.service"), str(UNITS))
    drop_in("vllm@llama.service").write_text(
        SERVER_UNIT.format(root=ROOT, fifo=FIFO, exposition=DATA / "expositions/0.26.0.txt")
    )
    command("ip", "address", "add", f"{OUTSIDE}/32", "dev", "lo")
    server = ThreadingHTTPServer(("127.0.0.1", 8001), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Path("/opt/hooks").mkdir()
    Path("/opt/hooks/sitecustomize.py").write_text(STICKS)
    drop_in(LLAMA).write_text(
        "[Service]\nEnvironment=PYTHONPATH=/opt/hooks\nWatchdogSec=2s\nRestartSec=2s\n"
    )
    return {}


def drop_in(unit: str) -> Path:
    """The path for a drop-in of this test's."""
    directory = UNITS / f"{unit}.d"
    directory.mkdir(exist_ok=True)
    return directory / "zz-test.conf"


def readme_block(name: str) -> list[str]:
    """The commands of a marked block of the README."""
    found = re.search(rf"```sh {name}\n(.*?)```", (SHIPPED / "README.md").read_text(), re.DOTALL)
    assert found
    return found[1].splitlines()


def install() -> dict[str, Any]:
    """As the README says, with the settings' file edited between its commands."""
    command("systemctl", "daemon-reload")
    command("systemctl", "start", "vllm@llama.service")
    printed = []
    for line in readme_block("install"):
        printed.append(command("sh", "-ec", f"cd {ROOT}; {line}"))
        if "example.env" in line:
            edit_settings()
    return {"printed": printed, **show(LLAMA, "ActiveState", "StatusText", "UnitFileState")}


def edit_settings() -> None:
    """Quicker ticks, one port for each instance, and the file that can be reloaded."""
    text = (ETC / "llama.env").read_text()
    text = text.replace("#ARGS=", "ARGS=").replace("127.0.0.1:9477", "0.0.0.0:9477")
    quick = "VLLM_SIDECAR_INTERVAL=1s\nVLLM_SIDECAR_WINDOW=2s\n"
    (ETC / "llama.env").write_text(text + quick)
    CONFIG.write_text("max_engines = 8\n")
    without = re.sub(r"(?m)^(ARGS|VLLM_SIDECAR_CGROUP)=.*\n", "", text) + quick
    (ETC / "full.env").write_text(without.replace(":9477", ":9478"))
    elsewhere = without.replace(":9477", ":9479").replace(":8000", ":8001")
    (ETC / "other.env").write_text(re.sub(r"(?m)^VLLM_SIDECAR_LOG=.*\n", "", elsewhere))
    token = ETC / "other.token"
    token.touch(0o600)
    token.write_text(TOKEN)


def install_others() -> dict[str, Any]:
    """Instances with drop-ins, each installed as the README says it of one."""
    copy, *rest = readme_block("drop-in")
    for unit, names in DROP_INS.items():
        for name in names:
            said = copy.replace("kernel-log", name).replace(LLAMA, unit)
            command("sh", "-ec", f"cd {ROOT}; {said}")
    for said in rest:
        command("sh", "-ec", said.replace("vllm-sidecar@llama", f"{FULL} {OTHER}"))
    return {unit: show(unit, "ActiveState", "StatusText") for unit in DROP_INS}


def sandbox() -> dict[str, Any]:
    """What each instance is, and what it sees."""
    for unit in (LLAMA, FULL):
        await_state(unit, "verdict", ["none"])
    await_state(OTHER, "target_state", ["serving"])
    return {
        unit: {
            "process": process_of(unit),
            "state": ones(unit, "target_state"),
            "observable": ones(unit, "observable"),
            "up": ones(unit, "source_up"),
            "status": show(unit, "StatusText")["StatusText"],
            "memory": int(show(unit, "MemoryCurrent")["MemoryCurrent"]),
            "watchdog": show(unit, "WatchdogUSec")["WatchdogUSec"],
            "outside": bool(page(unit, OUTSIDE, 3)),
            "warned": journal(unit, "--priority=warning"),
        }
        for unit in PORTS
    } | {"asked": sorted(Elsewhere.asked), "engines": metrics(FULL)["server_processes engine"]}


def cuda_oom() -> dict[str, Any]:
    """The server's unit writes what a real one wrote."""
    with (DATA / "logs.jsonl").open() as file:
        found = next(one for one in map(json.loads, file) if one["id"] == OOM_EXCERPT)
    before = alerts(LLAMA)
    with FIFO.open("a") as log:
        log.write("".join(f"{line}\n" for line in found["lines"]))
    for unit in (LLAMA, FULL):
        await_alert(unit, "cuda_oom")
    until(lambda: "cuda_oom" in show(LLAMA, "StatusText")["StatusText"], "status")
    status = show(LLAMA, "StatusText")["StatusText"]
    return {
        "before": before,
        "alerts": alerts(LLAMA),
        "status": status,
        "evidence": evidence(LLAMA),
    }


def reload() -> dict[str, Any]:
    """A good file, a bad one, and a good one again."""
    texts = ("max_engines = 2\n", "max_engins = 2\n", "max_engines = 3\nmetrics_path = '/other'\n")
    return {"told": [reload_with(text, good=number != 1) for number, text in enumerate(texts)]}


def reload_with(text: str, *, good: bool) -> dict[str, Any]:
    """Reload such a file, and wait until pages and systemd show that it was taken, or refused."""
    before, count = taken_at(), len(events(LLAMA))
    CONFIG.write_text(text)
    command("systemctl", "reload", LLAMA)
    until(lambda: taken_at() > before if good else not was_taken(), "the reload is shown")
    until(lambda: show(LLAMA, "SubState")["SubState"] == "running", "it is over")
    said = [one for one in events(LLAMA)[count:] if one["event"].startswith("settings_")]
    properties = show(LLAMA, "ActiveState", "StatusText", "NRestarts")
    return {"said": said, "taken": was_taken(), "newer": taken_at() > before, **properties}


def was_taken() -> bool:
    """Whether the last settings were taken."""
    return metrics(LLAMA)["config_last_reload_successful"] == 1


def taken_at() -> float:
    """When settings were last taken."""
    return metrics(LLAMA)["config_last_reload_success_timestamp_seconds"]


def watchdog() -> dict[str, Any]:
    """The loop stands still; what was counted before is there after."""
    before = show(LLAMA, "MainPID", "NRestarts")
    counted, windows = evidence(LLAMA), sum_of(LLAMA, "windows_total")
    command("systemctl", "kill", "--kill-who=main", "--signal=SIGUSR1", LLAMA)
    until(lambda: any("Failed with result" in one for one in journal(LLAMA)), "it is ended")
    until(lambda: show(LLAMA, "NRestarts")["NRestarts"] == "1", "it is started again")
    until(lambda: show(LLAMA, "ActiveState")["ActiveState"] == "active", "it is ready again")
    until(lambda: sum_of(LLAMA, "windows_total") > windows, "it goes on counting")
    until(lambda: "serving" in ones(LLAMA, "target_state"), "it sees the server again")
    after = show(LLAMA, "MainPID", "NRestarts", "Result")
    return {
        "restarts": [before["NRestarts"], after["NRestarts"]],
        "is_another": before["MainPID"] != after["MainPID"],
        "counted": [counted, evidence(LLAMA)],
        "said": [
            one for one in journal(LLAMA) if "watchdog" in one.lower() or "sitecustomize" in one
        ],
        "still_alerted": "cuda_oom" in " ".join(alerts(LLAMA)),
    }


def host_oom() -> dict[str, Any]:
    """The server's engine takes memory until the kernel kills it at the unit's limit."""
    before = {unit: alerts(unit) for unit in (LLAMA, FULL)}
    order("engine take")
    for unit in (LLAMA, FULL):
        await_alert(unit, "host_oom critical")
    until(lambda: show("vllm@llama.service", "ActiveState")["ActiveState"] == "failed", "it ended")
    for unit in (LLAMA, FULL):
        await_state(unit, "target_state", ["dead"])
    # The windows of the death are closed.
    time.sleep(5)
    return {
        "before": before,
        "server": show("vllm@llama.service", "Result", "ExecMainStatus"),
        **{
            unit: {
                "alerts": alerts(unit),
                "verdict": ones(unit, "verdict"),
                "evidence": evidence(unit),
            }
            for unit in (LLAMA, FULL)
        },
        "sidecars": {unit: show(unit, "ActiveState", "NRestarts") for unit in PORTS},
    }


def stop() -> dict[str, Any]:
    """All of them."""
    command("systemctl", "stop", *PORTS)
    return {
        unit: {
            **show(unit, "ActiveState", "Result", "ExecMainStatus"),
            "last": events(unit)[-1]["event"],
        }
        for unit in PORTS
    }


STAGES = (prepare, install, install_others, sandbox, cuda_oom, reload, watchdog, host_oom, stop)


def main() -> None:
    for stage in STAGES:
        begun = time.monotonic()
        try:
            told = stage()
        except Exception:  # noqa: BLE001 - told, so that the others' results stand
            states = {unit: journal(unit)[-20:] for unit in PORTS}
            told = {"error": traceback.format_exc(), "states": states}
        took = round(time.monotonic() - begun, 1)
        sys.stdout.write(f"RESULT {json.dumps({'what': stage.__name__, 'took_s': took, **told})}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
