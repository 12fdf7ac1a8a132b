"""``python -m sidecar`` is the command."""

from sidecar.cli import entry

if __name__ == "__main__":
    entry()
