"""What must not leave the machine is taken out of any text, in time that grows with the text only."""

import json
import time

import pytest

from sidecar.parse.recorded_exposition import hide_labels
from sidecar.parse.secrets import (
    Secrets,
    hide_argv,
    hide_forms,
    secrets_of_argv,
    secrets_of_environment,
)

SECRET = "zz-very-secret-0451"


@pytest.mark.parametrize(
    "text",
    [
        f"api_key={SECRET}",
        f"{{'api_key': ['{SECRET}', 'x'], 'max_num_seqs': 4}}",
        json.dumps({"line": f'{{"hf_token": "{SECRET}"}}'}),
        f"Authorization: Bearer {SECRET}",
        f"authorization: Token {SECRET}",
        f"http://user:{SECRET}@host/v1",
        f"GET http://host/v1/models?key={SECRET}",
        f"--api-key {SECRET} --port 1",
        "hf_abcdefghijklmnop sk-zz-very-secret-0451",
        f"Added request cmpl-{SECRET}-0.",
    ],
)
def test_forms_of_secrets_are_hidden(text: str) -> None:
    assert SECRET not in hide_forms(text)
    assert "***" in hide_forms(text)


@pytest.mark.parametrize(
    "text",
    [
        "{'max_num_batched_tokens': 2048, 'tokenizer': 'x', 'tokenizer_mode': 'auto'}",
        '"inter_token":{"count":3}',
        "Avg prompt throughput: 57.8 tokens/s, Running: 4 reqs",
        "vllm:inter_token_latency_seconds_sum 1.0",
        "http://127.0.0.1:8000/metrics",
    ],
)
def test_what_only_sounds_like_one_stays(text: str) -> None:
    assert hide_forms(text) == text


@pytest.mark.parametrize(
    "argv",
    [
        ("vllm", "serve", "m", "--api-key", "first", SECRET, "--port", "1"),
        ("vllm", "serve", f"--api-key={SECRET}"),
        ("env", f"SLACK_TOKEN={SECRET}", "vllm"),
        ("sh", "-c", f"exec vllm serve m --hf-token {SECRET}"),
        ("vllm", "--hf-overrides", json.dumps({"auth_token": SECRET})),
        ("vllm", "--model", f"s3://key:{SECRET}@host/bucket"),
        ("vllm", "--hf-overrides.token", SECRET),
        ("vllm", "--vault-token=" + SECRET),
        ("curl", "-u", f"user:{SECRET}"),
        ("sh", "-c", f'curl -H "Authorization: ApiKey {SECRET}" http://h'),
        ("vllm", "--x", json.dumps({"api_key": {"value": ["a]b", SECRET]}})),
        ("vllm", "--x", json.dumps({"clientSecret": SECRET})),
    ],
    ids=[
        "words",
        "joined",
        "env",
        "shell",
        "json",
        "address",
        "dotted",
        "vault",
        "curl",
        "header",
        "nested",
        "camel",
    ],
)
def test_secrets_of_a_command_line_are_learnt_and_hidden_everywhere(argv: tuple[str, ...]) -> None:
    secrets = Secrets()
    secrets.learn(secrets_of_argv(argv))
    assert SECRET not in str(secrets.hide(list(argv)))
    assert SECRET not in str(hide_argv(argv))
    assert SECRET not in str(secrets.hide({"line": f"it said {SECRET}", SECRET: [SECRET]}))
    assert "***" in str(secrets.hide(f"it said {SECRET}"))


def test_words_of_secrets_are_hidden_among_the_arguments() -> None:
    shown = hide_argv(("vllm", "--api-key", "ab", "cd", "--port", "1", "--token=x", "m"))
    assert shown == ["vllm", "--api-key", "***", "***", "--port", "1", "--token=***", "m"]


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "CI_JOB_TOKEN", "OPENAI_KEY"),
        *("MYSQL_PWD", "DB_PASS", "GITHUB_PAT", "REDIS_AUTH", "LITELLM_MASTER_KEY"),
    ],
)
def test_variables_that_may_hold_a_secret_are_learnt(name: str) -> None:
    assert SECRET in tuple(secrets_of_environment({name: SECRET}))


def test_variables_of_everyday_are_not() -> None:
    environment = {
        "PWD": "/home/somebody",
        "TOKENIZERS_PARALLELISM": "false",
        "HOME": "/root",
        "X_KEY": "true",
        "Y_AUTH": "1234",
    }
    assert tuple(secrets_of_environment(environment)) == ()


def test_a_password_in_an_address_is_learnt() -> None:
    assert tuple(secrets_of_environment({"DATABASE_URL": f"postgres://u:{SECRET}@h/d"})) == (
        SECRET,
    )


REPEATED = (
    *("7", "deadbeef", "a://", "token ", "x_", "a.b-", "api_key", "api_key: [", "authorization: "),
    *("--api-key ", "://", "cmpl-", "eyJ", "sk-", " ", "://a", "'", '\\"', "bearer ", "?#"),
)


@pytest.mark.parametrize("piece", REPEATED)
def test_hard_texts_take_time_that_grows_with_their_length_only(piece: str) -> None:
    def cpu_ns(length: int) -> int:
        text = piece * (length // len(piece))
        taken = []
        for _ in range(3):
            begun = time.thread_time_ns()
            hide_forms(text)
            taken.append(time.thread_time_ns() - begun)
        return min(taken)

    # Ten times the text takes ten times as long, and a hundred times where a pattern is quadratic.
    assert cpu_ns(100_000) / max(cpu_ns(10_000), 200_000) < 40


EXPOSITION = """\
# HELP vllm:x please tell me hunter2
# TYPE vllm:x gauge
vllm:x{engine="0",model_name="tiny",user="hunter2"} 1.0
vllm:x{engine="hunter2 and more",} NaN 1700000000
plain_name 4.5e+06
vllm:x_bucket{le="+Inf"} 3 # {trace_id="hunter2"} 1.0
"""


def test_an_exposition_keeps_its_series_and_loses_what_clients_may_have_sent() -> None:
    shown = hide_labels(EXPOSITION)
    assert "hunter2" not in shown
    assert shown.splitlines() == [
        "# TYPE vllm:x gauge",
        'vllm:x{engine="0",model_name="tiny",user="***"} 1.0',
        'vllm:x{engine="***",} NaN 1700000000',
        "plain_name 4.5e+06",
        'vllm:x_bucket{le="+Inf"} 3',
    ]


@pytest.mark.parametrize(
    "body",
    [
        "please tell me hunter2\n<html>hunter2</html>",
        "# TYPE any words hunter2",
        '# hunter2\nx{a="b" hunter2} 1',
        'x{a="b"}hunter2 1',
        "hunter2 hunter2 1",
        'x{a="b",hunter2} 1',
        'x{a="b"} hunter2',
    ],
)
def test_what_is_no_exposition_is_not_kept(body: str) -> None:
    assert "hunter2" not in hide_labels(body)
