"""Settings that are read again: all of them or none, and no wish is lost."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sidecar import reload
from sidecar.config import DEFAULTS, Settings, load
from sidecar.errors import ConfigError
from sidecar.model.report import ReloadStatus
from sidecar.reload import RELOADABLE, Outcome, Reloader, Reloads, needs_restart
from tests.fakes.clock import FakeClock
from tests.fakes.patience import until

BAD = ConfigError("sidecar.toml: targt: unknown setting; did you mean target?")


class Scene:
    """A reloader, what it read, took, showed and told."""

    def __init__(self, read: Callable[[], Settings], web: Exception | None = None) -> None:
        self.clock = FakeClock()
        self.web = web
        self.taken: list[Settings] = []
        self.shown: list[ReloadStatus] = []
        self.told: list[Outcome] = []
        self.begun = 0
        self.asked = Reloads(read, begin=self.begin, tell=self.told.append)
        self.reloader = Reloader(
            load({}),
            self.clock,
            take=self.taken.append,
            reload_files=self.reload_files,
            show=self.shown.append,
        )

    def begin(self) -> None:
        self.begun += 1

    async def reload_files(self) -> None:
        if self.web is not None:
            raise self.web

    async def until_told(self, count: int) -> None:
        await until(lambda: len(self.told) >= count)


@contextlib.asynccontextmanager
async def heeding(scene: Scene) -> AsyncIterator[None]:
    task = asyncio.create_task(scene.reloader.run(scene.asked))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def reading(**settings: object) -> Callable[[], Settings]:
    return lambda: load(settings)


async def test_the_start_is_the_first_success() -> None:
    scene = Scene(reading())
    assert scene.shown == [ReloadStatus(successful=True, success_unix=scene.clock.now().unix)]
    assert scene.told == []


async def test_settings_that_can_change_are_taken_and_the_others_are_named() -> None:
    scene = Scene(reading(max_engines=3, interval="1s", target="http://127.0.0.1:1"))
    async with heeding(scene):
        scene.clock.step_unix(60.0)
        scene.asked.wish.set()
        await scene.until_told(1)
    assert scene.told == [Outcome(needs_restart=("target", "interval"))]
    assert [one.max_engines for one in scene.taken] == [3]
    assert scene.shown[1:] == [ReloadStatus(successful=True, success_unix=1_700_000_060.0)]


async def test_what_is_wrong_leaves_everything_as_it_was_until_it_is_right() -> None:
    outcomes: list[Settings | Exception] = [BAD, load({"max_engines": 2})]

    def read() -> Settings:
        found = outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    scene = Scene(read)
    async with heeding(scene):
        scene.clock.step_unix(60.0)
        scene.asked.wish.set()
        await scene.until_told(1)
        assert scene.taken == []
        assert scene.shown[-1] == ReloadStatus(successful=False, success_unix=1_700_000_000.0)
        assert scene.told == [Outcome(why=str(BAD))]
        scene.asked.wish.set()
        await scene.until_told(2)
    assert [one.max_engines for one in scene.taken] == [2]
    assert scene.shown[-1] == ReloadStatus(successful=True, success_unix=1_700_000_060.0)


async def test_a_wrong_web_configuration_leaves_the_settings_too() -> None:
    scene = Scene(reading(max_engines=3), web=ConfigError("web-config-file: no such key"))
    async with heeding(scene):
        scene.asked.wish.set()
        await scene.until_told(1)
    assert scene.told == [Outcome(why="web-config-file: no such key")]
    assert scene.taken == []


async def test_a_wish_before_we_began_is_heeded() -> None:
    scene = Scene(reading())
    scene.asked.wish.set()
    async with heeding(scene):
        await scene.until_told(1)
    assert scene.begun == 1


async def test_wishes_while_one_is_heeded_are_one_more_reload() -> None:
    reads: list[None] = []
    release = threading.Event()

    def read() -> Settings:
        reads.append(None)
        release.wait(20)
        return load({})

    scene = Scene(read)
    async with heeding(scene):
        scene.asked.wish.set()
        await until(lambda: len(reads) == 1)
        for _ in range(5):
            scene.asked.wish.set()
            await asyncio.sleep(0)
        release.set()
        await scene.until_told(2)
        await asyncio.sleep(0.05)
    assert len(reads) == scene.begun == len(scene.told) == 2


async def test_a_file_that_hangs_is_given_up_and_the_next_wish_is_heeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reload, "READ_LIMIT_S", 0.05)
    hangs, release, ended = [True], threading.Event(), threading.Event()

    def read() -> Settings:
        if hangs.pop() if hangs else False:
            release.wait(20)
            ended.set()
        return load({})

    scene = Scene(read)
    async with heeding(scene):
        scene.asked.wish.set()
        await scene.until_told(1)
        assert scene.told[0].why == "the settings' file does not answer"
        release.set()
        await until(ended.is_set)
        await asyncio.sleep(0.05)
        scene.asked.wish.set()
        await scene.until_told(2)
    assert scene.told[1] == Outcome()


async def test_a_fault_of_our_own_is_loud() -> None:
    scene = Scene(reading(), web=ZeroDivisionError())
    scene.asked.wish.set()
    with pytest.raises(ZeroDivisionError):
        await scene.reloader.run(scene.asked)


def test_every_setting_can_be_reloaded_or_needs_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.toml"
    file.write_text(
        'max_engines = 2\nmax_preemptions_per_request = 0.5\nlog = ["/var/log/a.log"]\n'
    )
    assert needs_restart(load({}), load({}, file=file)) == ("log",)
    assert set(DEFAULTS) > RELOADABLE
