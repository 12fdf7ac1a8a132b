"""Memory that was freed goes back to the system."""

import subprocess
import sys

import pytest

from sidecar.heap import keep_small

PROGRAM = """
import sys
if sys.argv[1] == "small":
    from sidecar.heap import keep_small
    keep_small()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4
first = b"x" * 1_000_000
del first
blocks, pins = [], []
for _ in range(100):
    blocks.append(b"%d" % len(pins) * 300_000)
    pins.append(bytearray(2000))
blocks.clear()
print(resident())
"""


def resident_kb(how: str) -> int:
    """What a process has that freed 30 MB between small blocks that it keeps."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


def test_large_blocks_are_given_back() -> None:
    assert resident_kb("small") < resident_kb("as it is") - 10_000


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Other:
        def __init__(self, name: object) -> None:
            asked.append(name)

    monkeypatch.setattr("ctypes.CDLL", Other)
    keep_small()
    assert asked == [None]
