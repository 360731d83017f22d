"""The JSON schemas in docs/schemas are those of the classes, and accept what the classes accept."""

import json
from pathlib import Path

import pytest

from kvcore.schemas import SCHEMAS, main, schema_text
from workloads.builtin import builtin_instance

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_up_to_date(name):
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == schema_text(name), "run: python -m kvcore.schemas docs/schemas"


def test_main_writes_every_schema_and_nothing_else(tmp_path):
    assert main([str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == set(SCHEMAS) == {file.name for file in FOLDER.iterdir()}


def test_main_needs_a_folder(capsys):
    assert main(["no-such-folder"]) == 2
    assert "usage" in capsys.readouterr().err


def example():
    return json.loads(builtin_instance("mars-figure1").to_json())


def test_a_fraction_is_text_or_an_integer():
    fraction = json.loads(schema_text("instance.schema.json"))["properties"]["tick_seconds"]
    assert [kind["type"] for kind in fraction["anyOf"]] == ["integer", "string"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("tick_seconds", 0.001), ("tick_seconds", "0.001"), ("speed", 1), ("requests", []), ("version", 3)],
)
def test_schema_refuses_what_the_reader_refuses(key, value):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json.loads(schema_text("instance.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(example(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**example(), key: value}, schema)
