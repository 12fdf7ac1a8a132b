"""How the C library's heap is kept: what is freed goes back to the system."""

import ctypes
from contextlib import suppress
from typing import Final

_SETTINGS: Final = ((-8, 1), (-3, 384 * 1024), (-1, 1024 * 1024))
"""``M_ARENA_MAX``, ``M_MMAP_THRESHOLD`` and ``M_TRIM_THRESHOLD`` of ``mallopt(3)``, bytes but for the first."""


def keep_small() -> None:
    """Use one arena, and hand large blocks back as they are freed.

    glibc raises its threshold for blocks of their own as soon as a large one is freed, and then they
    leave holes. What eight engines show (260 KiB) stays below ours: to map it anew at each tick cost
    0.1 % of a core. Another C library has no such call, or heeds none of it.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in _SETTINGS:
            mallopt(name, value)
