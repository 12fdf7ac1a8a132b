"""A machine without NVIDIA's library is no error."""

import ctypes
from pathlib import Path

import pytest

from tests.fakes.nvml import samples


def test_no_library_is_absent(tmp_path: Path) -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        given = samples(None, tmp_path / "state", ["", ""])
        assert [one["fault"] for one in given] == ["absent", "absent"]
    else:
        pytest.skip("this machine has the library")
