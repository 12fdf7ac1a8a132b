"""A machine without NVIDIA's library is no error."""

from pathlib import Path

import pytest

from tests.fakes.nvml import samples


@pytest.mark.component("no_nvidia_library")
def test_no_library_is_absent(tmp_path: Path) -> None:
    given = samples(None, tmp_path / "state", ["", ""])
    assert [one["fault"] for one in given] == ["absent", "absent"]
