"""``envelope report``, ``compare`` and ``rules``, as they are typed."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar import cli
from sidecar.commands import exit_codes
from sidecar.envelope.artifact import encode_envelope
from sidecar.model.envelope import Envelope
from tests.envelope import made

REAL = Path(__file__).parents[1] / "data/runs/tiny_three_stages"
"""Three stages of vLLM 0.32 on CPU, each measured twice."""


def write(folder: Path, envelope: Envelope) -> Path:
    """A run's folder, of which the recordings were left elsewhere."""
    folder.mkdir(parents=True)
    (folder / "envelope.json").write_text(encode_envelope(envelope))
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["envelope", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "a", made.make_envelope())


def test_report_writes_both_and_says_where(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (folder, folder / "envelope.json"):
        code, out, err = run(capsys, "report", path)
        assert (code, err) == (0, "")
        assert out == f"{folder}/report.md\n{folder}/report.html\n"
    assert (folder / "report.md").read_text().startswith("# Capacity envelope tiny-64-700\n")
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        "envelope.json",
        "report.html",
        "report.md",
    ]


@pytest.mark.component("promtool")
def test_of_a_real_run_all_of_it_follows_from_its_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = tmp_path / "run"
    shutil.copytree(REAL, real)
    (real / "envelope.json").unlink(missing_ok=True)
    code, out, err = run(capsys, "rules", real)
    assert (code, err) == (0, "")
    done = subprocess.run(
        ["promtool", "test", "rules", "rules.test.yml"], cwd=real, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    code, out, err = run(capsys, "report", real)
    assert (code, err) == (0, "")
    written = [real / name for name in ("envelope.json", "report.md", "report.html")]
    assert out.splitlines() == [str(path) for path in written]
    text = (real / "report.md").read_text()
    assert "- first preempting stage: c12 at 12 concurrent requests" in text
    assert "- vLLM: 0.32.0" in text
    assert "--max-num-seqs" in text
    assert "--api-key '***'" in text
    assert "canary" not in text + (real / "report.html").read_text()
    code, out, err = run(capsys, "compare", REAL, real)
    assert (code, err) == (0, "")
    assert "no setting that counts differs" in out
    assert "better" not in out


def test_report_of_a_rejected_run_is_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "b", made.make_envelope(acceptance=made.REJECTED))
    assert run(capsys, "report", folder)[0] == 0
    assert "**Rejected: c16" in (folder / "report.md").read_text()


def test_rules_are_written_beside_the_run_or_where_it_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "rules", folder)
    assert (code, err) == (0, "")
    names = ("rules.yml", "rules.prometheusrule.yml", "rules.test.yml")
    assert out.splitlines() == [str(folder / name) for name in names]
    assert all((folder / name).is_file() for name in names)
    code, out, _ = run(
        capsys, "rules", folder, "--out", tmp_path / "x.yaml", "--match", 'job="vllm"'
    )
    assert code == 0
    assert 'job="vllm"' in (tmp_path / "x.yaml").read_text()
    assert "rule_files:\n- x.yaml\n" in (tmp_path / "x.test.yaml").read_text()


def test_unit_tests_of_other_rules_do_not_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "rules", folder)
    code, out, err = run(capsys, "rules", folder, "--match", 'a=~"[x-z]{4}"')
    assert code == 0
    assert "rules.test.yml" not in out
    assert err == "no unit tests: no labels were found that the matchers let through\n"
    assert not (folder / "rules.test.yml").exists()


def test_compare_answers_with_its_exit_code(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = tuple("64" if word == "32" else word for word in made.IDENTITY.launch)
    limits = {**made.IDENTITY.limits, "max_num_seqs": 64.0}
    identity = replace(made.IDENTITY, launch=launch, limits=limits)
    one = write(tmp_path / "b", made.make_envelope(name="second", identity=identity))
    code, out, err = run(capsys, "compare", folder, one)
    assert (code, err) == (0, "")
    assert "effect of max_num_seqs:" in out
    code, out, err = run(capsys, "compare", folder, one / "envelope.json", "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["attributed_to"] == "max_num_seqs"
    two = write(
        tmp_path / "c", made.make_envelope(identity=replace(identity, vllm_version="0.33.0"))
    )
    code, out, err = run(capsys, "compare", folder, two)
    assert (code, err) == (1, "")
    assert "no effect is attributed: 2 settings differ" in out


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((), "COMMAND"),
        (("reprot", "X"), "reprot"),
        (("report",), "DIR"),
        (("report", "NOTHING"), "No such file"),
        (("rules", "NOTHING"), "No such file"),
        (("compare", "FOLDER"), "B"),
        (("compare", "FOLDER", "NOTHING"), "No such file"),
        (("compare", "FOLDER", "BROKEN"), "BROKEN"),
        (("report", "BROKEN"), "BROKEN"),
        (("rules", "FOLDER", "--match", "job=x"), "match: not label matchers"),
        (("rules", "FOLDER", "--out", "rules.json"), "out: a rule file ends with .yml or .yaml"),
        (("rules", "FOLDER", "--out", "/no/such/folder/rules.yml"), "cannot write"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: tuple[str, ...], about: str, folder: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "BROKEN").write_text('{"format": 99}')
    paths = {"FOLDER": folder, "NOTHING": tmp_path / "nothing", "BROKEN": tmp_path / "BROKEN"}
    code, out, err = run(capsys, *(paths.get(word, word) for word in arguments))
    assert code == exit_codes.USAGE
    assert out == ""
    assert err.startswith("vllm-sidecar: ")
    assert err.count("\n") == 1
    assert about in err
