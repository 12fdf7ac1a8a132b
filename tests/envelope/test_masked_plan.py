"""The copy of a plan that is kept holds no secret, and is the same plan."""

import shlex
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope.masked_plan import mask_line, mask_plan, write_toml
from sidecar.envelope.plan import parse_plan

HEAD = 'name = "x" # a note\nunit = "concurrency"\n'
CANARY = "canary-4711-value"


def masked(text: str, environment: dict[str, str] | None = None) -> str:
    return mask_plan(text, parse_plan(text), environment or {})


def stage(command: str) -> str:
    return f'{HEAD}[[stage]]\nname = "c1"\nload = 1\ncommand = {command}\n'


def test_a_plan_without_secrets_is_kept_as_it_stands() -> None:
    text = stage('"bench --max-tokens {load} --tokenizer x --header {result}"')
    assert masked(text) == text


@pytest.mark.parametrize(
    "command",
    [
        f'"bench --api-key {CANARY}"',
        f'"bench --api-key={CANARY} --x"',
        f"\"bench --api-key '{CANARY} {CANARY}'\"",
        f'["bench", "--api-key", "{CANARY}", "--x"]',
        f'"bench --header Authorization=Bearer\\\\ {CANARY}"',
        f"\"bench --header 'Authorization: Bearer {CANARY}'\"",
        f'"env OPENAI_API_KEY={CANARY} bench"',
        f'"bench --backend kind=http,api_key={CANARY},x=1"',
        f'"bench --url http://user:{CANARY}@host/v1"',
        '"bench --token abc"',
        f'"""bench \\\n  --api-key {CANARY} --x"""',
        f'"bench --api-key {CANARY}" # not {CANARY}',
    ],
)
def test_a_secret_of_a_command_is_not_kept(command: str) -> None:
    text = stage(command)
    kept = masked(text)
    assert CANARY not in kept
    assert "abc" not in kept
    assert "***" in kept
    before, after = parse_plan(text), parse_plan(kept)
    assert [one.name for one in after.stages] == [one.name for one in before.stages]
    assert after.stages[0].command[0] == before.stages[0].command[0]
    # The same plan with another key is the same run.
    assert masked(text.replace(CANARY, f"{CANARY}-2")) == kept
    assert masked(kept) in {kept, kept.removeprefix(kept.splitlines(keepends=True)[0])}


def test_a_secret_of_our_environment_is_not_kept() -> None:
    text = stage(f'"bench --key-file {CANARY}"')
    assert CANARY in masked(text)
    assert CANARY not in masked(text, {"HF_TOKEN": CANARY})


def test_the_way_back_is_masked_and_stays_a_line() -> None:
    assert mask_line("vllm serve x --max-num-seqs 8", {}) == "vllm serve x --max-num-seqs 8"
    line = mask_line(f"VLLM_API_KEY={CANARY} vllm serve 'a b' --api-key k1", {})
    assert line.startswith("VLLM_API_KEY=*** vllm ")
    assert shlex.split(line) == ["VLLM_API_KEY=***", "vllm", "serve", "a b", "--api-key", "***"]


values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
tables = st.recursive(
    st.dictionaries(st.text(max_size=5), values, max_size=4),
    lambda inner: st.dictionaries(
        st.text(max_size=5), values | inner | st.lists(inner, min_size=1, max_size=3), max_size=4
    ),
    max_leaves=8,
)


@given(tables)
def test_what_is_written_anew_says_the_same(told: dict[str, object]) -> None:
    assert tomllib.loads(write_toml(told)) == told
