"""The checkpoint on disk: whole or the one before, and never a reason to fail later."""

import asyncio
import errno
import fcntl
import sys
from pathlib import Path

import pytest

from sidecar.app import state_file
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.state_file import StateFile
from tests.parse.test_saved_state import FULL


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


async def test_a_state_is_kept_by_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = StateFile(tmp_path, "a"), StateFile(tmp_path, "a")
    await first.load()
    with pytest.raises(ConfigError, match=r"^state-dir: .*another vllm-sidecar[^\n]*$"):
        await second.load()
    await StateFile(tmp_path, "b").load()
    await first.save(FULL)
    first.close()
    assert await second.load() == FULL
    second.close()


async def test_a_process_that_was_killed_holds_its_state_no_more(tmp_path: Path) -> None:
    program = """
import asyncio, pathlib, sys, time
from sidecar.state_file import StateFile
asyncio.run(StateFile(pathlib.Path(sys.argv[1]), "a").load())
print("held", flush=True)
time.sleep(60)
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    file = StateFile(tmp_path, "a")
    with pytest.raises(ConfigError, match="another vllm-sidecar"):
        await file.load()
    process.kill()
    await process.wait()
    assert await file.load() is None
    file.close()


async def test_a_file_system_without_locks_keeps_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = StateFile(tmp_path, "a")
    assert await file.load() is None
    await file.save(FULL)
    assert file.failures == 0
    file.close()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "POD_NAME", "HOSTNAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("outside")
def test_whose_state_it_is_is_told_by_all_that_tells_servers_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path(**options: object) -> Path:
        file = state_file(Settings(state_dir=tmp_path, **options))  # type: ignore[arg-type]
        assert file is not None
        return file.path

    paths = [
        path(),
        path(target="http://127.0.0.1:8001"),
        path(log=["/a"]),
        path(log=["/a", "/b"]),
        path(cgroup="/docker/a"),
        path(cgroup="/docker/b"),
        path(pid=7),
    ]
    assert path() == paths[0]
    assert path(interval="1s", window="10s", listen="127.0.0.1:1") == paths[0]
    monkeypatch.setenv("HOSTNAME", "a1b2c3")
    assert path() == paths[0], "another run of our container has another host name"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    paths.append(path())
    monkeypatch.setenv("POD_NAME", "vllm-0")
    paths.append(path())
    assert len(set(paths)) == len(paths)
    assert state_file(Settings()) is None


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
