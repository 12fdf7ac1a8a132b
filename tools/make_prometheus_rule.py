"""Makes ``deploy/prometheus/prometheus-rule.yaml``, for the Prometheus operator, from the rule files.

``python tools/make_prometheus_rule.py`` writes it; with ``--check`` it exits with 1 if what is on disk
is not what it would write.
"""

import sys
from pathlib import Path
from textwrap import indent

FOLDER = Path(__file__).resolve().parent.parent / "deploy/prometheus"
PARTS = ("recording", "alerts")
TARGET = FOLDER / "prometheus-rule.yaml"
HEAD = """\
# Made by tools/make_prometheus_rule.py from the files in rules/: change those.
# The operator takes it in where its Prometheus has a ruleSelector that matches these labels.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: vllm-sidecar
  labels:
    app.kubernetes.io/name: vllm-sidecar
spec:
  groups:
"""


def wrap(text: str) -> str:
    """The groups of a rule file, the comments before them, as they stand in a ``spec``.

    Raises:
        ValueError: there is something but comments before the groups, or nothing after.
    """
    told, _, groups = text.partition("groups:\n")
    if not groups or any(line and not line.startswith("#") for line in told.splitlines()):
        raise ValueError("a rule file is comments, and then groups")
    return indent(told, 4 * " ") + indent(groups, 2 * " ")


def make() -> str:
    """The whole resource."""
    rules = FOLDER / "rules"
    return HEAD + "\n".join(
        wrap((rules / f"{part}.yml").read_text(encoding="utf-8")) for part in PARTS
    )


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    if arguments == ["--check"]:
        is_same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == make()
        return 0 if is_same else 1
    TARGET.write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
