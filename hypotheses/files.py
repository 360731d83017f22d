"""Reading a hypothesis from its file, and saving a counterexample so that anyone can verify it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from hypotheses.case import Held
from hypotheses.hypothesis import Hypothesis
from hypotheses.verdict import Verdict
from kvcore.errors import BadInput
from kvcore.files import write_text

SHIPPED = Path(__file__).parent / "shipped"
COUNTEREXAMPLES = Path(__file__).parent / "counterexamples"


def shipped() -> dict[str, Path]:
    """Return the files that come with kvbound, by their names."""
    return {file.stem.replace("_", "-"): file for file in sorted(SHIPPED.glob("[a-z]*.py"))}


def find(source: str) -> Path:
    """Return the file that is meant: a path, or the name of a shipped one. BadInput if there is none."""
    if source in shipped():
        return shipped()[source]
    path = Path(source)
    if not path.is_file():
        raise BadInput(f"there is no hypothesis file {source!r}, and none that is shipped is called so")
    return path


def load(path: Path) -> Hypothesis:
    """Return the HYPOTHESIS that a Python file defines. BadInput says in one line what is wrong with the file."""
    spec = importlib.util.spec_from_file_location(f"_hypothesis_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path}: not a Python file; a hypothesis is one, and its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path}: {type(error).__name__}: {error}") from None
    found = getattr(module, "HYPOTHESIS", None)
    if not isinstance(found, Hypothesis):
        raise BadInput(f"{path}: it defines no HYPOTHESIS = Hypothesis(..) (docs/hypotheses.md shows one)")
    return found


def save(verdict: Verdict, folder: Path) -> list[str]:
    """Write a counterexample into `folder/NAME`: instances, schedules, certificates, and what they show.

    Returns the names of the files. What was there before is replaced.
    """
    if verdict.fails is None:
        return []
    place = folder / verdict.name
    try:
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("*.json"):
            old.unlink()
    except OSError as error:
        raise BadInput(f"{place}: cannot be written: {error.strerror or error}") from None
    shown = [_save(place, held, verdict) for held in verdict.fails.evidence]
    facts = {"hypothesis": verdict.name, "why": verdict.fails.why, "shown_by": shown}
    write_text(place / "counterexample.json", json.dumps(facts, indent=1, ensure_ascii=False))
    verdict.files = sorted(f"{verdict.name}/{file.name}" for file in place.glob("*.json"))
    return verdict.files


def _save(place: Path, held: Held, verdict: Verdict) -> dict[str, Any]:
    """Write one schedule, its instance, and the certificate of its optimum if there is one; return the names."""
    instance = f"instance-{held.instance.sha256[:8]}.json"
    schedule, certificate = f"{held.label}.schedule.json", f"{held.label}.certificate.json"
    write_text(place / instance, held.instance.to_json())
    write_text(place / schedule, held.schedule.to_json())
    proof = held.certificate()
    if proof is not None:
        write_text(place / certificate, proof.to_json())
    return {
        "label": held.label,
        "instance": instance,
        "schedule": schedule,
        "certificate": None if proof is None else certificate,
        "objective": held.objective,
        "value": str(held.value),
    }
