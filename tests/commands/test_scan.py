"""``scan`` answers for each file, and says in one line which it could not read."""

import gzip
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar.commands import scan
from sidecar.commands.scan import CHUNK_BYTES, run_scan
from sidecar.log_triage import LogCause
from sidecar.model.advice import Advice, Lever, Step
from sidecar.model.limits import Limit
from sidecar.parse.log_line import records, say_stamp

SECRET = "sk-very-secret"
OOM = f"(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried {SECRET}\n"
HEALTHY = '(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK\n'


ADVICE = Advice(
    Lever.LOWER_GPU_MEMORY_UTILIZATION,
    because=("a GPU allocation failed",),
    cost="a smaller cache",
    step=Step(Limit.GPU_MEMORY_UTILIZATION),
    step_words="take 0.05 less",
    verify="no allocation fails",
    rollback="take 0.05 more",
    rejected={Lever.RAISE_KV_CACHE_MEMORY: "it takes still more"},
)


def result_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def give_advice(causes: Sequence[LogCause]) -> Advice:
    """The lever of every log in which something was found."""
    return ADVICE if causes else Advice(Lever.NONE)


def test_the_result_has_the_published_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "advise_log", give_advice)
    log = tmp_path / "a.log"
    log.write_text(HEALTHY + OOM)
    assert run_scan([str(log)], output="json") == 0
    assert result_of(capsys) == {
        "file": str(log),
        "lines": 2,
        "verdict": "cuda_oom",
        "causes": [
            {
                "cause": "cuda_oom",
                "kind": "allocation_failure",
                "phase": "unknown",
                "confidence": "confirmed",
                "count": 1,
                "first_line": 2,
                "signals": ["gpu_out_of_memory"],
            }
        ],
        "lever": {
            "name": "lower_gpu_memory_utilization",
            "because": ["a GPU allocation failed"],
            "cost": "a smaller cache",
            "verify": "no allocation fails",
            "step": {
                "setting": "gpu_memory_utilization",
                "value": None,
                "now": None,
                "words": "take 0.05 less",
            },
            "rollback": "take 0.05 more",
            "rejected": {"raise_kv_cache_memory": "it takes still more"},
            "resting": False,
        },
    }


def test_gzip_is_read_whatever_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(gzip.compress(OOM.encode()))
    assert run_scan([str(log)], output="json") == 0
    assert result_of(capsys)["verdict"] == "cuda_oom"


def test_a_dash_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OOM.encode())))
    assert run_scan(["-"], output="json") == 0
    found = result_of(capsys)
    assert (found["file"], found["verdict"]) == ("-", "cuda_oom")


def test_an_unreadable_file_is_named_once_and_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(HEALTHY)
    broken = tmp_path / "b.gz"
    broken.write_bytes(gzip.compress(b"x" * 100_000)[:40])
    names = [str(tmp_path / "none.log"), str(tmp_path), str(broken), str(log)]
    assert run_scan(names, output="json") == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 3
    assert "none.log: No such file or directory" in said.err
    assert "Traceback" not in said.err
    assert json.loads(said.out)["verdict"] == "none"


def test_a_damaged_stream_of_gzip_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = bytearray(gzip.compress(bytes(range(256)) * 1000 + OOM.encode() * 100))
    packed[100:200] = bytes(byte ^ 0x55 for byte in packed[100:200])
    log = tmp_path / "a.gz"
    log.write_bytes(packed)
    assert run_scan([str(log)], output="text") == 2
    assert capsys.readouterr().err.endswith("a.gz: damaged gzip data\n")


def test_a_name_that_is_no_text_is_shown_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / os.fsdecode(b"a\xff\nb.log")
    log.write_text(OOM)
    assert run_scan([str(log), f"{log}x"], output="text") == 2
    said = capsys.readouterr()
    assert "a\\udcff\\nb.log: cuda_oom" in said.out
    assert said.err.count("\n") == 1
    said.out.encode()
    said.err.encode()


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_output_holds_anything_of_a_line(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(OOM)
    run_scan([str(log)], output="text" if output == "text" else "json")
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "OutOfMemoryError" not in said.out + said.err


def test_the_text_says_in_words_what_where_and_how_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(HEALTHY + OOM)
    run_scan([str(log)], output="text")
    said = capsys.readouterr().out
    assert "cuda_oom (2 lines)" in said
    assert "an allocation of GPU memory failed (first in line 2" in said


def test_a_line_over_the_border_of_two_portions_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    filler = HEALTHY * (CHUNK_BYTES // len(HEALTHY))
    log.write_text(filler + OOM + filler)
    run_scan([str(log)], output="json")
    found = result_of(capsys)
    assert found["verdict"] == "cuda_oom"
    assert found["lines"] == 2 * (CHUNK_BYTES // len(HEALTHY)) + 1


def test_people_read_when_it_was_what_followed_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "(EngineCore_DP0 pid=9) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out"
        " of memory. Tried to allocate 960.00 MiB.\n"
        "(APIServer pid=1) ERROR 10-24 01:26:58 [async_llm.py:1] vllm.v1.engine.exceptions."
        "EngineDeadError: EngineCore encountered an issue.\n"
    )
    assert run_scan([str(log)], output="text") == 0
    said = capsys.readouterr().out
    assert "(first in line 1 at 10-24 01:26:57, once)" in said
    assert "what followed from it: engine_dead" in said
    assert "lever lower_gpu_memory_utilization: " in said
    assert "do: " not in said, "one lever, and no second advice beside it"
    assert "do not: raise --gpu-memory-utilization" in said


def test_a_log_without_a_finding_has_the_lever_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(HEALTHY)
    run_scan([str(log)], output="json")
    lever = result_of(capsys)["lever"]
    assert isinstance(lever, dict)
    assert (lever["name"], lever["step"]) == ("none", None)
    run_scan([str(log)], output="text")
    assert "lever" not in capsys.readouterr().out


REFUSED = (
    "ERROR 10-24 01:26:57 [core.py:710] ValueError: No available memory for the cache blocks.\n"
)


@pytest.mark.parametrize(("line", "opposite"), [(OOM, "raise"), (REFUSED, "lower")])
def test_the_two_kinds_of_cuda_oom_never_get_each_others_lever(
    line: str, opposite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(line)
    run_scan([str(log)], output="json")
    lever = result_of(capsys)["lever"]
    assert isinstance(lever, dict)
    assert lever["name"] != "none"
    assert lever["name"] not in {
        f"{opposite}_gpu_memory_utilization",
        f"{opposite}_kv_cache_memory",
    }
    run_scan([str(log)], output="text")
    assert f"  lever {lever['name']}: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["01-01 00:00:00", "02-28 23:59:59", "03-01 07:08:09", "12-31 12:00:00"]
)
def test_a_stamp_is_said_as_it_stood_in_the_line(text: str) -> None:
    (record,) = records(f"ERROR {text} [core.py:1] x")
    assert record.stamp is not None
    assert say_stamp(record.stamp) == text
