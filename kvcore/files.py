"""Reads and writes the JSON files; every error is one clear line."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.schedule import Schedule

MAX_BYTES = 256 * 1024 * 1024
"""Larger files are refused unread."""
LARGE = 1024 * 1024
"""Longer texts are checked before pydantic."""

WRITTEN: dict[str, None] = {}
"""Files that this process has written, in order (`-`: standard output)."""

_WORDS = {
    "dataclass_type": "must be an object",
    "extra_forbidden": "unknown key",
    "missing": "this key is missing",
    "model_type": "must be an object",
    "unexpected_keyword_argument": "unknown key",
    "union_tag_invalid": "kind {tag!r} is not read, or no more; these are: {expected_tags}",
}
"""Pydantic's errors, reworded by type."""

_ADVICE = "; use sys.set_int_max_str_digits() to increase the limit"
"""Python's addition to its error on a huge number."""

Model = TypeVar("Model", bound=BaseModel)


def read_instance(source: str | Path) -> Instance:
    """Read an instance file (`-`: standard input). Raises BadInput."""
    return parse(Instance, read_text(source), str(source))


def read_schedule(source: str | Path) -> Schedule:
    """Read a schedule file (`-`: standard input). Raises BadInput."""
    return parse(Schedule, read_text(source), str(source))


def check_writable(*targets: str | Path | None) -> None:
    """Refuse a file that cannot be written, before hours of work (None and `-` pass)."""
    given = [target for target in targets if target is not None and not _is_special(target)]
    once = {"-" if str(target) == "-" else os.path.realpath(target) for target in given}
    if len(once) < len(given):
        raise BadInput(f"two outputs have one name: give {', '.join(map(str, given))} names of their own")
    for target in targets:
        if target is not None and str(target) != "-":
            path = Path(os.path.realpath(target))
            if not path.parent.is_dir():
                raise BadInput(f"{target}: cannot be written: there is no folder {path.parent}")
            place = target if _is_special(target) else path.parent
            if not os.access(place, os.W_OK) or os.path.isdir(path):
                raise BadInput(f"{target}: cannot be written there")


def check_database(*paths: str | Path) -> None:
    """Refuse a database path that exists and is no regular file."""
    for path in paths:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise BadInput(f"{path}: a database is a regular file, and this is none; give another name")


