"""What one read of a log brings."""

from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 1024 * 1024
"""Bytes that one call reads at most; what is left is told as lag."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Complete lines, each with its end, in the order in which they were written.

    ``lag_bytes`` are written but not read. Of what is not in ``data``: ``overlong`` lines were too
    long, ``overflow`` lines came faster than they could be kept, ``lost`` times a piece of unknown
    size may have been gone before it could be read. ``stream`` names the one log of a place with several, and
    ``above`` is what stands above the first line of a stream that was begun amid its log.
    """

    data: bytes = b""
    lag_bytes: int = 0
    overlong: int = 0
    overflow: int = 0
    lost: int = 0
    stream: str = ""
    above: bytes = b""
