"""The checkpoint on disk: whole or the one before, and never a reason to fail later."""

import asyncio
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.state import StateFile
from tests.parse.test_checkpoint import FULL


async def test_a_saved_checkpoint_is_loaded_by_the_next_run(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state", "a")
    assert await file.load() is None
    await file.save(FULL)
    file.close()
    assert await StateFile(tmp_path / "state", "a").load() == FULL


async def test_servers_that_share_a_folder_do_not_share_a_state(tmp_path: Path) -> None:
    file = StateFile(tmp_path, "a")
    await file.save(FULL)
    file.close()
    assert await StateFile(tmp_path, "b").load() is None


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"format":99}'])
async def test_a_broken_state_is_kept_aside_and_begun_anew(tmp_path: Path, text: bytes) -> None:
    file = StateFile(tmp_path, "a")
    file.path.write_bytes(text)
    assert await file.load() is None
    assert file.path.with_suffix(".broken").read_bytes() == text
    assert not file.path.exists()


async def test_a_folder_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="state-dir"):
        await StateFile(tmp_path / "file" / "below", "a").load()


async def test_a_disk_that_fails_is_counted_and_the_old_state_stays(tmp_path: Path) -> None:
    file = StateFile(tmp_path, "a")
    await file.save(FULL)
    file.path.with_suffix(".new").mkdir()
    await file.save(FULL)
    file.close()
    assert file.failures == 1
    assert StateFile(tmp_path, "a").path.exists()


async def test_a_disk_that_hangs_does_not_hold_a_step(tmp_path: Path) -> None:
    file = StateFile(tmp_path, "a")
    hang = asyncio.Event()
    loop = asyncio.get_running_loop()
    entered = asyncio.Event()

    def write(_text: bytes) -> bool:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(hang.wait(), loop).result()
        return True

    file.write = write  # type: ignore[method-assign,assignment]  # a disk that hangs
    await file.save(FULL)
    assert entered.is_set()
    await file.save(FULL)
    assert file.failures == 2
    hang.set()
    file.close()
