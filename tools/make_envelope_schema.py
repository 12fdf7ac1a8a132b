"""Writes ``deploy/envelope/envelope.schema.json`` from the dataclasses: ``python tools/make_envelope_schema.py``."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sidecar.envelope.schema import make_schema  # noqa: E402


def main() -> None:
    """Write the file."""
    text = json.dumps(make_schema(), indent=1, ensure_ascii=True)
    (ROOT / "deploy/envelope/envelope.schema.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
