"""Writes the pictures of the status page that the README shows: one for each scenario.

``python -m tools.make_pages [FOLDER]``; it needs chromium.
"""

import asyncio
import sys
from pathlib import Path

from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.page.document import write_page
from sidecar.page.shown import Shown, Span, fitting_span
from tests.export.made_views import make_views
from tests.fakes.chromium import chromium
from tests.page.scenes import EXPECTED, scene

FOLDER = Path(__file__).resolve().parent.parent / "docs/pages"
WIDTH, HEIGHT = 900, 1180


async def make_pages(folder: Path) -> None:
    """A picture of each scenario at the moment at which its verdict is given, every second one dark.

    The folder must be there.
    """
    showing: list[Shown] = []

    def page(span: Span | None) -> str:
        shown = showing[-1]
        return write_page(shown, span or fitting_span(shown.timeline, shown.now))

    server = HttpServer(make_views(page=page), Exposition(()))
    port = await server.start("127.0.0.1", 0)
    try:
        async with chromium() as tab:
            for number, scenario in enumerate(EXPECTED):
                showing.append(scene(scenario))
                await tab.look(width=WIDTH, height=HEIGHT, dark=number % 2 == 1)
                await tab.open(f"http://127.0.0.1:{port}/")
                (folder / f"{scenario}.png").write_bytes(await tab.picture(whole=False))
    finally:
        await server.stop(0.2)


if __name__ == "__main__":
    asyncio.run(make_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
