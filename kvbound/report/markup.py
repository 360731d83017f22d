"""HTML and SVG as a tree, so that no text of an instance can become markup."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from importlib.resources import files
from xml.etree.ElementTree import Element

from kvbound.plots.style import BLACK, GREY, LIGHT, PALE, WHITE, Figure, render
from kvbound.tables import Cells

LINES = frozenset(
    ("head", "body", "main", "section", "figure", "table", "thead", "tbody", "tr", "details", "dl", "p", "h1", "h2",
     "h3", "svg", "g", "rect", "path", "style", "script", "meta", "title", "pattern")
)  # fmt: skip
"""Elements that end a line of the file."""

COLOURS = {BLACK: "ink", GREY: "muted", LIGHT: "line", PALE: "pale", WHITE: "page"}  # as in report.css
Child = Element | str | None


def node(tag: str, attributes: Mapping[str, object] | None = None, *children: Child) -> Element:
    """Return an element with these children, without None; text is escaped when the page is written."""
    made = Element(tag, {name: _text(value) for name, value in (attributes or {}).items() if value is not None})
    made.tail = "\n" if tag in LINES else None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child is not None:
            _add_text(made, child)
    return made


def _add_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files("kvbound.report").joinpath(name).read_text(encoding="utf-8")


def page(title: str, main: Iterable[Element], style: str, script: str) -> str:
    """Return a whole HTML file that loads nothing, which its policy forbids."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    head = node(
        "head", None,
        node("meta", {"charset": "utf-8"}),
        node("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        node("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        node("meta", {"name": "color-scheme", "content": "light dark"}),
        node("title", None, title),
        node("style", None, style),
    )  # fmt: skip
    body = node("body", None, node("main", None, *main), node("script", None, script))
    html = node("html", {"lang": "en"}, head, body)
    return "<!doctype html>\n" + ElementTree.tostring(html, encoding="unicode", method="html") + "\n"


def html_table(cells: Cells, caption: str | None = None) -> Element:
    """Return a table that scrolls where it is too wide."""
    sides = [{"class": "number"} if k in cells.numbers else {} for k in range(len(cells.columns))]
    head = [node("th", {"scope": "col", **side}, text) for side, text in zip(sides, cells.columns, strict=True)]
    rows = [
        node("tr", None, node("th", {"scope": "row"}, _cell(first)), *(
            node("td", side, _cell(cell)) for side, cell in zip(sides[1:], rest, strict=True)
        ))
        for first, *rest in cells.rows
    ]  # fmt: skip
    made = node("table", None, node("thead", None, node("tr", None, *head)), node("tbody", None, *rows))
    if caption is not None:
        made.insert(0, node("caption", None, caption))
    label = caption or cells.columns[0]
    return node("div", {"class": "wide", "tabindex": 0, "role": "region", "aria-label": label}, made)


def _cell(cell: object) -> str:
    return "–" if cell is None else str(cell)


def inline(figure: Figure, name: str, attributes: Mapping[str, str]) -> Element:
    """Return a figure as an SVG element in the page's colours; `name` makes its ids unique."""
    drawn = render(figure).decode()
    for colour, ours in COLOURS.items():
        drawn = re.sub(colour, f"var(--{ours})", drawn, flags=re.IGNORECASE)
    svg = ElementTree.fromstring(drawn)
    for element in svg.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): value.replace("url(#", f"url(#{name}-") for key, value in element.items()}
        element.attrib |= {key: f"{name}-{element.attrib[key]}" for key in ["id"] if key in element.attrib}
        element.attrib |= {key: f"#{name}-{element.attrib[key][1:]}" for key in ["href"] if key in element.attrib}
        element.text, element.tail = (element.text or "").strip() or None, "\n"
    for data in svg.findall("metadata"):
        svg.remove(data)
    svg.attrib = {"viewBox": svg.attrib["viewBox"], **attributes}
    return svg


def _local(name: str) -> str:
    return name.rpartition("}")[2]
