"""docs/schemas.md from the JSON schemas: every key of every file, with its type and default."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kvcore.schemas import SCHEMAS, schema_text

Schema = dict[str, Any]

INTRODUCTION = """# The JSON schemas

Written by `python -m docs.make` from the schemas; `python -m kvcore.schemas docs/schemas` writes those, from the
classes that read the files. An editor that knows JSON schemas (draft 2020-12) completes and checks files with them.
They say what a single key may hold; what concerns several keys at once is checked on reading only. What the keys mean
is in [formats.md](formats.md), for certificates in [certificates.md](certificates.md).

Unknown keys are refused. A key without default must be there.
"""


def schemas_page() -> str:
    """Return docs/schemas.md."""
    return "\n".join([INTRODUCTION, *(line for name in SCHEMAS for line in schema_lines(name))])


def schema_lines(name: str) -> Iterator[str]:
    """Yield the lines on one schema: a table of its own keys, then one for each object that it uses."""
    schema: Schema = json.loads(schema_text(name))
    yield from (f"## {name}", "", f"The whole schema: [{name}](schemas/{name}).", "")
    yield from object_lines(schema)
    for used in schema.get("$defs", {}).values():
        yield from (f"### {used['title']} in {name}", "")
        yield from object_lines(used)


def object_lines(schema: Schema) -> Iterator[str]:
    """Yield the description of an object and a table of its keys; of another type, what it is."""
    yield from (escaped(" ".join(schema.get("description", "").split("\n\n")[0].split())), "")
    if "properties" not in schema:
        yield from (f"It is a {type_of(schema)}.", "")
        return
    yield from ("| key | type | default |", "|---|---|---|")
    for key, value in schema["properties"].items():
        given = f"`{json.dumps(value['default'])}`" if "default" in value else "empty"
        default = "" if key in schema.get("required", ()) else given
        yield f"| `{key}` | {escaped(type_of(value))} | {escaped(default)} |"
    yield ""


def type_of(schema: Schema) -> str:
    """Return the type of a value in words."""
    match schema:
        case {"$ref": ref}:
            return str(ref.removeprefix("#/$defs/"))
        case {"const": const}:
            return f"`{json.dumps(const)}`"
        case {"enum": values}:
            return " or ".join(f"`{json.dumps(value)}`" for value in values)
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return " or ".join(map(type_of, kinds))
        case {"type": "array", "prefixItems": items}:
            return f"list of {', '.join(map(type_of, items))}"
        case {"type": "array", "items": items}:
            return f"list of {type_of(items)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"object with values: {type_of(values)}"
    return limited(schema)


def limited(schema: Schema) -> str:
    """Return a type with its limits."""
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "pattern": "matching"}
    limits = [f"{word} `{schema[key]}`" for key, word in words.items() if key in schema]
    return " ".join([str(schema.get("type", "anything")), ", ".join(limits)]).strip()


def escaped(text: str) -> str:
    """Escape what ends a cell of a table."""
    return text.replace("|", "\\|")
