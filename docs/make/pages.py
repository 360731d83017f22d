"""The words of the generated pages, which stand in `pages.toml`."""

import tomllib
from pathlib import Path

PAGES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
