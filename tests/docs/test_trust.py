"""docs/trust.md names the files that a proof of each kind rests on: all that its first file imports, and no more."""

import ast
import json
import re
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from kvcore import OBJECTIVES, BadInput, Instance, Machine, Request, Segment, Slo
from kvcore import certificates as kinds
from library import check

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
SHARED = set(re.findall(r"`(kvcore/[\w/]+\.py)`", PAGE.partition("## What all share")[2].partition("\n## ")[0]))
LISTS = {"kvcore/__init__.py", "kvcore/certificates/__init__.py"}
FILE = re.compile(r"`([\w/]+(?:\.py|/))`")
ROWS = []
for row in PAGE.partition("## What all share")[0].splitlines():
    if FILE.search(row) and row[0] == "|":
        claim, files = row.split("|")[1:3]
        above = [
            file
            for name in re.findall(r"\*(.+?)\*", files)
            for one, all_ in ROWS
            if f"`{name}`" in one
            for file in all_
        ]
        ROWS.append((claim.strip(), FILE.findall(files) + above))


def imports(file):
    """Yield the files of the project that a file imports, but the packages that only list all there is."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace(".", "/")
            names = [f"{module}.py", f"{module}/__init__.py", *(f"{module}/{name.name}.py" for name in node.names)]
            yield from (name for name in names if (ROOT / name).is_file() and name not in LISTS)


def rests_on(file):
    """Return the file and all that it imports, directly or not, besides what all share."""
    found = set()
    left = [file]
    while left:
        name = left.pop()
        if name not in found | SHARED:
            found.add(name)
            left += imports(name)
    return found


def test_every_kind_of_proof_has_a_row():
    files = (ROOT / "kvcore" / "certificates").rglob("*.py")
    kinds = {kind for path in files for kind in re.findall(r'kind: Literal\["([\w-]+)"', path.read_text())}
    named = {kind for claim, _ in ROWS if claim.startswith("certificate") for kind in re.findall("`(.+?)`", claim)}
    assert kinds == named
    assert len(SHARED) == 14


@pytest.mark.parametrize(("claim", "files"), ROWS, ids=[claim for claim, _ in ROWS])
def test_a_proof_rests_on_the_files_that_the_page_names(claim, files):
    found = rests_on(files[0])
    covered = {
        name: {one for one in found if one == name or (name.endswith("/") and one.startswith(name))} for name in files
    }
    assert found - set().union(*covered.values()) == set(), f"{claim}: the page does not name these"
    assert [name for name, ones in covered.items() if not ones] == [], f"{claim}: the page names these for nothing"


def test_the_table_of_claims_with_one_checker():
    """Whatever kvbound proves of two requests and `library/check.py` does not look at is in the table, and no more."""
    ones = tuple(Request(id=id, prompt=1, slo=Slo(latency=1), segments=(Segment(decode=2),)) for id in "AB")
    both = Instance(machine=Machine(memory=2, chunked=False, pause=False), requests=ones)
    whole = {"functions": (1024, 0), "memory": 1024}
    windows = kinds.LateWindows(**whole)
    proofs = [
        kinds.Alone(), kinds.Shares(**whole), windows, kinds.LateTail(within=0, proof=windows),
        kinds.Pairs(), kinds.InOrder(scale=1, price=()),
        kinds.Potentials(scale=1, potentials=(), labels=9),
        kinds.Speed(**whole, slot=1, scale=1, price=(1, 1), within=2), kinds.Events(states=99),
        kinds.Configurations(memory=(), starts=(0, 0)), kinds.Enumeration(states=99),
        kinds.Slots(target=1, scale=1, prices=(kinds.SlotPrices(),), states=99, tries=999),
        kinds.SlotDual(scale=1, prices=kinds.SlotPrices()),
    ]  # fmt: skip
    assert {proof.kind for proof in proofs} == check.KINDS.keys() - {"exhaustive"}
    alone = {}
    for proof, objective in product(proofs, (*OBJECTIVES, "p99-ttft")):
        with suppress(kinds.InvalidCertificate, BadInput):
            kinds.certify(both, objective, proof)
            try:
                read = check.proof(json.loads(proof.model_dump_json()), "proof")
                check.prove(check.read_instance(json.loads(both.to_json())), check.Box(read, claim=1), objective)
            except check.NotChecked:
                alone.setdefault(proof.kind, set()).add(objective)
    table = re.findall(r"^\| `([\w-]+)` \| (`.+)\|$", PAGE.partition("claims with one checker")[2], re.MULTILINE)
    assert alone == {kind: {*re.findall("`([\\w-]+)`", named)} & {*OBJECTIVES} for kind, named in table[: len(alone)]}
