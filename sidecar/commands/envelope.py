"""``vllm-sidecar envelope report|compare|rules``: what follows from a capacity benchmark.

A run is named by its folder or by an ``envelope.json``.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from sidecar.commands.exit_codes import DONE, NEGATIVE
from sidecar.envelope.artifact import FILE_NAME, encode_envelope
from sidecar.envelope.compare import compare
from sidecar.envelope.compare_results import compare_result, compare_text
from sidecar.envelope.matcher import Matcher, parse_matchers
from sidecar.envelope.report_page import write_page
from sidecar.envelope.report_text import write_text
from sidecar.envelope.rule_files import write_rules
from sidecar.envelope_file import read_envelope
from sidecar.envelope_folder import PLAN, read_run, replace_file
from sidecar.errors import ConfigError
from sidecar.export.results import encode
from sidecar.model.envelope import Envelope

REPORT_TEXT, REPORT_PAGE = "report.md", "report.html"
RULES = "rules.yml"


def find_envelope(path: Path) -> Envelope:
    """The envelope of a file, or of a run's folder: the one that it wrote, else from its recordings.

    Raises:
        ConfigError, RecordingError: there is none.
    """
    if path.is_dir() and not (path / FILE_NAME).is_file() and (path / PLAN).is_file():
        return read_run(path)
    return read_envelope(path)


def write_files(files: Mapping[Path, str]) -> None:
    """Write each file whole, and say where it is.

    Raises:
        ConfigError: one cannot be written.
    """
    for path, text in files.items():
        try:
            replace_file(path, text)
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from None
        sys.stdout.write(f"{path}\n")


def run_report(path: Path) -> int:
    """Write the report of a run beside it, from its recordings where they are; returns the exit code.

    Raises:
        ConfigError, RecordingError: there is no run, or a file cannot be written.
    """
    folder = path if path.is_dir() else path.parent
    is_run = path.is_dir() and (path / PLAN).is_file()
    envelope = read_run(path) if is_run else read_envelope(path)
    files = {
        folder / REPORT_TEXT: write_text(envelope),
        folder / REPORT_PAGE: write_page(envelope),
    }
    if is_run:
        files = {folder / FILE_NAME: encode_envelope(envelope), **files}
    write_files(files)
    return DONE


def run_compare(before: Path, after: Path, *, output: Literal["text", "json"]) -> int:
    """Print what differs between two runs and what it did; 1 if no effect can be attributed.

    Raises:
        ConfigError, RecordingError: one of them is no run.
    """
    found = compare(find_envelope(before), find_envelope(after))
    if output == "json":
        sys.stdout.write(f"{encode(compare_result(found))}\n")
    else:
        sys.stdout.write(compare_text(found))
    return NEGATIVE if found.refusal else DONE


def read_matchers(text: str) -> tuple[Matcher, ...]:
    """Label matchers of the command line.

    Raises:
        ConfigError: they are none.
    """
    try:
        return parse_matchers(text)
    except ValueError as error:
        raise ConfigError(f"match: {error}") from None


def run_rules(path: Path, *, out: Path | None, match: str) -> int:
    """Write alert rules with a run's bounds, for Prometheus and its operator, and their unit tests.

    Raises:
        ConfigError, RecordingError: there is no run, the matchers are none, a file cannot be written.
    """
    matchers = read_matchers(match)
    envelope = find_envelope(path)
    out = out or (path if path.is_dir() else path.parent) / RULES
    if out.suffix not in {".yml", ".yaml"}:
        raise ConfigError("out: a rule file ends with .yml or .yaml")
    made = write_rules(envelope, out.name, matchers)
    files = {
        out: made.prometheus,
        out.with_suffix(f".prometheusrule{out.suffix}"): made.operator,
    }
    tests = out.with_suffix(f".test{out.suffix}")
    if made.tests is not None:
        files[tests] = made.tests
    write_files(files)
    if made.tests is None:
        # Those of other rules would fail with these.
        tests.unlink(missing_ok=True)
        sys.stderr.write("no unit tests: no labels were found that the matchers let through\n")
    return DONE
