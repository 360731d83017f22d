"""Which certificates of the library the checker proved in Coq accepts, in how many processor seconds.

`python -m benchmarks.proved ROWS.jsonl [SECONDS]` adds the rows that the file lacks, and prints the table.
"""

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from kvbound import machine_checked
from kvbound.cli.common import people_console, table
from kvcore.certificates import Certificate
from kvcore.errors import BadInput
from kvcore.instance import Instance
from library import Library

KINDS = ("alone", "slots", "slot-dual", "events", "shares", "speed")
COLUMNS = ("kind", "files", "accepted", "median s", "largest s", "why not")
Row = dict[str, Any]


def rows(library: Library, known: set[tuple[str, str]], seconds: int) -> Iterator[Row]:
    """Yield a row for each certificate that is not known."""
    for record in library.records():
        for objective in record.objectives:
            certificate = None if (record.name, objective) in known else library.certificate(record, objective)
            if certificate is not None and certificate.proof.kind in KINDS:
                why_not, took = tried(library.instance(record), certificate, seconds)
                about = {"name": record.name, "objective": objective, "kind": certificate.proof.kind}
                yield {**about, "why_not": why_not, "seconds": round(took, 2)}


def tried(instance: Instance, certificate: Certificate, seconds: int) -> tuple[str, float]:
    """Return why the program does not accept it (empty: it does), and its seconds."""
    try:
        line = machine_checked.claim(instance, certificate)
    except BadInput as declined:
        return str(declined).rpartition("not proved with ")[2], 0.0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [machine_checked.program()], input=line, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        return f"more than {seconds} s" if done.returncode < 0 else done.stderr.strip(), took
    return "" if done.stdout.startswith(f"proved {certificate.bound} ") else done.stdout.strip(), took


def counted(found: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for kind in KINDS:
        own = [row for row in found if row["kind"] == kind]
        took = [row["seconds"] for row in own if not row["why_not"]]
        why = Counter(row["why_not"] for row in own if row["why_not"]).most_common()
        times = (f"{median(took):.2f}", f"{max(took):.2f}") if took else ("", "")
        yield kind, str(len(own)), str(len(took)), *times, "; ".join(f"{reason} ({n})" for reason, n in why)


def main(file: Path, seconds: int) -> None:
    """Add to the rows, and print the table."""
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    with file.open("a") as out:
        for row in rows(Library(), {(row["name"], row["objective"]) for row in found}, seconds):
            found.append(row)
            print(json.dumps(row), file=out, flush=True)
    people_console().print(table(COLUMNS, list(counted(found)), right=(1, 2, 3, 4)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
