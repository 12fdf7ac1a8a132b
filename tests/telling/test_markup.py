"""Plain text cannot become markup; markup stays what it is."""

import pytest

from sidecar.telling.markup import Markup, element, escape, join

HOSTILE = "<script>alert('x')</script>&\"'"
SAFE = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;&#x27;"


def test_text_is_escaped_once_wherever_it_goes() -> None:
    assert escape(HOSTILE) == SAFE
    assert escape(escape(HOSTILE)) == SAFE
    assert join((HOSTILE, element("b", HOSTILE))) == f"{SAFE}<b>{SAFE}</b>"
    assert element("p", HOSTILE, title=HOSTILE) == f'<p title="{SAFE}">{SAFE}</p>'


def test_markup_in_an_attribute_is_text() -> None:
    inside = element("b", "x")
    assert element("p", title=inside) == '<p title="&lt;b&gt;x&lt;/b&gt;"></p>'


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (element("p", class_="a", aria_label="b", id=None), '<p class="a" aria-label="b"></p>'),
        (element("meta", charset="utf-8"), '<meta charset="utf-8">'),
        (element("svg", viewBox="0 0 1 1"), '<svg viewBox="0 0 1 1"></svg>'),
        (element("meta", name="x"), '<meta name="x">'),
    ],
)
def test_elements_are_written_as_html_has_them(made: Markup, written: str) -> None:
    assert made == written
