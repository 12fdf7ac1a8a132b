"""Records in named fields are found, users' fields are not entered, and clients are only quoted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.signatures import Scope
from sidecar.log_triage import triage
from sidecar.model.vocabulary import Confidence
from sidecar.parse.log_fields import body_of, inner_texts
from sidecar.parse.log_match import read_line

EVERYWHERE = frozenset(Scope)
RECORD = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 MiB."
QUOTED = RECORD.replace('"', '\\"')
FIELDS = {
    "kubectl describe": f"      Message:      {RECORD}",
    "pretty JSON": f'    "message": "{QUOTED}",',
    "pretty JSON with lines": f'    "message": "first\\n{QUOTED}\\nlast",',
    "YAML": f"    message: '{RECORD}'",
    "YAML, quoted twice": f'    message: "first\\n{QUOTED}"',
    "journalctl -o verbose": "    MESSAGE=" + RECORD[RECORD.index("torch") :],
    "logfmt": f'ts=2026-01-01T00:00:00Z level=error msg="{QUOTED}" pod=vllm-0',
    "fluent-bit": f'[0] kube.vllm: [[1761269217.1, {{}}], {{"log"=>"{QUOTED}"}}]',
    "Loki": json.dumps({"data": {"result": [{"values": [["1761269217000000000", RECORD]]}]}}),
    "CloudWatch": json.dumps({"events": [{"message": "INFO: a"}, {"message": RECORD}]}),
    "pod": json.dumps({"status": {"lastState": {"terminated": {"message": RECORD}}}}),
}
BODIES = (
    {"message": RECORD},
    {"jsonPayload": {"message": RECORD}},
    {"_source": {"log": {"level": "error"}, "message": RECORD}},
    {"body": {"stringValue": RECORD}},
    {"log": {"message": RECORD}},
    {"LogMessage": RECORD},
)
ANSWERS = (
    """openai.InternalServerError: Error code: 500 - {'object': 'error', 'message': 'CUDA out of memory. Tried'}""",
    """openai.InternalServerError: Error code: 500 - {"error": {"message": "CUDA out of memory. Tried"}}""",
    '{"object":"error","message":"CUDA out of memory. Tried to allocate 3.07 GiB.","code":500}',
    '{"error":{"message":"CUDA out of memory. Tried to allocate 3.07 GiB.","code":500}}',
    "litellm.InternalServerError: OpenAIException - CUDA out of memory. Tried to allocate 3 GiB",
)
USERS = (
    {"prompt": RECORD},
    {"body": RECORD},
    {"messages": [{"role": "user", "content": RECORD, "message": RECORD}]},
    {"level": "info", "msg": "request", "request": {"message": RECORD}},
    {"choices": [{"message": {"role": "assistant", "content": RECORD}}]},
)


@pytest.mark.parametrize("name", FIELDS)
def test_a_record_in_a_field_is_found_in_a_log_but_not_in_the_servers_own(name: str) -> None:
    assert [said.signature.id for said in read_line(FIELDS[name], EVERYWHERE)] == [
        "torch_out_of_memory"
    ]
    assert read_line(FIELDS[name]) == ()


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_json_log_record_is_the_servers_own_whatever_its_envelope(body: object) -> None:
    for line in (json.dumps(body), f"2026-01-01T00:00:00.000000000Z stderr F {json.dumps(body)}"):
        assert [said.signature.id for said in read_line(line)] == ["torch_out_of_memory"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_client_was_told_is_suspected_and_never_the_servers_own_word(answer: str) -> None:
    (one,) = triage([answer.encode()]).causes
    assert (one.cause, one.confidence) == ("cuda_oom", Confidence.SUSPECTED)
    assert read_line(answer) == ()


@pytest.mark.parametrize("body", USERS, ids=str)
def test_users_fields_are_not_entered(body: object) -> None:
    assert read_line(json.dumps(body), EVERYWHERE) == ()


def test_a_deaf_line_of_a_field_silences_the_rest_of_that_field_only() -> None:
    deaf = f"INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: 'x\n{RECORD}"
    assert read_line(json.dumps({"status": {"message": deaf}}), EVERYWHERE) == ()
    both = [{"message": deaf}, {"message": RECORD}]
    assert len(read_line(json.dumps({"events": both}), EVERYWHERE)) == 1


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_any_json_is_read(value: object) -> None:
    text = json.dumps(value)
    body_of(text)
    assert len(list(inner_texts(text))) <= 256


def test_hard_texts_take_no_noticeable_time() -> None:
    for hard in (
        "[" * 60_000,
        '{"message":' * 5_000,
        'a="' * 20_000,
        "msg=" * 15_000,
        '"message": "' + "\\" * 60_000,
        "x: " * 20_000 + "{'error': {",
        "[0] " + "a" * 60_000 + '"log"=>"',
        json.dumps({"a": ["x"] * 20_000}),
    ):
        list(inner_texts(hard))
        read_line(hard, EVERYWHERE)
