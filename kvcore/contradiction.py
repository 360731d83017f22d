"""What stops everything: a bound above the value of a schedule that the referee passed."""

import json
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kvcore.files import write_text


class Contradiction(RuntimeError):
    """A proof and a schedule contradict each other; the message names the folder of both."""


def contradiction(why: str, **proofs: BaseModel | dict[str, Any]) -> Contradiction:
    """Return the error, with each proof in a file of a new folder `kvbound-contradiction-..`.

    It is in the current folder, or else the temporary one.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="kvbound-contradiction-", dir=Path.cwd()))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="kvbound-contradiction-"))
    for name, proof in proofs.items():
        text = proof.model_dump_json() if isinstance(proof, BaseModel) else json.dumps(proof, indent=1)
        write_text(folder / f"{name}.json", text)
    return Contradiction(f"{why}; one of the two is wrong, please report what is in {folder}")
