"""Hypotheses from files; counterexamples into files that anyone can verify."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from heuristics.engine.guarded import guarded
from hypotheses.case import Held
from hypotheses.hypothesis import Hypothesis
from hypotheses.verdict import Verdict
from kvcore.errors import BadInput, did_you_mean
from kvcore.files import write_text

SHIPPED = Path(__file__).parent / "shipped"
COUNTEREXAMPLES = Path(__file__).parent / "counterexamples"


@cache
def shipped() -> dict[str, Hypothesis]:
    """Return the shipped hypotheses, by name."""
    found = [each for file in SHIPPED.glob("[a-z]*.py") for each in load_all(file).items()]
    return dict(sorted(found))


def find(source: str) -> dict[str, Hypothesis]:
    """Return hypotheses by name: `all` shipped, one of them, or a file's. BadInput if none is."""
    if source == "all":
        return shipped()
    if source in shipped():
        return {source: shipped()[source]}
    path = Path(source)
    if not path.is_file():
        near = did_you_mean(source, shipped())
        raise BadInput(f"there is no hypothesis file {source!r}, and none that is shipped is called so{near}")
    return load_all(path)


def load(path: str | Path) -> Hypothesis:
    """Return the HYPOTHESIS of a Python file. BadInput says in one line what is wrong."""
    found = list(load_all(Path(path)).values())
    if len(found) > 1:
        raise BadInput(f"{path}: it defines {len(found)} hypotheses; load_all gives them by their names")
    return found[0]


def load_all(path: Path) -> dict[str, Hypothesis]:
    """Return a file's HYPOTHESES, or its one HYPOTHESIS, by name. BadInput as `load`."""
    spec = importlib.util.spec_from_file_location(f"_hypothesis_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path}: not a Python file; a hypothesis is one, and its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with guarded(str(path), lambda line: BadInput(f"{path}: {line}")):
        spec.loader.exec_module(module)
    name = path.stem.replace("_", "-")
    found: dict[str, Hypothesis] = getattr(module, "HYPOTHESES", {name: getattr(module, "HYPOTHESIS", None)})
    if not found or not all(isinstance(each, Hypothesis) for each in found.values()):
        raise BadInput(f"{path}: it defines no HYPOTHESIS = Hypothesis(..) (docs/hypotheses.md shows one)")
    return found


def save(verdict: Verdict, folder: Path) -> list[str]:
    """Write a counterexample into `folder/NAME`: instances, schedules, certificates; return the file names.

    `counterexample.json` names the others and replaces an earlier one atomically; then unnamed files are deleted.
    """
    if verdict.fails is None:
        return []
    place = folder / verdict.name
    try:
        place.mkdir(parents=True, exist_ok=True)
        shown = [_save(place, held) for held in verdict.fails.evidence]
        facts = {"hypothesis": verdict.name, "why": verdict.fails.why, "shown_by": shown}
        write_text(place / "counterexample.json", json.dumps(facts, indent=1, ensure_ascii=False))
        named = {one[what] for one in shown for what in ("instance", "schedule", "certificate")}
        for old in {file.name for file in place.glob("*.json")} - named - {"counterexample.json"}:
            (place / old).unlink()
    except OSError as error:
        raise BadInput(f"{place}: cannot be written: {error.strerror or error}") from None
    verdict.files = sorted(f"{verdict.name}/{file.name}" for file in place.glob("*.json"))
    return verdict.files


def _write(place: Path, name: str, end: str, text: str) -> str:
    path = place / f"{name}{end}"
    if path.exists() and path.read_bytes().rstrip() != text.encode().rstrip():
        path = place / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{end}"
    write_text(path, text)
    return path.name


def _save(place: Path, held: Held) -> dict[str, Any]:
    proof = held.certificate
    return {
        "label": held.label,
        "instance": _write(place, f"instance-{held.instance.sha256[:8]}", ".json", held.instance.to_json()),
        "schedule": _write(place, held.label, ".schedule.json", held.schedule.to_json()),
        "certificate": None if proof is None else _write(place, held.label, ".certificate.json", proof.to_json()),
        "objective": held.objective,
        "value": str(held.value),
    }
