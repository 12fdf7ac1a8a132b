"""``envelope.json``: the same envelope gives the same bytes and back, and nothing else is taken for one."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope.artifact import decode_envelope, encode_envelope
from sidecar.envelope.schema import make_schema
from sidecar.model.envelope import Envelope, Identity, Objectives
from sidecar.model.vocabulary import Cause, Verdict
from tests.envelope import made

SCHEMA = Path(__file__).parents[2] / "deploy/envelope/envelope.schema.json"
TEXT = encode_envelope(made.make_envelope())
CANARY = "canary-9000-secret"


def test_what_is_written_is_read_again() -> None:
    envelope = decode_envelope(TEXT)
    assert encode_envelope(envelope) == TEXT
    before = made.make_envelope()
    assert envelope.acceptance == before.acceptance
    assert [stage.name for stage in envelope.stages] == [stage.name for stage in before.stages]
    assert envelope.stages[0].runs[0].server.verdicts == before.stages[0].runs[0].server.verdicts
    assert envelope.identity == before.identity


def test_numbers_are_rounded_so_that_the_last_digit_makes_no_other_file() -> None:
    before = made.make_envelope()
    nearly = replace(before, created=before.created + 1e-9)
    assert encode_envelope(nearly) == encode_envelope(before)
    assert '"format": 1,' in TEXT
    assert '"load": 1,' in TEXT


def test_the_order_of_a_mapping_makes_no_other_file() -> None:
    before = made.make_envelope()
    turned = dict(reversed(list(before.identity.limits.items())))
    assert len(turned) > 1
    other = replace(before, identity=replace(before.identity, limits=turned))
    assert encode_envelope(other) == TEXT


def test_what_is_no_number_is_written_as_not_known() -> None:
    before = made.make_envelope()
    bounds = replace(before.bounds, running=math.inf, waiting=math.nan)
    again = decode_envelope(encode_envelope(replace(before, bounds=bounds)))
    assert (again.bounds.running, again.bounds.waiting) == (None, None)


def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == make_schema()


def test_the_schema_takes_what_is_written() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(TEXT))
    validator.validate(json.loads(encode_envelope(made.make_blind())))


def places(told: Any) -> list[tuple[Any, Any]]:
    found = []
    if isinstance(told, dict | list):
        for key in told if isinstance(told, dict) else range(len(told)):
            found += [(told, key), *places(told[key])]
    return found


anything = (
    st.none()
    | st.booleans()
    | st.integers(-100, 10**6)
    | st.floats(-1e6, 1e6)
    | st.sampled_from(["cache", "none", "x", "completes"])
    | st.lists(st.integers(0, 3), max_size=2)
    | st.dictionaries(st.sampled_from(["p50", "name", "none"]), st.integers(0, 3), max_size=2)
)


@given(st.data())
def test_code_and_schema_take_and_refuse_the_same(data: st.DataObject) -> None:
    told = json.loads(TEXT)
    holder, key = data.draw(st.sampled_from(places(told)))
    if isinstance(holder, dict) and data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = data.draw(anything)
    is_valid = jsonschema.Draft202012Validator(make_schema()).is_valid(told)
    if is_valid:
        assert isinstance(decode_envelope(json.dumps(told)), Envelope)
    else:
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            decode_envelope(json.dumps(told))


def changed(**values: object) -> str:
    return json.dumps({**json.loads(TEXT), **values})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        (TEXT[:-20], "it is no JSON"),
        (TEXT.replace('"created": ', '"created": NaN, "x": '), "it is no JSON"),
        ("[]", "not an envelope"),
        ("{}", "not an envelope of format 1"),
        (changed(format=2), "not an envelope of format 1"),
        (changed(format=True), "not an envelope of format 1"),
        (changed(format="1"), "not an envelope of format 1"),
        (changed(created=CANARY), "envelope.created: a number is needed"),
        (TEXT.replace('"created": ', '"created": 1e999, "x": '), "envelope: it has an unknown key"),
        (changed(name=7), "envelope.name: a text is needed"),
        (changed(name="x" * 200_000), "envelope.name: a text is needed"),
        (changed(stages={}), "envelope.stages: a list of at most 10000 is needed"),
        (changed(stages=[[]]), "envelope.stages[0]: an object is needed"),
        (changed(stages=[{}]), "envelope.stages[0].name: it is missing"),
        (changed(**{CANARY: 1}), "envelope: it has an unknown key"),
        (changed(bounds={"binding": CANARY}), "envelope.bounds.binding: not one of cache, admission, batch_tokens, none, unknown"),
        (changed(bounds={"binding": []}), "envelope.bounds.binding: not one of cache, admission, batch_tokens, none, unknown"),
        (changed(identity={"limits": {"x": None}}), "a value of envelope.identity.limits: a number is needed"),
        (changed(identity={"cpus": 1.5}), "envelope.identity.cpus: a whole number is needed"),
        (changed(identity={"cpus": 10**400}), "envelope.identity.cpus: a whole number is needed"),
        (changed(acceptance={"stage": "x", "accepted": 1, "findings": []}), "envelope.acceptance.accepted: true or false is needed"),
        (" " * (16 << 20) + TEXT, "larger than 16 MiB"),
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$") as refused:
        decode_envelope(text)
    assert CANARY not in str(refused.value)


def test_an_endless_number_is_refused() -> None:
    text = TEXT.replace(f'"created": {json.loads(TEXT)["created"]}', '"created": 1e999')
    with pytest.raises(ValueError, match=r"envelope\.created: a number is needed"):
        decode_envelope(text)


def test_what_has_a_secrets_form_is_not_written() -> None:
    secret = Identity(
        vllm_version="0.32.0",
        model_name="x",
        launch=("vllm", "serve", f"--api-key={CANARY}", f"http://u:{CANARY}@host/"),
        environment={"VLLM_X": f"token={CANARY}"},
    )
    envelope = replace(
        made.make_envelope(),
        identity=secret,
        name=f"Bearer {CANARY}",
        rollback=f"vllm serve x --api-key {CANARY}",
    )
    text = encode_envelope(envelope)
    assert CANARY not in text
    assert "--api-key=***" in text
    assert decode_envelope(text).identity.vllm_version == "0.32.0"


@given(
    st.builds(
        Objectives,
        ttft_p95=st.none() | st.floats(0, 1e6),
        preemptions_per_request=st.floats(0, 1e6),
        margin=st.floats(0, 0.99),
    ),
    st.dictionaries(st.sampled_from(Verdict), st.integers(0, 10**6)),
    st.dictionaries(st.sampled_from(Cause), st.integers(0, 10**6)),
    st.text(max_size=50),
)
def test_any_envelope_survives_twice(
    objectives: Objectives, verdicts: dict[Verdict, int], unseen: dict[Cause, int], name: str
) -> None:
    before = made.make_envelope()
    stage = before.stages[0]
    view = replace(stage.runs[0].server, verdicts=verdicts, unobservable=unseen)
    stage = replace(stage, runs=(replace(stage.runs[0], server=view),))
    text = encode_envelope(replace(before, objectives=objectives, stages=(stage,), name=name))
    again = decode_envelope(text)
    assert encode_envelope(again) == text
    assert again.stages[0].runs[0].server.verdicts == verdicts
    assert again.stages[0].runs[0].server.unobservable == unseen
