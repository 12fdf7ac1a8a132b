"""The unit files are understood by systemd whole, closed as far as is told, and read our settings."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.config import DEFAULTS, ENV_PREFIX, load

UNITS = Path(__file__).parents[2] / "deploy/systemd"
DROP_INS = sorted((UNITS / "drop-ins").glob("*.conf"))
README = (UNITS / "README.md").read_text()
MOST_EXPOSED = 20
"""Tenths of the measure by which systemd judges a unit: from 0, which is closed, to 100."""
NEARLY = 0.15
"""Releases of systemd weigh a little differently."""

pytestmark = pytest.mark.component("systemd")


def installed(directory: Path, unit: str, drop_ins: list[Path]) -> Path:
    """A unit with its drop-ins, and with a program that is there."""
    text = (UNITS / unit).read_text()
    text, count = re.subn(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text)
    assert count == 1
    (directory / unit).write_text(text)
    if drop_ins:
        (directory / f"{unit}.d").mkdir()
    for file in drop_ins:
        shutil.copy(file, directory / f"{unit}.d")
    return directory / unit


def analyze(unit: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of ``systemd-analyze``, and all that it printed."""
    done = subprocess.run(
        ["systemd-analyze", *arguments, str(unit)],
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{unit.parent}:", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def exposure(unit: Path) -> float:
    code, output = analyze(
        unit, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}"
    )
    assert code == 0, output
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", output)
    assert found, output
    return float(found[1])


@pytest.mark.parametrize("unit", ["vllm-sidecar@.service", "vllm@.service"])
def test_systemd_has_nothing_to_say_of_a_unit(unit: str, tmp_path: Path) -> None:
    assert analyze(installed(tmp_path, unit, []), "verify") == (0, "")


@pytest.mark.parametrize("file", DROP_INS, ids=lambda file: file.stem)
def test_systemd_has_nothing_to_say_of_a_drop_in(file: Path, tmp_path: Path) -> None:
    assert analyze(installed(tmp_path, "vllm-sidecar@.service", [file]), "verify") == (0, "")


def test_a_word_that_systemd_does_not_know_would_be_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.conf"
    wrong.write_text("[Service]\nRestrat=always\n")
    _, said = analyze(installed(tmp_path, "vllm-sidecar@.service", [wrong]), "verify")
    assert "Restrat" in said


@pytest.mark.parametrize("file", [None, *DROP_INS], ids=lambda file: file.stem if file else "none")
def test_the_exposure_is_low_and_what_a_drop_in_costs_is_told(
    file: Path | None, tmp_path: Path
) -> None:
    unit = installed(tmp_path, "vllm-sidecar@.service", [file] if file else [])
    name = f"`{file.name}`" if file else "none"
    told = re.search(rf"(?m)^\| {re.escape(name)} \|.*\| ([\d.]+) \|$", README)
    assert told, name
    assert exposure(unit) == pytest.approx(float(told[1]), abs=NEARLY)


def test_all_drop_ins_together_are_no_more_exposed_than_is_told(tmp_path: Path) -> None:
    told = re.search(r"([\d.]+) with all of them", README)
    assert told
    unit = installed(tmp_path, "vllm-sidecar@.service", DROP_INS)
    assert exposure(unit) == pytest.approx(float(told[1]), abs=NEARLY)


def settings_of(text: str) -> dict[str, str]:
    """The settings of an environment file, those that are commented out among them."""
    found = dict(re.findall(rf"(?m)^#?({ENV_PREFIX}\w+)=(.*)$", text))
    assert found
    return found


def test_the_example_holds_settings_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (UNITS / "example.env").read_text()
    for name, value in settings_of(text).items():
        monkeypatch.setenv(name, value)
    taken = load({})
    assert taken.log == ["journald:vllm@llama.service"]


def test_what_is_commented_out_in_the_example_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (UNITS / "example.env").read_text()
    default = load({})
    commented = settings_of("\n".join(re.findall(r"(?m)^#.*$", text)))
    for name, value in commented.items():
        monkeypatch.setenv(name, value)
    assert load({}) == default


def test_every_line_of_the_example_is_one_that_systemd_reads() -> None:
    for line in (UNITS / "example.env").read_text().splitlines():
        assert re.fullmatch(r"#.*|[A-Z_]+=[^\s\"'\\#]*|", line), line


@pytest.mark.parametrize("file", [UNITS / "vllm-sidecar@.service", *DROP_INS], ids=lambda f: f.name)
def test_settings_that_a_unit_gives_are_settings(file: Path) -> None:
    assert set(re.findall(r"(?m)^\[(\w+)\]$", file.read_text())) <= {"Unit", "Service", "Install"}
    for name in re.findall(rf"{ENV_PREFIX}(\w+)=", file.read_text()):
        assert name.lower() in DEFAULTS
