"""Three kinds of picture as inline SVG, the same bytes for the same numbers; it scales and labels, and judges nothing.

The drawing is leather's; its theme is a module of constants, set here once. Its coordinates are decimals of 28 digits,
which are cut to a tenth of a unit: a page of a thousand points stays small.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import DeviceError

try:
    import leather
    from leather import theme
except ImportError as error:
    raise DeviceError(
        subject="leather", found="not installed", expected="the package that draws a report's pictures",
        todo="install edge-runtime[author]",
    ) from error  # fmt: skip

BLUE, ORANGE, GREY = "#1f5a92", "#b8520a", "#8a8f98"
WIDTH, HEIGHT = 420, 320
MAX_POINTS = 1500

_FONT = "inherit"
_TEXT = 13
_BINS = 31
_NUMBERS = frozenset({"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "r"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:E[+-]?\d+)?")

for _name, _value in {
    "background_color": "none", "margin": 0.02, "tick_color": "#e3e5e8", "zero_color": "#b9bdc3",
    "label_color": "#4a4f57", "axis_title_color": "#24282e", "legend_color": "#24282e", "tick_font_family": _FONT,
    "axis_title_font_family": _FONT, "legend_font_family": _FONT, "tick_font_size": _TEXT,
    "axis_title_font_size": _TEXT, "legend_font_size": _TEXT, "axis_title_gap": 16, "tick_font_char_width": 8,
}.items():  # fmt: skip
    setattr(theme, _name, _value)


def scatter(found: Sequence[float], wanted: Sequence[float], *, x: str, y: str, label: str) -> str:
    """One dot a case at (wanted, found), and the line on which both are equal; at most ``MAX_POINTS`` dots."""
    every = max(1, -(-len(found) // MAX_POINTS))
    points = list(zip(wanted[::every], found[::every], strict=True))
    low, high = min(min(point) for point in points), max(max(point) for point in points)
    if low == high:
        low, high = low - 1, high + 1
    chart = _chart(x, y)
    chart.add_dots(points, name="a test case", fill_color=BLUE, radius=1.8)
    chart.add_line([(low, low), (high, high)], name="equal", stroke_color=ORANGE, width=1)
    return _svg(chart, label, opacity=0.55)


def histogram(series: Sequence[tuple[str, Sequence[float]]], *, x: str, label: str) -> str:
    """How many cases fall into each of 31 equal bins, an outline for each named series; the bins are common."""
    values = [np.asarray(one, np.float64) for _, one in series]
    edges = bins(values)
    chart = _chart(x, "test cases")
    for (name, _), one, colour in zip(series, values, (BLUE, ORANGE), strict=False):
        chart.add_line(_outline(edges, np.histogram(one, edges)[0]), name=name, stroke_color=colour, width=1.5)
    return _svg(chart, label, filled=True)


def bars(rows: Sequence[tuple[str, float]], *, x: str, label: str) -> str:
    """One bar a name, the first on top."""
    chart = _chart(x, None)
    chart.add_bars([(value, name) for name, value in rows], fill_color=BLUE)
    chart.add_x_scale(0, max(value for _, value in rows) or 1)
    return _svg(chart, label, height=70 + 26 * len(rows))


def bins(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of equal bins over all values, with zero in the middle of one where it lies among them."""
    low, high = min(float(one.min()) for one in values), max(float(one.max()) for one in values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    if low <= 0 <= high:
        width = (high - low) / (_BINS - 2)
        low, high = (np.floor(low / width - 0.5) + 0.5) * width, (np.ceil(high / width + 0.5) - 0.5) * width
        return np.linspace(low, high, round((high - low) / width) + 1)
    return np.linspace(low, high, _BINS + 1)


def _outline(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> list[tuple[float, float]]:
    points = [(float(edges[0]), 0.0)]
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        points += [(float(left), float(count)), (float(right), float(count))]
    return [*points, (float(edges[-1]), 0.0)]


def _chart(x: str, y: str | None) -> Any:
    chart = leather.Chart()
    chart.add_x_axis(name=x, tick_formatter=_tick)
    chart.add_y_axis(name=y, tick_formatter=_tick)
    return chart


def _tick(value: Any, _index: int, _count: int) -> str:
    if isinstance(value, str):
        return value
    return f"{float(value):.6g}".replace("-", "\N{MINUS SIGN}").replace("e\N{MINUS SIGN}0", "e\N{MINUS SIGN}")


def _svg(chart: Any, label: str, *, height: int = HEIGHT, opacity: float = 1.0, filled: bool = False) -> str:
    group = chart.to_svg_group(WIDTH, height)
    for one in group.iter():
        if one.tag == "circle" and opacity < 1:
            one.set("fill-opacity", f"{opacity:g}")
        if one.tag == "path" and filled:
            one.set("fill", one.get("stroke"))
            one.set("fill-opacity", "0.18")
        _shorten(one)
    drawn = ET.tostring(group, encoding="unicode")
    return f'<svg viewBox="0 -8 {WIDTH + 14} {height + 8}" role="img" aria-label="{escape(label)}">{drawn}</svg>'


def _shorten(element: ET.Element) -> None:
    for name, value in element.attrib.items():
        if name == "d" or (name in _NUMBERS and _NUMBER.fullmatch(value)):
            element.set(name, " ".join(_cut(value.split(" "))))
    if element.get("transform") == "":
        del element.attrib["transform"]


def _cut(words: Iterable[str]) -> Iterable[str]:
    return (f"{float(word):.1f}".removesuffix(".0") if _NUMBER.fullmatch(word) else word for word in words)
