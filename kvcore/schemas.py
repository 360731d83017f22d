"""JSON schemas of the files: `python -m kvcore.schemas FOLDER` writes them.

They say what a single key may hold. Conditions on several keys (unique ids, every request fits alone) are checked on
reading only.
"""

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from kvcore.certificates import Certificate
from kvcore.cost_file import CostFile
from kvcore.files import write_text
from kvcore.instance import Instance
from kvcore.schedule import Schedule

SCHEMAS: dict[str, type[BaseModel]] = {
    "instance.schema.json": Instance,
    "schedule.schema.json": Schedule,
    "certificate.schema.json": Certificate,
    "cost.schema.json": CostFile,
}
"""The class that reads each kind of file."""


def schema_text(name: str) -> str:
    """Return the JSON schema (draft 2020-12)."""
    schema = SCHEMAS[name].model_json_schema()
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Write all schemas to a folder; return an exit code."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m kvcore.schemas FOLDER (which exists)", file=sys.stderr)
        return 2
    for name in SCHEMAS:
        write_text(Path(arguments[0]) / name, schema_text(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
