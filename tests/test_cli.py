"""Whatever is wrong with a command line is said in one line, without quoting a secret."""

import os
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from sidecar import cli
from sidecar.commands import exit_codes

HEALTHY = Path(__file__).parent / "data/recordings/a_healthy"

SECRET = "sk-canary-0451"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VLLM_SIDECAR_")]:
        monkeypatch.delenv(name)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that is said; the code is 2 and nothing else is printed."""
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    assert code == exit_codes.USAGE
    assert out == ""
    assert err.startswith("vllm-sidecar: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((), "a command is needed"),
        (("rum",), "rum"),
        (("run", "--no-such-option", "1"), "unknown option --no-such-option"),
        (("run", "--intervall=5s"), "unknown option --intervall ("),
        (("run", "--interv", "5s"), "unknown option --interv"),
        (("run", "5s"), "a word too many"),
        (("run", "--interval"), "expected one argument"),
        (("run", "--interval", "5"), "interval: not a duration"),
        (("run", "--interval", "-5s"), "interval"),
        (("run", "--interval", "0s"), "interval: not a duration"),
        (("run", "--interval", "1ms", "--window", "1s"), "at least 50ms"),
        (("run", "--window", "12s"), "window must be a multiple of interval"),
        (("run", "--window", "1s"), "window must be a multiple of interval"),
        (("run", "--target", "localhost:8000"), "target: not an address"),
        (("run", "--target", "ftp://localhost"), "target: not an address"),
        (("run", "--target", "http://localhost:99999"), "target"),
        (("run", "--target", "http://[::1"), "target"),
        (("run", "--metrics-path", "metrics"), "metrics-path: must start with /"),
        (("run", "--listen", "9477"), "listen: not an address"),
        (("run", "--listen", "127.0.0.1:http"), "listen: not an address"),
        (("run", "--listen", "127.0.0.1:70000"), "listen: not an address"),
        (("run", "--listen", "127.0.0.1:²"), "listen: not an address"),
        (("run", "--log", "journald:a b"), "log: "),
        (("run", "--pid", "zero"), "pid"),
        (("run", "--pid", "-1"), "pid"),
        (("run", "--gpu", "first"), "gpu: not auto, off or indexes"),
        (("run", "--gpu", "0,,1"), "gpu: not auto, off or indexes"),
        (("run", "--max-engines", "65"), "max-engines"),
        (("run", "--max-engines", "0"), "max-engines"),
        (("run", "--max-preemptions-per-request", "-0.1"), "max-preemptions-per-request"),
        (("run", "--max-preemptions-per-request", "nan"), "max-preemptions-per-request"),
        (("run", "--config", "/nonexistent/sidecar.toml"), "No such file or directory"),
        (("run", "--config", "/"), "Is a directory"),
        (("check", "--format", "yaml"), "--format"),
        (("scan",), "FILE"),
        (("replay", "/nonexistent"), "no recording in /nonexistent"),
        (("replay", "/tmp", "--interval", "x"), "not a duration"),
        (("replay", str(HEALTHY), "--window", "7s"), "window: must be a multiple of interval"),
        (("replay", "/tmp", "--max-preemptions-per-request", "nan"), "must not be negative"),
        (("demo", "--scenario", "doom"), "no scenario 'doom'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line_is_refused_in_one_line(
    arguments: tuple[str, ...], about: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert about in refusal(capsys, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--target", f"http://user:{SECRET}@127.0.0.1:8000"),
        ("--target", f"http://{SECRET}@127.0.0.1:8000"),
        ("--target", f"user:{SECRET}@127.0.0.1:8000"),
        ("--target", f"http://user:{SECRET}@127.0.0.1:eighty"),
        ("--target", f"http://user:{SECRET}@[::1"),
        ("--token", SECRET),
        (f"--token={SECRET}",),
        (SECRET,),
        ("--listen", SECRET),
        ("--pid", SECRET),
        ("--gpu", SECRET),
        ("--interval", SECRET),
        ("--max-engines", SECRET),
        ("--max-preemptions-per-request", SECRET),
    ],
    ids=" ".join,
)
def test_a_secret_in_the_wrong_place_is_not_repeated(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert SECRET not in refusal(capsys, "run", *arguments)


def test_a_secret_in_the_environment_is_not_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_SIDECAR_TARGET", f"http://user:{SECRET}@127.0.0.1:8000")
    assert SECRET not in refusal(capsys, "run")
    monkeypatch.setenv("VLLM_SIDECAR_TARGET", "http://127.0.0.1:8000")
    monkeypatch.setenv("VLLM_SIDECAR_TOKEN", SECRET)
    assert SECRET not in refusal(capsys, "run")


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("interval = ", "sidecar.toml"),
        (f'target_token = "{SECRET}"', "target_token: unknown setting"),
        (f'target = "http://u:{SECRET}@h"', "target: must not hold a password"),
        (f'[target]\nurl = "{SECRET}"', "target"),
        (f'interval = "{SECRET}"', "interval: not a duration"),
        ("interval = 5", "interval: not a duration"),
        ('windows = "15s"', "did you mean window?"),
        (f'log = ["journald: {SECRET}"]', "log: "),
        ("log = [1]", "log"),
        (f'"{SECRET}\\n{SECRET}x" = 1', "unknown setting"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    text: str, about: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text(text)
    said = refusal(capsys, "run", "--config", str(path))
    assert about in said
    if not text.startswith('"'):
        assert SECRET not in said


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0", b"interval = \xe9"])
def test_a_file_that_is_no_text_is_refused_in_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_bytes(content)
    assert "sidecar.toml" in refusal(capsys, "run", "--config", str(path))


def test_a_syntax_error_in_a_file_does_not_quote_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text(f"target_token = {SECRET}\n")
    assert SECRET not in refusal(capsys, "run", "--config", str(path))


def test_an_unknown_name_in_the_environment_is_refused_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_SIDECAR_INTERVALL", "5s")
    said = refusal(capsys, "run")
    assert "VLLM_SIDECAR_INTERVALL" in said
    assert "did you mean interval?" in said


def test_the_demo_refuses_an_address_that_is_none(
    capsys: pytest.CaptureFixture[str], no_blocking_call: BlockBuster
) -> None:
    no_blocking_call.deactivate()  # the stand-in writes files, on purpose
    assert cli.main(["demo", "--listen", "nowhere"]) == exit_codes.USAGE
    assert capsys.readouterr().err == (
        "vllm-sidecar: listen: not an address such as 127.0.0.1:9477\n"
    )


def test_the_version_is_told_and_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == exit_codes.DONE
    assert capsys.readouterr().out.startswith("vllm-sidecar ")


def test_help_of_every_command_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as ended:
            cli.main([command, "--help"])
        assert ended.value.code == 0
        assert "--" in capsys.readouterr().out
