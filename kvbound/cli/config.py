"""Files of options."""

import tomllib
from typing import Annotated, Any

import typer

from kvbound.cli.common import option
from kvcore.errors import BadInput, unknown
from kvcore.files import read_text, said

MOST_BYTES = 2**22


def _options(ctx: typer.Context, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        tables = tomllib.loads(read_text(file, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{file}: not TOML: {said(ValueError(str(error)))}") from None
    outer: Any = ctx
    while outer.parent is not None and outer.parent.parent is not None:
        outer = outer.parent
    command = str(outer.info_name)  # `import`, also of `import csv`
    given = tables.get(command)
    if not isinstance(given, dict):
        raise BadInput(f"{file}: no table [{command}]; it has {', '.join(tables) or 'none'}")
    known = {flag.lstrip("-").replace("-", "_"): each for each in ctx.command.params for flag in each.opts}
    ctx.default_map = {}
    for key, value in given.items():
        if (name := key.replace("-", "_")) not in known:
            raise unknown(f"option of {command} in {file}", key, known)
        ctx.default_map[str(known[name].name)] = _text(
            f"{file}: {key}", value, bool(getattr(known[name], "multiple", False))
        )
    return file


def _text(place: str, value: Any, multiple: bool) -> Any:
    if isinstance(value, list):
        texts = [_text(place, each, False) for each in value]
        return texts if multiple else ",".join(texts)
    if isinstance(value, dict):
        raise BadInput(f"{place} is a text, a number, true, false or a list, not a table")
    return value if isinstance(value, bool) else str(value)


ConfigOption = Annotated[
    str | None,
    option("FILE.toml", "its table of the command has options as keys; those given here count more", "--config",
           callback=_options, is_eager=True),
]  # fmt: skip
