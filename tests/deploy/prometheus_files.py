"""The files under ``deploy/prometheus``, read as they are shipped, and made quick for live tests."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy/prometheus"
RULES = FOLDER / "rules"
TESTS = FOLDER / "tests"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
QUICK = ((1800, "20s"), (600, "5s"), (180, "2s"), (0, "500ms"))
"""What waits at least so many seconds in a rule, and how long it waits when it is quick."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, recording or alerting. ``waits_s``: its ``for``."""

    name: str
    alerts: bool
    expr: str
    waits_s: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


def load(path: Path) -> Any:
    """A YAML file's content."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def seconds(text: str) -> float:
    """A duration as Prometheus writes it: ``1m30s``."""
    return sum(int(count) * UNITS_S[unit] for count, unit in re.findall(r"(\d+)([smhd])", text))


def rules() -> Iterator[Rule]:
    """Every rule of the rule files."""
    for path in sorted(RULES.glob("*.yml")):
        for group in load(path)["groups"]:
            for row in group["rules"]:
                yield Rule(
                    name=row.get("alert") or row["record"],
                    alerts="alert" in row,
                    expr=row["expr"],
                    waits_s=seconds(row.get("for", "")),
                    labels=row.get("labels", {}),
                    annotations=row.get("annotations", {}),
                )


ALERTS = tuple(rule for rule in rules() if rule.alerts)
RECORDS = tuple(rule for rule in rules() if not rule.alerts)


def quicken(folder: Path, *, but: Container[str] = ()) -> list[str]:
    """Copies of the rule files in ``folder`` whose waits are cut to at most 20 s; their paths.

    ``but``: alerts that wait as they do.
    """
    written = []
    for path in sorted(RULES.glob("*.yml")):
        content = load(path)
        for group in content["groups"]:
            for row in group["rules"]:
                if "for" in row and row["alert"] not in but:
                    waits = seconds(row["for"])
                    row["for"] = next(quick for least, quick in QUICK if waits >= least)
                if "keep_firing_for" in row:
                    row["keep_firing_for"] = "1s"
        copy = folder / path.name
        copy.write_text(yaml.safe_dump(content), encoding="utf-8")
        written.append(str(copy))
    return written


def scrape_config(targets: list[Any], **changed: Any) -> dict[str, Any]:
    """The job of the example with other targets and settings."""
    (job,) = load(FOLDER / "prometheus.example.yml")["scrape_configs"]
    return {**job, "static_configs": targets, **changed}


def quick_config(jobs: list[dict[str, Any]], interval: str = "1s") -> dict[str, Any]:
    """The example's configuration with these jobs and a short interval, without rules and alerts."""
    config: dict[str, Any] = load(FOLDER / "prometheus.example.yml")
    del config["alerting"]
    config["global"] |= {
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "evaluation_interval": interval,
    }
    return {**config, "rule_files": [], "scrape_configs": jobs}
