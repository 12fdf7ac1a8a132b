"""A plan: what it says, and how what it cannot mean is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import load
from sidecar.envelope.plan import LoadUnit, Plan, PlannedStage, Settle, parse_plan
from sidecar.errors import ConfigError
from sidecar.model.envelope import Client, Objectives

EXAMPLE = Path(__file__).parents[2] / "deploy/envelope/plan.example.toml"
SHORT = """\
name = "short"
unit = "concurrency"
[[stage]]
name = "c1"
load = 1
command = "bench --at {load}"
"""
WHOLE = """\
name = "a plan"
unit = "requests_per_second"
intended = "r2"
repeats = 3

[sidecar]
target = "http://127.0.0.1:8000"
interval = "1s"

[objectives]
ttft_p95 = "500ms"
e2e_p95 = "1m"
preemptions_per_request = 0.02
errors = 0.01
agree = 0.2
margin = 0.25

[settle]
quiet = "2s"
drain = "30s"

[rollback]
command = "vllm serve x"

[[stage]]
name = "r0_5"
load = 0.5
command = ["bench", "--rate", "{load}", "--out", "{result}"]
result = "vllm_bench"

[[stage]]
name = "r2"
load = 2
command = "bench --rate {load} --dir '{result_dir}/x y' --as {stage}-{repeat}"
repeats = 1
"""


def test_a_plan_says_what_is_run_and_what_is_asked() -> None:
    plan = parse_plan(WHOLE)
    assert plan == Plan(
        name="a plan",
        unit=LoadUnit.REQUESTS_PER_SECOND,
        stages=(
            PlannedStage(
                "r0_5",
                0.5,
                ("bench", "--rate", "{load}", "--out", "{result}"),
                3,
                Client.VLLM_BENCH,
            ),
            PlannedStage(
                "r2",
                2.0,
                (
                    "bench",
                    "--rate",
                    "{load}",
                    "--dir",
                    "{result_dir}/x y",
                    "--as",
                    "{stage}-{repeat}",
                ),
                1,
            ),
        ),
        intended="r2",
        objectives=Objectives(
            ttft_p95=0.5,
            e2e_p95=60.0,
            preemptions_per_request=0.02,
            errors=0.01,
            agree=0.2,
            margin=0.25,
        ),
        settle=Settle(quiet=2.0, limit=120.0, drain=30.0),
        sidecar={"target": "http://127.0.0.1:8000", "interval": "1s"},
        rollback="vllm serve x",
    )


def test_what_is_not_said_has_a_default() -> None:
    plan = parse_plan(SHORT)
    assert plan.objectives == Objectives()
    assert plan.settle == Settle(quiet=5.0)
    assert plan.intended == "c1"
    assert plan.stages[0].repeats == 2
    assert plan.rollback is None


def test_blanks_are_filled_in_and_other_braces_stay() -> None:
    told = parse_plan(WHOLE).stages
    assert told[0].fill(result="/r/result.json", result_dir="/r/result", repeat=2) == (
        "bench",
        "--rate",
        "0.5",
        "--out",
        "/r/result.json",
    )
    assert told[1].fill(result="/r/1", result_dir="/r/d", repeat=1)[4:] == (
        "/r/d/x y",
        "--as",
        "r2-1",
    )
    json = SHORT.replace("--at {load}", """--data '{\\"tokens\\": {\\"in\\": 64}}' '{{word}}' {}""")
    assert parse_plan(json).stages[0].fill(result="", result_dir="", repeat=1) == (
        "bench",
        "--data",
        '{"tokens": {"in": 64}}',
        "{word}",
        "{}",
    )


def test_whether_a_command_promises_a_result() -> None:
    first, second = parse_plan(WHOLE).stages
    assert first.promises_result
    assert second.promises_result
    assert not parse_plan(SHORT).stages[0].promises_result


SECRET = "canary-5150"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("name = ", "nam = ", "nam: unknown key; did you mean name?"),
        ('name = "short"', f"name = {SECRET}", "Invalid value (at line 1, column 8)"),
        ('unit = "concurrency"', "", "unit: it is missing"),
        ('"concurrency"', f'"{SECRET}"', "unit: not one of concurrency, requests_per_second"),
        ('unit =', 'intended = "cc1"\nunit =', "intended: no stage bears this name; did you mean c1?"),
        ("load = 1", "lod = 1", "stage 1: lod: unknown key; did you mean load?"),
        ("load = 1", "", "stage 1: load: it is missing"),
        ("load = 1", "load = 0", "stage 1: load: must be above 0"),
        ("load = 1", "load = nan", "stage 1: load: not a number from 0 to 1e+09"),
        ("load = 1", "load = true", "stage 1: load: not a number from 0 to 1e+09"),
        ('name = "c1"', 'name = "c 1"', "stage 1: name: not a plain word such as c4"),
        ('name = "c1"', 'name = "../c1"', "stage 1: name: not a plain word such as c4"),
        ('"bench --at {load}"', '""', "stage 1: command: it names no program"),
        ('"bench --at {load}"', f"\"bench '{SECRET}\"", "stage 1: command: a quote is not closed"),
        ('"bench --at {load}"', "7", "stage 1: command: not a line or a list of words"),
        ('command = "bench --at {load}"', "", "stage 1: command: it is missing"),
        (
            "{load}",
            "{lod}",
            "stage 1: command: unknown {word}; did you mean load? ({{word}} stands for itself)",
        ),
        ("load = 1", "load = 1\nrepeats = 0", "stage 1: repeats: not a whole number from 1 to 99"),
        ("load = 1", "load = 1\nrepeats = 1.5", "stage 1: repeats: not a whole number from 1 to 99"),
        (
            "load = 1",
            f'load = 1\nresult = "{SECRET}"',
            "stage 1: result: not one of auto, vllm_bench, guidellm, inference_perf",
        ),
        ("[[stage]]", "[objectives]\nttft_p59 = '1s'\n[[stage]]", "objectives.ttft_p59: unknown key; did you mean ttft_p95?"),
        ("[[stage]]", "[objectives]\nttft_p95 = 1\n[[stage]]", "objectives.ttft_p95: not a duration such as 250ms, 5s or 2m"),
        ("[[stage]]", f"[objectives]\nttft_p95 = '{SECRET}'\n[[stage]]", "objectives.ttft_p95: not a duration such as 250ms, 5s or 2m"),
        ("[[stage]]", "[objectives]\nagree = 2\n[[stage]]", "objectives.agree: not a number from 0 to 1"),
        ("[[stage]]", "[objectives]\nmargin = 1\n[[stage]]", "objectives.margin: must leave some of the load, below 1"),
        ("[[stage]]", "[settle]\nquite = '1s'\n[[stage]]", "settle.quite: unknown key; did you mean quiet?"),
        ("[[stage]]", "[settle]\nquiet = '1m'\nlimit = '1s'\n[[stage]]", "settle.limit: must not be shorter than settle.quiet"),
        ("[[stage]]", "[rollback]\ncomand = 'x'\n[[stage]]", "rollback.comand: unknown key; did you mean command?"),
        ("[[stage]]", "[stage]", "stage: at least one [[stage]] is needed"),
        ("[[stage]]", "sidecar = 1\n[[stage]]", "sidecar: not a table"),
        ("[[stage]]", "name = 'x'\n[[stage]]", "Cannot overwrite a value (at line 3, column 11)"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_one_line(before: str, after: str, said: str) -> None:
    assert before in SHORT
    with pytest.raises(ConfigError) as refused:
        parse_plan(SHORT.replace(before, after, 1))
    assert str(refused.value) == f"plan: {said}"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ('name = "c1"\nload = 2', "stage 2: name: another stage bears it"),
        ('name = "C1"\nload = 2', "stage 2: name: another stage bears it"),
        ('name = "c2"\nload = 1', "stage 2: load: must be above that of the stage before"),
    ],
)
def test_stages_differ_and_rise(second: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_plan(f'{SHORT}[[stage]]\n{second}\ncommand = "x"\n')


def test_there_is_an_end_to_stages() -> None:
    more = "".join(f'[[stage]]\nname = "d{n}"\nload = {n}\ncommand = "x"\n' for n in range(2, 101))
    with pytest.raises(ConfigError, match="at most 99 stages"):
        parse_plan(SHORT + more)


@given(st.text(max_size=300))
def test_any_text_is_a_plan_or_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_plan(text)
    assert "\n" not in str(refused.value)


@given(
    st.recursive(
        st.integers() | st.booleans() | st.just("x") | st.just("1s"),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["command", "name", "load", "quiet"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    ),
    st.sampled_from(
        [
            "name",
            "unit",
            "intended",
            "sidecar",
            "objectives",
            "settle",
            "rollback",
            "stage",
            "command",
        ]
    ),
)
def test_any_value_is_taken_or_refused(value: object, key: str) -> None:
    def write(one: object) -> str:
        match one:
            case bool():
                return str(one).lower()
            case dict():
                return "{" + ", ".join(f"{k} = {write(v)}" for k, v in one.items()) + "}"
            case list():
                return "[" + ", ".join(write(v) for v in one) + "]"
            case _:
                return repr(one)

    lines = [line for line in SHORT.splitlines() if not line.startswith(f"{key} ")]
    text = "\n".join([f"{key} = {write(value)}", *(lines if key != "stage" else lines[:2])])
    try:
        parse_plan(text)
    except ConfigError as error:
        refused = str(error)
    else:
        refused = "plan: taken"
    assert refused.startswith("plan: ")
    assert "\n" not in refused


def test_the_example_is_a_plan_whose_settings_the_daemon_takes() -> None:
    plan = parse_plan(EXAMPLE.read_text())
    assert len(plan.stages) >= 3
    assert all(stage.repeats >= 2 for stage in plan.stages)
    assert all(stage.promises_result for stage in plan.stages)
    assert plan.objectives.ttft_p95 is not None
    assert plan.rollback is not None
    settings = load(dict(plan.sidecar))
    assert settings.interval == 1.0
    assert settings.log
