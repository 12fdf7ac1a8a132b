"""What we are: the row of our own version."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from sidecar.export.bounded import Row, Scene


def read_version() -> str:
    """The installed version of this program; ``unknown`` in a tree that is not installed."""
    try:
        return version("vllm-sidecar")
    except PackageNotFoundError:
        return "unknown"


VERSION = read_version()
"""Read once: that the metadata of a package is looked up at every scrape costs more than a scrape."""


def build_rows(_scene: Scene) -> Iterable[Row]:
    """This program and its interpreter."""
    return [((VERSION, platform.python_version()), 1.0)]
