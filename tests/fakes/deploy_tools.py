"""The linters of what is in deploy/, in the venv that ``make deploy-tools`` makes for them."""

import subprocess
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".venv-deploy/bin"
NAMES = ("checkov", "hadolint", "kubernetes-validate")


def are_there() -> bool:
    """Whether the venv is made."""
    return all((FOLDER / name).exists() for name in NAMES)


def run_tool(
    name: str, *arguments: str | Path, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """What a tool of the venv says, however it ends; ``given``: its standard input."""
    return subprocess.run(
        [FOLDER / name, *arguments],
        check=False,
        capture_output=True,
        text=True,
        input=given,
        timeout=60,
    )
