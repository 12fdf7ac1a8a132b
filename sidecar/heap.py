"""How the C library's heap is kept: what is freed goes back to the system."""

import ctypes
from contextlib import suppress
from typing import Final

_SETTINGS: Final = ((-8, 1), (-3, 64 * 1024), (-1, 128 * 1024))
"""``M_ARENA_MAX``, ``M_MMAP_THRESHOLD`` and ``M_TRIM_THRESHOLD`` of ``mallopt(3)``, bytes but for the first."""


def keep_small() -> None:
    """Use one arena, and hand large blocks back as they are freed.

    Expositions of hundreds of kilobytes come and go each tick. glibc raises its threshold for blocks
    of their own as soon as one is freed, and then they leave holes: 1 to 2 MB. Another C library has
    no such call, or heeds none of it.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in _SETTINGS:
            mallopt(name, value)
