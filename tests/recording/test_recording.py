"""A recording is read as far as it can be read; what cannot be is counted, never guessed."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import RecordingError
from sidecar.model.readings import CgroupReading, HealthReading, LogReading, MetricsReading
from sidecar.model.samples import Tick
from sidecar.model.vocabulary import Fault, Source
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks

REAL = Path(__file__).parents[1] / "data/recordings"
BODY = (Path(__file__).parents[1] / "data/expositions/0.26.0.txt").read_text()
T0 = 1_700_000_000.0
BEYOND_FLOATS = 10**399
Row = dict[str, Any]
Write = Callable[..., Recording]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Make a recording of lines or rows by file name."""

    def make(**files: list[Row | str]) -> Recording:
        header = {"format": 1, "created": T0, "about": "made", "target": {}}
        (tmp_path / "recording.json").write_text(json.dumps(header))
        for name, rows in files.items():
            lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return Recording(tmp_path)

    return make


def health(*moments: float) -> list[Row | str]:
    return [{"t": T0 + t, "status": 200} for t in moments]


def ticks(recording: Recording, interval_s: float = 1.0) -> list[Tick]:
    return list(read_ticks(recording, interval_s))


def samples(found: list[Tick], source: Source) -> Iterator[Any]:
    return (s for tick in found for s in tick.samples if s.source is source)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '"t"',
        "{}",
        '{"t": null, "status": 200}',
        '{"t": "noon", "status": 200}',
        '{"t": NaN, "status": 200}',
        '{"t": Infinity, "status": 200}',
        '{"t": -1, "status": 200}',
        '{"t": 1700000001000, "status": 200}',
        f'{{"t": {BEYOND_FLOATS}, "status": 200}}',
        f'{{"status": {BEYOND_FLOATS}, "t": 1700000001}}',
        '{"t": 1700000001}',
        '{"t": 1700000001, "status": "well"}',
        '{"t": 1700000001, "status": {}}',
        '{"t": 1700000001, "status": 1e999}',
        "[" * 100_000,
        "\x00\x01",
    ],
    ids=lambda line: line[:40],
)
def test_a_row_that_cannot_be_read_is_counted_and_left_out(broken: str, write: Write) -> None:
    recording = write(health=[*health(1), broken, *health(2)])
    found = list(samples(ticks(recording), Source.VLLM_HEALTH))
    assert [sample.reading for sample in found] == [HealthReading(200), HealthReading(200)]
    assert recording.unreadable == ({"health.jsonl": 1} if broken else {})


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("metrics", {"status": 200}),
        ("cgroup", {"version": 2, "path": "/x"}),
        ("cgroup", {"version": "two", "path": "/x", "files": {"memory.events": ""}}),
        ("cgroup", {"version": 2, "path": "/x", "files": ["memory.events"]}),
        ("nvml", {"driver": "1", "gpus": [{}]}),
        ("nvml", {"driver": "1", "gpus": 7}),
        ("process", {"processes": [{"pid": "x", "comm": "y"}]}),
        ("process", {}),
        ("log", {"line": 7}),
        ("kernel_log", {}),
    ],
)
def test_a_row_without_what_it_must_have_is_counted(name: str, row: Row, write: Write) -> None:
    recording = write(health=health(1), **{name: [{"t": T0 + 1, **row}]})
    ticks(recording)
    assert recording.unreadable == {f"{name}.jsonl": 1}


def test_the_faults_of_a_recording_are_faults_and_no_unreadable_rows(write: Write) -> None:
    recording = write(
        metrics=[
            {"t": T0 + 1, "status": None, "error": "timeout"},
            {"t": T0 + 2, "status": None, "error": "somebody else's word"},
            {"t": T0 + 3, "status": 500},
            {"t": T0 + 4, "status": 200, "content_type": "text/html", "body": "<html>"},
            {"t": T0 + 5, "status": 200, "content_type": "text/plain", "body": BODY},
        ],
        cgroup=[
            {"t": T0 + 1, "version": 2, "path": "/x", "files": {}},
            {"t": T0 + 2, "version": 2, "path": "/x", "files": None},
        ],
    )
    found = ticks(recording)
    faults = [sample.fault for sample in samples(found, Source.VLLM_METRICS)]
    expected = [Fault.TIMEOUT, Fault.IO_ERROR, Fault.HTTP_STATUS, Fault.MALFORMED, None]
    assert faults == expected
    assert isinstance(list(samples(found, Source.VLLM_METRICS))[-1].reading, MetricsReading)
    denied, gone = samples(found, Source.CGROUP)
    assert denied.fault is Fault.DENIED
    assert isinstance(gone.reading, CgroupReading)
    assert gone.reading.gone
    assert not recording.unreadable


def repack(folder: Path, cut: int | None = None) -> None:
    """Every file packed, or cut where a capture was killed."""
    for path in folder.glob("*.jsonl"):
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes())[:cut])
        path.unlink()


def test_a_packed_file_reads_as_a_plain_one(write: Write) -> None:
    rows: list[Row | str] = [{"t": T0 + n, "status": 200, "body": BODY} for n in range(5)]
    recording = write(metrics=rows, health=health(1, 2, 3), log=[{"t": T0 + 1, "line": "INFO x"}])
    plain = ticks(recording)
    repack(recording.folder)
    assert ticks(Recording(recording.folder)) == plain


