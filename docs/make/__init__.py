"""`python -m docs.make` writes what is generated in docs/; the tests compare what is there with what it would write."""

from pathlib import Path

from docs.make.api import api_page
from docs.make.checker import check_file
from docs.make.engines import engines_page
from docs.make.hooks import LINK
from docs.make.lists import measured_page, names_page, rules_page
from docs.make.pictures import PICTURES
from docs.make.reference import reference_page

FOLDER = Path(__file__).parents[1]  # the folder docs/


def texts() -> dict[str, str]:
    """Return the generated pages by their path in docs/."""
    return {
        "api.md": api_page(FOLDER.parent),
        "engines.md": engines_page(),
        "index.md": start_page(),
        "measured.md": measured_page(),
        "names.md": names_page(),
        "reference.md": reference_page(FOLDER.parent),
        "rules.md": rules_page(),
        "../library/check.py": check_file(),
    }


def start_page() -> str:
    """Return the README as the first page of the site."""
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    return LINK.sub(lambda link: f"({f'../{link[0][1:-1]}'.removeprefix('../docs/')})", text)


def write_all() -> list[Path]:
    """Write the generated pages and pictures; return their paths."""
    contents = {name: text.encode() for name, text in texts().items()}
    contents |= {f"images/{name}": draw() for name, draw in PICTURES.items()}
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)
    return [FOLDER / name for name in contents]
