"""What a container runtime cut in parts is read as one record, with flat memory."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.log_triage import triage
from sidecar.parse.log_cuts import PART_BYTES, Rejoiner, is_continued
from sidecar.parse.log_line import LONGEST
from sidecar.parse.log_match import read_line

OOM = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 MiB."
PROMPT = "INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: 'x "
STAMP = "2026-01-01T00:00:00.000000000Z"


def cri(text: str, flag: str = "F", stream: str = "stderr") -> str:
    return f"{STAMP} {stream} {flag} {text}"


def docker(text: str, stream: str = "stderr") -> str:
    return json.dumps({"log": text, "stream": stream, "time": STAMP}, separators=(",", ":"))


def lines(*texts: str) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def rejoin(*texts: str) -> list[str]:
    return Rejoiner().feed(lines(*texts)).decode().splitlines()


@given(
    first=st.integers(1, len(OOM) - 1), second=st.integers(1, len(OOM) - 1), in_docker=st.booleans()
)
def test_a_record_cut_anywhere_is_found_at_its_first_line(
    *, first: int, second: int, in_docker: bool
) -> None:
    begin, end = min(first, second), max(first, second)
    parts = [part for part in (OOM[:begin], OOM[begin:end], OOM[end:]) if part]
    if in_docker:
        wrapped = [*map(docker, parts[:-1]), docker(parts[-1] + "\n")]
    else:
        wrapped = [*(cri(part, "P") for part in parts[:-1]), cri(parts[-1])]
    other = (
        docker("INFO:     fine\n", "stdout") if in_docker else cri("INFO:     fine", "F", "stdout")
    )
    (one,) = triage([lines(other, wrapped[0], other, *wrapped[1:])]).causes
    assert (one.cause, one.count, one.first_line) == ("cuda_oom", 1, 2)


def test_as_many_lines_come_out_as_go_in() -> None:
    assert rejoin(cri("a", "P"), cri("x", "F", "stdout"), cri("b", "P"), cri("c"), cri("d")) == [
        "",
        cri("x", "F", "stdout"),
        "",
        cri("abc"),
        cri("d"),
    ]
    assert rejoin(docker("z\n"), docker("a"), docker("b\n")) == [docker("z\n"), "", docker("ab\n")]


def test_parts_may_come_in_any_portions() -> None:
    texts = [cri(OOM[:70], "P"), cri(OOM[70:]), cri("after")]
    whole, one_by_one = Rejoiner(), Rejoiner()
    assert whole.feed(lines(*texts)) == b"".join(one_by_one.feed(lines(text)) for text in texts)
    assert whole.begins == one_by_one.begins == {2: 1}


def test_a_joined_record_that_began_with_users_text_stays_deaf() -> None:
    for texts in (
        [cri(PROMPT, "P"), cri(OOM, "P"), cri(OOM)],
        [docker("z\n"), docker(PROMPT), docker(OOM), docker(OOM + "\n")],
    ):
        assert all(read_line(text) == () for text in rejoin(*texts))
        assert triage([lines(*texts)]).causes == ()
        assert [one.cause for one in triage([lines(*texts, texts[-1])]).causes] == ["cuda_oom"]


def test_a_record_whose_last_part_never_comes_is_told_at_the_end() -> None:
    (one,) = triage([lines(cri("fine"), cri(OOM, "P"))]).causes
    assert (one.cause, one.first_line) == ("cuda_oom", 2)


def test_records_whose_ends_a_shipper_took_off_are_no_parts() -> None:
    for count in (1, 3, 20):
        texts = [docker("INFO:     fine")] * count + [docker(OOM)] + [docker("INFO:     fine")] * 3
        assert [one.cause for one in triage([lines(*texts)]).causes] == ["cuda_oom"]


def test_a_long_record_without_an_end_is_a_part_even_in_the_first_line() -> None:
    texts = [docker(PROMPT + "a" * PART_BYTES), docker(OOM + "b" * PART_BYTES), docker(OOM + "\n")]
    assert triage([lines(*texts)]).causes == ()
    assert rejoin(*texts)[:2] == ["", ""]


def test_a_backslash_and_an_n_of_the_user_are_no_end() -> None:
    texts = [docker("z\n"), docker(PROMPT + "\\n"), docker(OOM + "\n")]
    assert rejoin(*texts)[1:2] == [""]
    assert triage([lines(*texts)]).causes == ()


def test_what_is_kept_of_a_record_stays_small() -> None:
    rejoiner = Rejoiner()
    for _ in range(100):
        assert rejoiner.feed(lines(cri("y" * PART_BYTES, "P"))) == b"\n"
    joined = rejoiner.feed(lines(cri("end")))
    assert len(joined) <= LONGEST


def test_known_begins_are_forgotten_again() -> None:
    rejoiner = Rejoiner()
    for _ in range(500):
        rejoiner.feed(lines(cri("a", "P"), cri("b")))
    assert len(rejoiner.begins) <= 64


@pytest.mark.parametrize("flag", ["P", "F"])
def test_a_record_that_follows_a_joined_one_is_its_own(flag: str) -> None:
    joined = Rejoiner().feed(lines(cri("a", "P"), cri("b"), cri(OOM, flag))).split(b"\n")[:-1]
    assert not is_continued(joined, 2)


def test_rows_after_a_request_that_is_whole_are_believed() -> None:
    request = "INFO 10-01 18:43:28 logger.py:36] Received request c-1: prompt: 'it''s', params: SamplingParams(n=1,"
    rest = " stop=['x']), lora_request: None."
    bare = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    rows = [text.encode() for text in (request, rest, "Traceback (most recent call last):", bare)]
    assert [is_continued(rows, at) for at in range(4)] == [False, True, False, False]
