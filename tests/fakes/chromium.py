"""A real Chromium without a window, driven through its DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

BROWSER = shutil.which("chromium")
LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")
START_S = 60.0
ANSWER_S = 60.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
)


@dataclass(slots=True)
class Tab:
    """A page in the browser. ``complaints``: what its console and its policy said."""

    socket: aiohttp.ClientWebSocketResponse
    session: str = ""
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    answers: dict[int, "asyncio.Future[Any]"] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Take what the browser says, until it ends."""
        async for message in self.socket:
            told = json.loads(message.data)
            if "id" in told:
                waiting = self.answers.pop(told["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(told)
            else:
                self.hear(told["method"], told.get("params", {}))

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Something happened in the page."""
        match method:
            case "Page.loadEventFired":
                self.loaded.set()
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"{params['type']}: {params['args']}")
            case "Log.entryAdded":
                entry = params["entry"]
                self.complaints.append(f"{entry['source']} {entry['level']}: {entry['text']}")
            case _:
                pass

    async def ask(self, method: str, **params: object) -> Any:
        """One command, and what came of it."""
        number = next(self.numbers)
        waiting = self.answers[number] = asyncio.get_running_loop().create_future()
        told: dict[str, object] = {"id": number, "method": method, "params": params}
        if self.session:
            told["sessionId"] = self.session
        await self.socket.send_json(told)
        async with asyncio.timeout(ANSWER_S):
            answer = await waiting
        assert "error" not in answer, (method, answer)
        return answer["result"]

    async def look(self, *, width: int = 1080, height: int = 900, dark: bool = False) -> None:
        """How wide the window is, and which colours are preferred; phones are narrow."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.ask("Emulation.setEmulatedMedia", features=[colours])

    async def open(self, url: str, *, scripts: bool = True) -> None:
        """Go to a page and wait until it is there."""
        await self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.loaded.clear()
        await self.ask("Page.navigate", url=url)
        async with asyncio.timeout(ANSWER_S):
            await self.loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def text(self) -> str:
        """What a reader reads."""
        return str(await self.evaluate("document.body.innerText"))

    async def key(self, name: str) -> None:
        """Press a key and let it go."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[name]
        pressed = {"key": name, "code": name, "windowsVirtualKeyCode": code, "text": text}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", **pressed)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def picture(self, *, whole: bool = True) -> bytes:
        """A PNG of the page, or of the part that the window shows."""
        found = await self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])


@contextlib.asynccontextmanager
async def chromium(*options: str) -> AsyncIterator[Tab]:
    """A browser with one empty page."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            BROWSER,
            *OPTIONS,
            *options,
            f"--user-data-dir={profile}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            url = await find_address(process)
            async with (
                aiohttp.ClientSession() as client,
                client.ws_connect(url, max_msg_size=0) as socket,
            ):
                tab = Tab(socket)
                listening = asyncio.ensure_future(tab.listen())
                try:
                    await attach(tab)
                    yield tab
                finally:
                    listening.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def find_address(process: asyncio.subprocess.Process) -> str:
    """Where the browser listens; it says so itself."""
    assert process.stderr is not None
    async with asyncio.timeout(START_S):
        async for line in process.stderr:
            found = LISTENING.search(line)
            if found is not None:
                return found[1].decode()
    raise AssertionError("the browser ended")


async def attach(tab: Tab) -> None:
    """Speak to the browser's first page from now on."""
    targets: Sequence[dict[str, Any]] = (await tab.ask("Target.getTargets"))["targetInfos"]
    page = next(one for one in targets if one["type"] == "page")
    told = await tab.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
    tab.session = told["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        await tab.ask(f"{domain}.enable")
