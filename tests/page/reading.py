"""A page as a reader without a browser sees it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br"})


@dataclass
class Page:
    """Its visible text by place, its ids and links, and every attribute that was written."""

    text: str = ""
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    headings: list[tuple[str, str]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    pictures: int = 0


class Reader(HTMLParser):
    """Reads a page, and fails where an element is not closed as it was opened."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.page.attributes.add((tag, name))
            if name == "id":
                self.page.ids.append(value or "")
            if name == "href":
                self.page.links.append(value or "")
        if tag == "svg" and ("role", "img") in attrs:
            self.page.pictures += 1

    def handle_endtag(self, tag: str) -> None:
        """An element ends: it must be the one that began last."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> where {self.open[-1]} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Text."""
        if not self.open:
            assert not data.strip()
            return
        inside = set(self.open)
        if "svg" in inside and self.open[-1] == "title":
            self.page.titles.append(data)
        elif not inside & {"style", "script", "svg", "head"}:
            self.page.text += f" {data}"
            if self.open[-1] in {"h1", "h2", "h3"}:
                self.page.headings.append((self.open[-1], data))


def read_page(text: str) -> Page:
    """The page; fails where it is not well formed."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    reader.page.text = " ".join(reader.page.text.split())
    return reader.page
