"""The ladder of `kvbound.plots` within a page: its text is text, and its colours are those of the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from kvbound.plots import ladder, render
from kvbound.plots.style import BLACK, GREY, LIGHT, WHITE
from kvbound.units import Units

COLOURS = {BLACK: "var(--ink)", GREY: "var(--muted)", LIGHT: "var(--line)", WHITE: "var(--page)"}


def inline_ladder(rows: Sequence[Mapping[str, Any]], units: Units) -> Element:
    """Return the ladder of these rows as an SVG element; `kvbound.plots.ladder` says what the rows are."""
    drawn = render(ladder(rows, units=units).figure.figure).decode()
    for colour, ours in COLOURS.items():
        drawn = re.sub(colour, ours, drawn, flags=re.IGNORECASE)
    svg = ElementTree.fromstring(drawn)
    for element in svg.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): _apart(_local(name), value) for name, value in element.attrib.items()}
    for data in svg.findall("metadata"):
        svg.remove(data)
    svg.attrib = {"viewBox": svg.attrib["viewBox"], "class": "ladder", "role": "img", "aria-label": "values and bounds"}
    svg.tail = "\n"
    return svg


def _local(name: str) -> str:
    """Drop the namespace, which HTML does not have."""
    return name.rpartition("}")[2]


def _apart(name: str, value: str) -> str:
    """Keep what is named within the picture, and the uses of these names, apart from the rest of the page."""
    if name == "id":
        return f"ladder-{value}"
    return re.sub(r"(^|url\()#", r"\1#ladder-", value)
