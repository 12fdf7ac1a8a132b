"""A share as a bar: how much of something is used, with the figure in words beside it."""

from sidecar.telling.markup import Markup, element

WIDTH, HEIGHT = 100.0, 10.0
FULL = 0.9
"""From this share on a bar is coloured as nearly full."""


def show_bar(share: float | None, said: str, *, mark: float | None = None) -> Markup:
    """A bar; ``mark`` is a second share, as of a peak. An unknown share is said, not drawn as empty."""
    if share is None:
        return element("span", "not known", class_="unknown-share")
    kept = min(max(share, 0.0), 1.0)
    tone = "full" if max(share, mark or 0.0) >= FULL else "part"
    inside = [
        element("title", said),
        element("rect", width=f"{WIDTH:.0f}", height=f"{HEIGHT:.0f}", class_="track"),
        element("rect", width=f"{kept * WIDTH:.1f}", height=f"{HEIGHT:.0f}", class_=tone),
    ]
    if mark is not None:
        x = min(max(mark, 0.0), 1.0) * WIDTH
        inside.append(element("path", d=f"M{x:.1f} 0V{HEIGHT:.0f}", class_="mark"))
    return element(
        "svg",
        *inside,
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        preserveAspectRatio="none",
        role="img",
        class_="bar",
    )
