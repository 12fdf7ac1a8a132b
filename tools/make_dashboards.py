"""Writes the dashboards of ``deploy/grafana`` from their tables: ``python -m tools.make_dashboards``.

The JSON is never edited by hand: change a table under ``tools/dashboards`` and run this.
"""

import json
from pathlib import Path

from tools.dashboards import (
    fleet_rules,
    fleet_servers,
    server_load,
    server_machine,
    server_now,
    server_sidecar,
)
from tools.dashboards.render import render
from tools.dashboards.shape import Board, Variable

FOLDER = Path(__file__).resolve().parent.parent / "deploy/grafana"
SERVER = Board(
    uid="vllm-sidecar-server",
    title="vLLM server, as its sidecar sees it",
    about="One vLLM server: what it suffers from, since when, what to change, what cannot be seen.",
    variables=(
        Variable("cluster"),
        Variable("namespace"),
        Variable("job"),
        Variable("instance", all_of_them=False),
    ),
    sections=(
        *server_now.SECTIONS,
        *server_load.SECTIONS,
        *server_machine.SECTIONS,
        *server_sidecar.SECTIONS,
    ),
    links=(("All servers", "vllm-sidecar-fleet"),),
    episodes=server_now.EPISODES,
)
FLEET = Board(
    uid="vllm-sidecar-fleet",
    title="vLLM servers, as their sidecars see them",
    about="Many vLLM servers: how many suffer from what, which ones, and which cannot be judged.",
    variables=(
        Variable("cluster", many=True),
        Variable("namespace", many=True),
        Variable("job", many=True),
    ),
    sections=(*fleet_servers.SECTIONS, *fleet_rules.SECTIONS),
)
BOARDS = {"server.json": SERVER, "fleet.json": FLEET}


def build() -> dict[str, str]:
    """The files by their names, as they are to be on disk."""
    return {
        name: json.dumps(render(board), indent=2, ensure_ascii=False) + "\n"
        for name, board in BOARDS.items()
    }


def write(folder: Path) -> None:
    """Write every dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in build().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
