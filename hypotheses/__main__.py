"""`python -m hypotheses [NAME ..]`: check shipped hypotheses, save what refutes them, write the page."""

import json
import sys

from hypotheses.hypothesis_files import COUNTEREXAMPLES, save, shipped
from hypotheses.page import PAGE, RECORDS, kept, page, read_records
from hypotheses.verdict import check
from kvcore.files import write_text

LIMIT = 3600.0  # seconds for one: 200 slices of a trace take minutes


def main(names: list[str]) -> None:
    """Check, and replace the records."""
    records = {row["hypothesis"]: row for row in (read_records() if RECORDS.exists() else [])}
    for name in names or shipped():
        verdict = check(name, shipped()[name], time_limit=LIMIT)
        save(verdict, COUNTEREXAMPLES)
        records[name] = kept(verdict.row())
        print(f"{name}: {verdict.verdict} ({verdict.seconds:.1f} s){'' if verdict.as_stated else ' NOT AS STATED'}")
        rows = [records[name] for name in shipped() if name in records]
        write_text(RECORDS, json.dumps(rows, indent=1, ensure_ascii=False))
        write_text(PAGE, page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
