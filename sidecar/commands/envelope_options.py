"""The arguments of ``vllm-sidecar envelope``; they import nothing of what the commands need."""

import argparse
from collections.abc import Callable
from pathlib import Path


def add_envelope(
    parser: argparse.ArgumentParser, add_output: Callable[[argparse.ArgumentParser], None]
) -> None:
    """The commands of a capacity benchmark. ``add_output``: the choice of the output."""
    steps = parser.add_subparsers(
        dest="step", metavar="COMMAND", parser_class=type(parser), required=True
    )
    run = steps.add_parser("run", help="run the stages of a plan, recorded, and judge them")
    run.add_argument("plan", metavar="PLAN.toml", type=Path)
    run.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="its folder; a run goes on in it"
    )
    report = steps.add_parser("report", help="write report.md and report.html of a run")
    report.add_argument("run", metavar="DIR", type=Path, help="a run's folder, or an envelope.json")
    compare = steps.add_parser("compare", help="what the one setting did that differs in two runs")
    compare.add_argument("before", metavar="A", type=Path, help="a run, as for report")
    compare.add_argument("after", metavar="B", type=Path)
    add_output(compare)
    rules = steps.add_parser("rules", help="write alert rules with a run's measured bounds")
    rules.add_argument("run", metavar="DIR", type=Path, help="a run, as for report")
    rules.add_argument("--out", metavar="FILE", type=Path, help="default: rules.yml in its folder")
    rules.add_argument(
        "--match",
        metavar="MATCHERS",
        default="",
        help="""labels of the targets, as in 'job="vllm"'; default: who serves the measured model""",
    )
