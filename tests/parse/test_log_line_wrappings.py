"""A record means the same whatever it is wrapped in, and the prefilter never loses it."""

import json

import pytest

from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_line import records, text_of
from sidecar.parse.log_match import read_line

HEADED = "ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 MiB."
TAGGED = f"(EngineCore_DP0 pid=8402) {HEADED}"


def docker(line: str) -> str:
    return json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": "2025-10-24T01:26:57.1Z"},
        separators=(",", ":"),
    )


WRAPPED = {
    "bare": TAGGED,
    "V0 head": TAGGED.replace("[core.py:710]", "core.py:710]"),
    "debug path": TAGGED.replace("[core.py:710]", "[v1/engine/core.py:710]"),
    "carriage return": TAGGED + "\r",
    "colours": f"\x1b[1;36m(EngineCore_DP0 pid=8402)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m10-24 01:26:57\x1b[0m \x1b[90m[core.py:710]\x1b[0m {HEADED[35:]}",
    "colours without ESC": f"[1;36m(EngineCore_DP0 pid=8402)[0;0m {HEADED}",
    "colours as carets": f"^[[1;36m(EngineCore_DP0 pid=8402)^[[0;0m {HEADED}",
    "colours as syslog writes them": f"#033[1;36m(EngineCore_DP0 pid=8402)#033[0m {HEADED}",
    "CRI": f"2025-10-24T01:26:57.123456789Z stderr F {TAGGED}",
    "docker json": docker(TAGGED),
    "docker json with colours": docker(f"\x1b[1;36m(EngineCore_DP0 pid=8402)\x1b[0;0m {HEADED}"),
    "docker compose": f"vllm-1  | {TAGGED}",
    "kubectl logs --prefix --timestamps": f"[pod/vllm-0/vllm] 2025-10-24T01:26:57.123456789Z {TAGGED}",
    "journalctl short": f"Oct 24 01:26:57 node1 vllm[8402]: {TAGGED}",
    "journalctl short-iso": f"2025-10-24T01:26:57+0000 node1 vllm[8402]: {TAGGED}",
    "journalctl json": json.dumps({"MESSAGE": TAGGED, "_SYSTEMD_UNIT": "vllm.service"}),
    "journalctl json with control bytes": json.dumps({"MESSAGE": list(TAGGED.encode())}),
    "CI": f"[2025-10-24T01:26:57Z] {TAGGED}",
    "CI, older": f"2025-10-24T01:26:57.1234567Z {TAGGED}",
    "cloud": json.dumps({"severity": "INFO", "textPayload": TAGGED}),
    "rank": f"[rank0]: {TAGGED}",
    "Ray": f"\x1b[36m(RayWorkerWrapper pid=206994, ip=192.168.10.25)\x1b[0m {TAGGED}\x1b[32m [repeated 15x across cluster]\x1b[0m",
    "platform": f"2026-05-08 11:47:02.257 [Error] (Process) {TAGGED}",
    "piped through a logger": f"2024-04-27 10:13:05 | ERROR | stderr | {TAGGED}",
    "logging prefix": f"[prod/a] {TAGGED}",
    "NUL bytes": f"\x00\x00{TAGGED}",
    "indented": f"    {TAGGED}",
    "progress bar in front": f"Capturing:  60%|██████    | 21/35 [00:10<00:05,  2.40it/s]{TAGGED}",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_the_wrapping_changes_nothing(name: str) -> None:
    line = WRAPPED[name]
    (said,) = read_line(line)
    assert said.signature.id == "torch_out_of_memory"
    assert said.origin == "engine"
    assert read_line(line.encode()) == (said,)
    assert candidates(line.encode()) == [0]


@pytest.mark.parametrize(
    ("tag", "origin"),
    [
        ("APIServer", "api_server"),
        ("ApiServer_0", "api_server"),
        ("RustFrontend", "api_server"),
        ("EngineCore_DP1", "engine"),
        ("VllmWorker rank=3", "worker"),
        ("Worker_DP0_TP1_EP1", "worker"),
        ("VllmWorkerProcess", "worker"),
        ("raylet", "unknown"),
    ],
)
def test_the_process_tag_tells_the_origin(tag: str, origin: str) -> None:
    (found,) = records(f"({tag} pid=1) {HEADED}")
    assert found.origin == origin
    assert found.level == "ERROR"
    assert found.logger_file == "core.py"


def test_the_json_formatter_is_read_with_all_lines_of_its_traceback() -> None:
    line = json.dumps(
        {
            "levelname": "ERROR",
            "name": "vllm.v1.engine.core",
            "message": "EngineCore encountered a fatal error.",
            "exc_info": "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory.",
        }
    )
    assert [said.signature.id for said in read_line(line)] == [
        "engine_fatal_error",
        "torch_out_of_memory",
    ]


def test_two_stamps_differ_by_the_seconds_between_them() -> None:
    (first,) = records("INFO 02-28 23:59:50 [a.py:1] x")
    (second,) = records("INFO 03-01 00:00:20 [a.py:1] x")
    assert first.stamp is not None
    assert second.stamp is not None
    assert second.stamp - first.stamp == 30


def test_what_a_progress_bar_drew_over_is_gone() -> None:
    assert text_of("10%\r50%\r100% done\r\n") == "100% done"


def test_invalid_bytes_and_empty_lines_are_no_matter() -> None:
    assert read_line(b"\xff\xfe" + TAGGED.encode())
    assert read_line(b"") == ()
    assert read_line(b"\x00\r\n") == ()
