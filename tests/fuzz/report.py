"""What has been done so far: the state that a run goes on from, its table, and what was never reached."""

import json
import re
from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import Any

from tests.fuzz.case import Finding, Part

KEPT = 3
"""Findings of a kind that are made smaller and written; the others are counted."""


class State:
    """The seed, and for each part the next number, its counts, and its findings by kind; kept in `state.json`."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Go on from what is in the folder. ValueError if that is of another seed."""
        self.folder, self.file = folder, folder / "state.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.document: dict[str, Any] = {"seed": seed, "parts": {}}
        if self.file.exists():
            self.document = json.loads(self.file.read_text(encoding="utf-8"))
        if self.document["seed"] != seed:
            raise ValueError(f"{self.file} is of seed {self.document['seed']}, not {seed}; give another --out")

    def of(self, name: str) -> dict[str, Any]:
        """Return what is known of a part."""
        return self.document["parts"].setdefault(name, {"next": 0, "seconds": 0.0, "seen": {}, "findings": {}})

    def take(self, name: str, number: int, seen: dict[str, int], kinds: list[str], seconds: float = 0.0) -> None:
        """Take in that all cases of a number were looked at, in so many seconds of the processor."""
        part = self.of(name)
        part["seconds"] += seconds
        part["next"] = number + 1
        part["seen"] = dict(sorted((Counter(part["seen"]) + Counter(seen)).items()))
        for kind in kinds:
            part["findings"][kind] = part["findings"].get(kind, 0) + 1

    def save(self) -> None:
        """Write the state, whole or not at all."""
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps(self.document, indent=1), encoding="utf-8")
        partial.replace(self.file)

    def write(self, part: str, number: int, finding: Finding) -> Path:
        """Write a finding as a file; a smaller one replaces it."""
        slug = re.sub(r"[^a-z0-9]+", "-", finding.kind.lower()).strip("-")[:60]
        file = self.folder / f"{part}-{slug}-{number}.json"
        facts = {"part": part, "seed": self.document["seed"], "number": number, "kind": finding.kind}
        text = json.dumps(facts | {"detail": finding.detail, "case": finding.case.document()}, indent=1)
        file.write_text(text, encoding="utf-8")
        return file

    def table(self, parts: list[Part]) -> str:
        """Return all counts, what was found, and loudly what was never reached; `state.json` has the same."""
        lines = [f"{'part':<13}{'numbers':>9}{'cases':>9}{'skipped':>9}{'findings':>9}{'minutes':>9}{'reached':>12}"]
        never, counts = [], []
        for part in parts:
            of, seen = self.of(part.name), Counter(self.of(part.name)["seen"])
            of["never"] = missing = sorted(label for label in part.reach if not seen[label])
            shown = ", ".join(f"{label} {seen[label]}" for label in sorted(part.reach | seen.keys()))
            counts += wrap(f"{part.name}: {shown}", 120, subsequent_indent="  ")
            reached = f"{len(part.reach) - len(missing)} of {len(part.reach)}"
            lines.append(
                f"{part.name:<13}{of['next']:>9}{seen['answered']:>9}{seen['skipped']:>9}"
                f"{sum(of['findings'].values()):>9}{of['seconds'] / 60:>9.2f}{reached:>12}"
            )
            never += [f"NEVER REACHED  {part.name}: {label}" for label in missing]
        for part in parts:
            found = self.of(part.name)["findings"]
            never += [f"FOUND {count:>6}  {part.name}: {kind}" for kind, count in found.items()]
        self.save()
        return "\n".join([*counts, *lines, *never])
