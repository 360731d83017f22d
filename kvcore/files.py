"""Reading and writing the JSON files; whatever is wrong with one is said in one clear line."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

from pydantic import BaseModel, ValidationError

from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.schedule import Schedule

MAX_BYTES = 256 * 1024 * 1024
"""A file larger than this is refused before it is read."""

_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "this key is missing",
    "unexpected_keyword_argument": "unknown key",
}
"""What pydantic says in more or other words, by the type of its error."""

_ADVICE = "; use sys.set_int_max_str_digits() to increase the limit"
"""What Python adds to its error on a number of thousands of digits."""

Model = TypeVar("Model", bound=BaseModel)


def read_instance(source: str | Path) -> Instance:
    """Read an instance file (`-`: standard input). BadInput says what is wrong with it."""
    return parse(Instance, read_text(source), str(source))


def read_schedule(source: str | Path) -> Schedule:
    """Read a schedule file (`-`: standard input). BadInput says what is wrong with it."""
    return parse(Schedule, read_text(source), str(source))


def check_writable(*targets: str | Path | None) -> None:
    """Refuse a file that cannot be written later, before hours are spent on what goes into it (None and `-` pass)."""
    for target in targets:
        if target is not None and str(target) != "-":
            folder = Path(target).absolute().parent
            if not folder.is_dir():
                raise BadInput(f"{target}: cannot be written: there is no folder {folder}")
            if not os.access(folder, os.W_OK) or Path(target).is_dir():
                raise BadInput(f"{target}: cannot be written there")


@contextmanager
def writing(target: str | Path) -> Iterator[TextIO]:
    """Open a file to be written whole or not at all (`-`: standard output)."""
    if str(target) == "-":
        yield sys.stdout
        return
    path = Path(target)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise BadInput(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(target: str | Path, text: str) -> None:
    """Write a file whole or not at all (`-`: standard output)."""
    with writing(target) as file:
        file.write(text if text.endswith("\n") else text + "\n")


def read_text(source: str | Path) -> str:
    """Read a text file of at most MAX_BYTES (`-`: standard input)."""
    name = "standard input" if str(source) == "-" else str(source)
    try:
        if str(source) == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
            size = len(data)
        else:
            with Path(source).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
                size = max(size, len(data))
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from None
    if size > MAX_BYTES:
        raise BadInput(f"{name}: larger than {MAX_BYTES // 2**20} MiB, which is the most that is read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 text (byte {error.start})") from None


def parse(model: type[Model], text: str, name: str) -> Model:
    """Parse JSON text strictly as `model`; BadInput names the file, the key and the value."""
    try:
        json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
        return model.model_validate_json(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}: not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValidationError as error:
        raise BadInput(f"{name}: {first_error(error)}") from None
    except RecursionError:
        raise BadInput(f"{name}: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, a duplicate key, NaN
        raise BadInput(f"{name}: {_short(str(error).removesuffix(_ADVICE))}") from None


def first_error(error: ValidationError) -> str:
    """Say the first thing that is wrong, with its place and value, in one line."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    message = _WORDS.get(first["type"], first["msg"].removeprefix("Value error, "))
    value = first.get("input")
    shown = "" if isinstance(value, dict | list | BaseModel) else f" (it is {_short(json.dumps(value, default=str))})"
    return _short(f"{place}: {message}{shown}" if place else message, 400)


def _short(text: str, most: int = 200) -> str:
    """Return the text on one line of at most `most` printable characters."""
    text = " ".join(text.split())
    text = text if len(text) <= most else text[: most - 2] + ".."
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {key!r} stands twice in one object")
    return result


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number that a file may hold")
