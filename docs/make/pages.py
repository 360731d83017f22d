"""The words of the generated pages, which stand in `pages.toml`, and in the templates beside it."""

import tomllib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

PAGES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, keep_trailing_newline=True)


def rendered(name: str, **given: Any) -> str:
    """Return the page of a template."""
    return TEMPLATES.get_template(f"{name}.md.jinja").render(**given)
