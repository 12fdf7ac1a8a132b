"""The whole page as HTML: one document without anything from elsewhere."""

from urllib.parse import urlsplit

from sidecar.page.budgets import show_budgets
from sidecar.page.evidence import show_evidence
from sidecar.page.head import say_title, show_head, show_lever
from sidecar.page.memory import show_memory
from sidecar.page.past import show_past
from sidecar.page.policy import FILE_POLICY
from sidecar.page.shown import Shown, Span
from sidecar.page.sight import show_sight
from sidecar.page.style import SCRIPT, STYLE
from sidecar.telling.figures import iso_time
from sidecar.telling.markup import Markup, element
from sidecar.telling.plain import plain_words

RELOAD_S = 15
"""Without a script the browser asks again after so long; with one, as often as there is news."""
LEAST_REFRESH_S = 2.0


LINKS = (
    ("/metrics", "for Prometheus"),
    ("/api/report", "all that is known now, as JSON"),
    ("/api/windows", "the last windows, newest last (limit=N, before=UNIX)"),
    ("/healthz", "this process and its clock live"),
    ("/readyz", "a first window is closed and the clock is on time"),
)


def write_page(shown: Shown, span: Span) -> str:
    """The page of what is known; the same value gives the same text."""
    body = (show_top(shown), show_main(shown, span), show_foot(shown))
    return write_document(say_title(shown), body, live=shown.live, every_s=shown.place.interval_s)


def write_waiting(interval_s: float) -> str:
    """The page before the first tick."""
    told = element(
        "main",
        element("h1", "Nothing was sampled yet"),
        element(
            "p",
            "The sidecar has just begun. This page shows more once it has looked at the server.",
        ),
    )
    fresh = element(
        "header", element("p", "vllm-sidecar"), element("p", "", id="fresh", role="status")
    )
    return write_document("starting - vllm-sidecar", (fresh, told), live=True, every_s=interval_s)


def write_document(title: str, body: tuple[Markup, ...], *, live: bool, every_s: float) -> str:
    """A document around its body."""
    reload = element("noscript", element("meta", http_equiv="refresh", content=str(RELOAD_S)))
    policy = element("meta", http_equiv="Content-Security-Policy", content=FILE_POLICY)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # The server says its policy in a header; a file has no other place for it.
        reload if live else policy,
        element("title", title),
        element("style", Markup(STYLE)),
    )
    script = element("script", Markup(SCRIPT)) if live else Markup("")
    every = f"{max(every_s, LEAST_REFRESH_S):g}" if live else None
    page = element("html", head, element("body", *body, script, data_every=every), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def show_top(shown: Shown) -> Markup:
    """What this is, and of when."""
    at = iso_time(shown.report.at.unix)
    of = element("p", "As of ", element("time", at, datetime=at))
    fresh = element("p", "", id="fresh", role="status") if shown.live else Markup("")
    return element("header", element("p", say_identity(shown)), of, fresh)


def say_origin(url: str) -> str:
    """Whom an address names. What follows, and who asks, may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def say_identity(shown: Shown) -> str:
    """Which server this is about: with several replicas a person must not restart the wrong one."""
    info, place = shown.report.info, shown.place
    version = info.get("vllm_version")
    parts = (
        "vllm-sidecar",
        f"on {place.host}" if place.host else "",
        f"server {say_origin(place.target)}" if place.target else "",
        f"model {info['model_name']}" if info.get("model_name") else "",
        f"vLLM {version}" if version else "",
    )
    return " · ".join(plain_words(part) for part in parts if part)


def show_main(shown: Shown, span: Span) -> Markup:
    """Everything that is refreshed: first what a person at night must know."""
    return element(
        "main",
        show_head(shown),
        show_lever(shown),
        show_evidence(shown),
        show_past(shown, span),
        show_budgets(shown),
        show_memory(shown),
        show_sight(shown),
    )


def show_foot(shown: Shown) -> Markup:
    """The other pages."""
    if not shown.live:
        return element("footer", element("p", "Written from a recording."))
    links = [element("li", element("a", path, href=path), f": {words}") for path, words in LINKS]
    return element("footer", element("ul", *links))