def test_a_packed_file_that_was_cut_ends_where_it_was_cut(write: Write) -> None:
    recording = write(health=health(*range(5000)))
    whole = len(ticks(recording))
    packed = len(gzip.compress((recording.folder / "health.jsonl").read_bytes()))
    repack(recording.folder, cut=packed // 2)
    found = ticks(recording)
    assert 0 < len(found) < whole
    assert 1 <= recording.unreadable["health.jsonl.gz"] <= 2, "the cut, and the row in which it is"


def test_a_plain_file_that_was_cut_loses_its_last_row(write: Write) -> None:
    recording = write(health=health(1, 2, 3))
    path = recording.folder / "health.jsonl"
    path.write_text(path.read_text()[:-10])
    assert len(list(samples(ticks(recording), Source.VLLM_HEALTH))) == 2
    assert recording.unreadable == {"health.jsonl": 1}


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b", b"\x1f\x8b\x08\x00broken"])
def test_a_file_that_is_packed_by_its_name_only_is_counted(content: bytes, write: Write) -> None:
    recording = write(health=health(1))
    (recording.folder / "log.jsonl.gz").write_bytes(content)
    assert len(ticks(recording)) == 1
    assert recording.unreadable == ({"log.jsonl.gz": 1} if content else {})


def test_files_that_are_not_of_the_format_are_ignored(write: Write) -> None:
    recording = write(health=health(1))
    for name in ("expected.json", "health.jsonl.bak", "notes.txt", "metrics.json"):
        (recording.folder / name).write_text("{")
    (recording.folder / "nvml.jsonl").mkdir()
    assert recording.sources() == {Source.VLLM_HEALTH}
    assert len(ticks(recording)) == 1
    assert not recording.unreadable


def test_rows_out_of_order_count_from_the_latest_moment_on(write: Write) -> None:
    recording = write(health=health(3, 1, 2, 5))
    found = [tick for tick in ticks(recording) if tick.samples]
    assert [tick.at.unix - T0 for tick in found] == [3, 5]
    assert [len(tick.samples) for tick in found] == [3, 1]


def test_one_row_is_one_tick(write: Write) -> None:
    (tick,) = ticks(write(health=health(2.3)), interval_s=5.0)
    assert tick.at.unix % 5 == 0
    assert len(tick.samples) == 1


def test_no_row_is_no_tick(write: Write) -> None:
    assert ticks(write(health=[])) == []
    assert ticks(write()) == []


def test_lines_belong_to_the_tick_after_them_and_samples_to_the_nearest(write: Write) -> None:
    recording = write(
        health=health(0.4, 0.6),
        log=[{"t": T0 + 0.1, "line": "a"}, {"t": T0 + 1.0, "line": "b"}],
    )
    first, second = ticks(recording)
    (early,) = samples([first], Source.VLLM_HEALTH)
    assert early.at.unix == T0 + 0.4
    (log,) = samples([second], Source.VLLM_LOG)
    assert log.reading == LogReading(lines=2, bytes=4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("", "no JSON"),
        ("[]", "not a recording of format 1"),
        ('{"format": 2}', "not a recording of format 1"),
        ("{}", "not a recording of format 1"),
        ("\ud800", "no JSON"),
    ],
)
def test_a_folder_that_is_no_recording_says_why(text: str | None, why: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "recording.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(RecordingError, match=why):
        Recording(tmp_path).header()


def test_every_real_recording_is_read_without_a_rest() -> None:
    for folder in sorted(REAL.iterdir()):
        recording = Recording(folder)
        recording.header()
        assert sum(1 for source in recording.sources() for _ in recording.rows(source)) > 10
        assert not recording.unreadable


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        f'{{"format": 1, "created": {BEYOND_FLOATS}}}',
        f'{{"format": 1, "created": 1{"0" * 5000}}}',
        '{"format": 1, "created": "noon"}',
        '{"format": 1, "created": NaN}',
    ],
    ids=["nested", "beyond_floats", "beyond_integers", "word", "nan"],
)
def test_a_header_that_cannot_be_read_is_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(header)
    with pytest.raises(RecordingError, match=r"recording\.json"):
        Recording(tmp_path).header()


def test_a_number_larger_than_any_memory_is_counted_and_left_out(write: Write) -> None:
    gpu = {"index": 0, "memory": {"total": BEYOND_FLOATS, "used": 1, "free": 1, "reserved": 0}}
    process = {"pid": 1, "comm": "x", "rss": BEYOND_FLOATS}
    recording = write(
        nvml=[{"t": T0 + 1, "driver": "1", "gpus": [gpu]}],
        process=[{"t": T0 + 1, "processes": [process]}],
    )
    assert list(samples(ticks(recording), Source.NVML)) == []
    assert recording.unreadable == {"nvml.jsonl": 1, "process.jsonl": 1}


@pytest.mark.parametrize("kind", ["pipe", "zeros", "large"])
def test_a_description_that_is_no_small_plain_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "zeros":
            path.symlink_to("/dev/zero")
        case _:
            path.write_text('{"format": 1, "about": "' + "x" * (5 << 20) + '"}')
    with pytest.raises(RecordingError, match="no recording in"):
        Recording(tmp_path).header()


def test_a_row_of_a_small_file_may_not_be_huge(tmp_path: Path) -> None:
    recording = tmp_path / "copy"
    recording.mkdir()
    (recording / "recording.json").write_text('{"format": 1}')
    (recording / "ticks.jsonl").write_text('{"t": 1, "a": [' + "[]," * (1 << 20) + "[]]}\n")
    assert list(Recording(recording).rows_of("ticks.jsonl")) == []
