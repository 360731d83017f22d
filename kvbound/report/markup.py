"""Pages by the templates of this folder, and figures as SVG in them; no text of an instance can become markup."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kvbound.plots.style import BLACK, GREY, LIGHT, PALE, WHITE, Figure, render

FOLDER = Path(__file__).parent
TEMPLATES = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
PARTS: Any = TEMPLATES.get_template("parts.html").module
COLOURS = {BLACK: "ink", GREY: "muted", LIGHT: "line", PALE: "pale", WHITE: "page"}  # as in report.css


def page(**given: Any) -> str:
    """Return a whole HTML file, `report.html` with its style and its script."""
    style, script = (Markup((FOLDER / f"report.{kind}").read_text(encoding="utf-8")) for kind in ("css", "js"))
    return TEMPLATES.get_template("report.html").render(style=style, script=script, **given) + "\n"


def node(tag: str, attributes: Mapping[str, object], *children: Element) -> Element:
    """Return an element of SVG; numbers have two decimals."""
    made = Element(tag, {name: _text(value) for name, value in attributes.items()})
    made.extend(children)
    return made


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def written(element: Element) -> Markup:
    """Return an element as text for a page."""
    return Markup(ElementTree.tostring(element, encoding="unicode", method="html"))


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