@contextmanager
def writing(target: str | Path, *, binary: bool = False) -> Iterator[Any]:
    """Open a file to be written whole or not at all.

    `-`, other names of standard output, devices and pipes are written as they are. A link stays, its target is
    replaced.

    Raises:
        BadInput: it cannot be written; the old content stays.
    """
    if str(target) == "-" or _is_standard_output(target):
        WRITTEN["-"] = None
        yield sys.stdout.buffer if binary else sys.stdout
        return
    path = Path(os.path.realpath(target))
    through = _is_special(target)
    partial = path.with_name(f".{token_hex(6)}.partial")
    try:
        written = target if through else partial
        with open(written, "wb" if binary else "w", encoding=None if binary else "utf-8") as file:
            yield file
        if not through:
            if path.exists():
                shutil.copymode(path, partial)
            partial.replace(path)
            WRITTEN[str(target)] = None
    except OSError as error:
        raise BadInput(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def _is_special(target: str | Path) -> bool:
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _is_standard_output(target: str | Path) -> bool:
    try:
        return os.path.samestat(os.stat(target), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file, or standard output is none
        return False


def write_text(target: str | Path, text: str) -> None:
    """Write a file whole or not at all (`-`: standard output)."""
    with writing(target) as file:
        file.write(text if text.endswith("\n") else text + "\n")


def write_bytes(target: str | Path, data: bytes) -> None:
    """As `write_text`."""
    with writing(target, binary=True) as file:
        file.write(data)


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold a file's lock, made if need be, in the block; the system releases it when the process ends."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "ab"))
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise BadInput(f"{path}: cannot be locked: {error.strerror or error}") from None
        yield


def read_text(source: str | Path, most: int | None = None) -> str:
    """Read a text file of at most `most` bytes, or MAX_BYTES (`-`: standard input); .gz is unpacked."""
    most = most or MAX_BYTES
    name = "standard input" if str(source) == "-" else str(source)
    try:
        if str(source) == "-":
            data = _pieces(sys.stdin.buffer, most)
            size = len(data)
        else:
            with gzip.open(source) if str(source).endswith(".gz") else Path(source).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = bytearray() if size > most else _pieces(file, most)
                size = max(size, len(data))
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > most:
        raise BadInput(_too_large(name, most))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 text (byte {error.start})") from None


def _too_large(name: str, most: int) -> str:
    return f"{name}: larger than {most // 2**20} MiB, which is the most that is read of such a file"


def _pieces(file: IO[bytes] | gzip.GzipFile, most: int) -> bytearray:
    data = bytearray()
    while len(data) <= most and (piece := file.read(2**16)):
        data += piece
    return data


def parse(model: type[Model], text: str, name: str) -> Model:
    """Parse JSON strictly as `model`; BadInput names file, key and value."""
    if len(text) > (most := getattr(model, "most_bytes", MAX_BYTES)):
        raise BadInput(_too_large(name, most))
    try:
        _check_keys(text, model)
        return model.model_validate_json(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}: not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValidationError as error:
        raise BadInput(f"{name}: {first_error(error)}") from None
    except RecursionError:
        raise BadInput(f"{name}: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, a duplicate key, NaN
        raise BadInput(f"{name}: {said(error)}") from None


@contextmanager
def valid(what: str) -> Iterator[None]:
    """Raise BadInput for pydantic's first error in the block."""
    try:
        yield
    except ValidationError as error:
        raise BadInput(f"{what}: {first_error(error)}") from None


def first_error(error: ValidationError) -> str:
    """Return the first error, with place and value, in one line."""
    if error.error_count() < 1000:
        first = error.errors(include_url=False)[0]
    else:  # unknown keys, of which no objects are made here
        first, _ = json.JSONDecoder().raw_decode(error.json(include_url=False, include_input=False), 1)
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    text = re.sub(r"^\w+ should (be|have)", r"must \1", first["msg"].removeprefix("Value error, "))
    words = _WORDS.get(first["type"])
    message = words.format(**first.get("ctx", {})) if words else text.partition(" after validation")[0]
    value = first.get("input", {})
    shown = "" if isinstance(value, dict | list | BaseModel) else f" (it is {_short(json.dumps(value, default=str))})"
    return _short(f"{place}: {message}{shown}" if place else message, 400)


def said(error: ValueError) -> str:
    """Return Python's error on a text in one short line."""
    return _short(str(error).removesuffix(_ADVICE))


def _short(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return printable(text if len(text) <= most else text[: most - 2] + "..")


def printable(text: str) -> str:
    """Return the text with a question mark for each control character; line breaks stay."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def _check_keys(text: str, model: type[BaseModel]) -> None:
    """Refuse a key twice in an object; in a large file, also anything but an object of the model's keys.

    Nothing read is kept: pydantic would make objects of all that it refuses.

    Raises:
        ValueError: something is wrong; a JSONDecodeError where it is not JSON.
    """
    outermost: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal outermost
        outermost = [key for key, _ in pairs]
        if len(set(outermost)) < len(outermost):
            key, _ = Counter(outermost).most_common(1)[0]
            raise ValueError(f"the key {key!r} stands twice in one object")

    found = json.loads(text, object_pairs_hook=look, parse_constant=_refuse_constant)
    if len(text) < LARGE:
        return
    if found is not None:
        raise ValueError("must be an object")
    unknown = next((key for key in outermost if key not in model.model_fields), None)
    if unknown is not None:
        raise ValueError(f"{_short(unknown)}: unknown key")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number that a file may hold")
