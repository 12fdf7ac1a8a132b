"""The report in Markdown: every figure with its bound, what is not known said so, names shown as they are."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope import report_text
from sidecar.envelope.document import MOST_COMMAND
from sidecar.envelope.report_text import write_text
from sidecar.model.envelope import Stage, StageRun
from tests.envelope import made

CANARY = "sk-canary-0451-abcdef"
BARE_PIPE = re.compile(r"(?<!\\)(?:\\\\)*\|")


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the table whose first heading this is, row by row."""
    lines = text.splitlines()
    at = lines.index(next(line for line in lines if line.startswith(f"| {first} |")))
    table = []
    for line in lines[at:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return [table[0], *table[2:]]


def test_it_begins_with_the_verdict_and_the_safe_load() -> None:
    lines = write_text(made.make_envelope()).splitlines()
    assert lines[0] == "# Capacity envelope tiny-64-700"
    assert lines[2] == "**Accepted: c4 at 4 concurrent requests meets every criterion.**"
    assert lines[4] == (
        "**Safe up to 3.6 concurrent requests: c4 at 4 concurrent requests is the last stage that met "
        "everything, less a margin of 10%.**"
    )
    assert "- first preempting stage: c8 at 8 concurrent requests" in lines
    assert "- what binds: the KV cache: its capacity held requests back" in lines


def test_every_criterion_has_its_figure_and_bound() -> None:
    text = write_text(made.make_envelope(acceptance=made.REJECTED))
    assert rows(text, "criterion")[1:] == [
        ["requests that failed", "0%", "at most 0%", "met", ""],
        ["no out-of-memory", "yes", "yes", "met", ""],
        [
            "preemptions per request",
            "1.02",
            "at most 0.01",
            "not met",
            "49 preemptions, 48 requests",
        ],
        ["TTFT p95", "57.1 ms", "at most 500 ms", "met", ""],
        ["E2E latency p95", "5.66 s", "at most 5 s", "not met", ""],
        ["the queue stops growing", "no", "yes", "not met", "more and more requests waited"],
        ["drains after the load", "-", "-", "could not be told, so not met", "it was not seen"],
        ["spread of repeats", "3%", "at most 15%", "met", ""],
    ]
    assert (
        "**Rejected: c16 at 16 concurrent requests. Not met: preemptions per request, E2E latency p95 "
        "and the queue stops growing. Could not be told: drains after the load.**"
    ) in text


def test_stages_show_the_median_and_the_spread_of_their_repeats() -> None:
    stages = tuple(made.make_stage(name, (1.0, 1.2, 1.1)) for name in ("c4", "c8"))
    text = write_text(made.make_envelope(stages=stages))
    head, c4, c8 = rows(text, "stage")
    shown = dict(zip(head, c8, strict=True))
    assert shown["place"] == "first preempting"
    assert shown["completed"] == "96"
    assert shown["preempt. per request"] == "0.281"
    assert shown["KV cache peak"] == "97.7%"
    # 22,400 tokens in 12.5 s, 13.75 s and 15 s.
    assert shown["output tok/s"] == "1,629 ±10%"
    assert dict(zip(head, c4, strict=True))["place"] == "last good, intended"
    latencies = text[text.index("| TTFT mean |") :]
    assert "| c4 | 4 | 21.8 ms ±9.1% | 19.8 ms ±9.1% | 41.2 ms ±9.1% |" in text, latencies


def test_a_repeat_that_did_not_go_to_its_end_is_named_and_not_counted() -> None:
    whole, other = made.make_stage("c8").runs
    broken = StageRun(3, other.server, whole=False, exit_code=3)
    stage = Stage("c8", 8, (whole, broken))
    text = write_text(made.make_envelope(stages=(stage,)))
    head, row = rows(text, "stage")
    shown = dict(zip(head, row, strict=True))
    assert shown["repeats"] == "1 of 2"
    assert shown["output tok/s"] == "1,792"
    assert "**c8, repeat 3: it did not go to its end.**" in text
    assert "**c8, repeat 3: the load's command ended with exit code 3.**" in text


def test_what_nobody_measured_is_never_nothing() -> None:
    text = write_text(made.make_blind())
    _, *stages = rows(text, "stage")
    assert [row[4:] for row in stages] == [["-"] * 7] * 2
    assert "**No load was shown to be safe: no stage met every criterion.**" in text
    assert "**second, repeat 1: the server died (host_oom).**" in text
    assert "How the server was started could not be seen." in text
    assert "No result of a load generator was read: the figures are the server's alone." in text
    assert "The plan names no command to go back to." in text
    assert "- model: -" in text


def test_where_server_and_client_differ_both_are_shown() -> None:
    text = write_text(made.make_envelope())
    _, first, second = rows(text[text.index("## Server and client") :], "stage")
    assert first == ["c8", "1", "TTFT mean", "17.7 ms", "1.22 s", "68.7"]
    assert second[:2] == ["c8", "2"]
    agreed = write_text(made.make_envelope(stages=(made.make_stage("c4"),)))
    assert "Server and client (vllm_bench) agree in their counts, rates and means." in agreed


def test_the_way_back_can_be_copied_as_it_is() -> None:
    command = "docker run --name vllm \\\n  -e 'A=`date`' image --max-num-seqs 16 # ```"
    text = write_text(made.make_envelope(rollback=command))
    assert f"````sh\n{command}\n````\n" in text
    long = write_text(made.make_envelope(rollback="x" * (MOST_COMMAND + 1)))
    assert "It is longer than a report shows: the whole of it is in envelope.json." in long


def test_the_launch_command_can_be_copied_and_holds_no_secret() -> None:
    identity = replace(
        made.IDENTITY,
        launch=("vllm", "serve", "a model", "--api-key", CANARY, f"--hf-token={CANARY}"),
        environment={"VLLM_X": f"Bearer {CANARY}"},
    )
    text = write_text(
        made.make_envelope(identity=identity, rollback=f"VLLM_API_KEY={CANARY} vllm serve m")
    )
    assert CANARY not in text
    assert "VLLM_X='***' vllm serve 'a model' --api-key '***' '--hf-token=***'" in text
    assert "VLLM_API_KEY=*** vllm serve m" in text
    assert text.count(r"\*\*\* stands for a secret, which no report holds.") == 2


@pytest.mark.parametrize("word", made.HOSTILE)
def test_names_of_others_stay_text(word: str) -> None:
    text = write_text(made.make_hostile(word))
    outside = re.sub(r"^(`{3,})sh\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert all(line.isprintable() for line in text.split("\n"))
    for mark in "<>[]`":
        assert not re.search(rf"(?<!\\){re.escape(mark)}", outside), outside
    for table in re.findall(r"(?:^\|.*\n)+", outside, flags=re.MULTILINE):
        assert len({len(BARE_PIPE.findall(line)) for line in table.splitlines()}) == 1, table
    assert outside.count("\n## ") == 5


@given(st.text(max_size=30))
def test_escaping_adds_backslashes_only(text: str) -> None:
    assert re.sub(r"\\([\\`*\[\]<>|~$&#_])", r"\1", report_text.escape(text)) == text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("- a", r"\- a"),
        ("+ a", r"\+ a"),
        ("12. a", r"12\. a"),
        ("1) a", r"1\) a"),
        ("=== a", r"\=== a"),
        ("-1 a", r"-1 a"),
        ("1.5 s", "1.5 s"),
        ("# a", r"\# a"),
        ("> a", r"\> a"),
    ],
)
def test_a_line_that_begins_like_a_list_is_none(line: str, shown: str) -> None:
    assert report_text.escape_line(line) == shown


def test_the_same_envelope_gives_the_same_bytes() -> None:
    assert write_text(made.make_envelope()) == write_text(made.make_envelope())
