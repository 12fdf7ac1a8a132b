"""What we are: the row of our own version."""

import platform
from collections.abc import Iterable

from sidecar import __version__
from sidecar.export.bounded import Row, Scene


def build_rows(_scene: Scene) -> Iterable[Row]:
    """This program and its interpreter."""
    return [((__version__, platform.python_version()), 1.0)]
