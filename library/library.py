"""The folder of all records: read, checked, and improved."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import kvcore
from kvcore.certificates import Certificate, InvalidCertificate, read_certificate, verify_certificate
from kvcore.contradiction import contradiction
from kvcore.errors import BadInput, did_you_mean
from kvcore.files import locked, parse, read_instance, read_schedule, read_text, valid, write_bytes, write_text
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import number
from kvcore.schedule import Schedule
from library.record import Best, Origin, Record

RECORDS = Path(__file__).parent / "records"
TRIED = "tried.csv"
"""In the folder of the records: a line for each try of every database that filled it."""
NUMBER = re.compile(r"(-?[0-9]{1,400}(\.[0-9]{1,20})?(e-?[0-9]{1,2})?(/0*[1-9][0-9]{0,400})?)?")
"""A number in a table, or an empty field."""
HEAD = 2000
"""Letters of an instance file that include its tick."""
OURS = f"kvbound {kvcore.__version__}"


class Checked(NamedTuple):
    """The check of a schedule, a certificate, or the record; `wrong` is empty where all is well."""

    name: str
    objective: str
    what: str
    wrong: str


class Improved(NamedTuple):
    """What an accepted schedule or certificate changed."""

    name: str
    objective: str
    what: str
    before: int | str | None
    now: int | str | None


class Library:
    """The records of a folder (default: the package's)."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder or RECORDS)
        if not self.folder.is_dir():
            raise BadInput(f"{folder}: there is no folder of records")

    @cached_property
    def _paths(self) -> dict[str, Path]:
        found = dict[str, Path]()
        for path in sorted(self.folder.glob("*/*.json")):
            if path.stem in found:
                raise BadInput(f"{path}: {found[path.stem]} is a record of the same name")
            if "." not in path.stem:
                found[path.stem] = path
        return found

    @property
    def names(self) -> list[str]:
        """The names of all instances, by family."""
        return list(self._paths)

    def locked(self) -> AbstractContextManager[None]:
        """Return a block in which no other process writes here."""
        return locked(self.folder / ".lock")

    def place(self, name: str) -> Path:
        """Return the path of a record; BadInput if there is none."""
        if name not in self._paths:
            near = did_you_mean(name, self._paths)
            raise BadInput(f"the library has no instance {name!r}{near}; `kvbound library list` names all")
        return self._paths[name]

    def record(self, name: str) -> Record:
        """Return the record of a name; BadInput if there is none."""
        path = self.place(name)
        record = parse(Record, read_text(path), str(path))
        if (record.family, record.name) != (path.parent.name, path.stem):
            raise BadInput(f"{path}: it says that it is {record.family}/{record.name}")
        return record

    def records(self) -> list[Record]:
        """Return all records."""
        return [self.record(name) for name in self._paths]

    def of(self, sha256: str) -> Record:
        """Return the record of the instance with this hash; BadInput if there is none."""
        found = self._of(sha256)
        if found is None:
            raise BadInput(f"it is for an instance {sha256[:12]}.., which the library does not have")
        return found

    def _of(self, sha256: str) -> Record | None:
        return next((record for record in self.records() if record.instance_sha256 == sha256), None)

    def tried(self, *columns: str) -> list[dict[str, str]]:
        """Return the tries that `fill` noted with these columns; numbers are text, or empty."""
        return table_rows(self.folder / TRIED, "name", "objective", "run", *columns)

    def path(self, record: Record, kind: str, objective: str | None = None) -> Path:
        """Return the path of the instance, or of a schedule or certificate."""
        parts = [record.name, *([objective] if objective else []), kind, "json", "gz"]
        return self.folder / record.family / ".".join(parts)

    def instance(self, record: Record) -> Instance:
        """Return the instance; BadInput if it is not that of the record."""
        instance = read_instance(self.path(record, "instance"))
        if instance.sha256 != record.instance_sha256:
            raise BadInput(f"{record.name}: its instance has the hash {instance.sha256}, not {record.instance_sha256}")
        return instance

    def tick_seconds(self, record: Record) -> Fraction:
        """Return the length of a tick, from the file's head if it is there."""
        with (
            suppress(OSError, EOFError, ValueError, zlib.error),
            gzip.open(self.path(record, "instance"), "rt", encoding="utf-8") as file,
        ):
            if found := re.search(r'"tick_seconds": "(\d+(?:/[1-9]\d*)?)"', file.read(HEAD)):
                return Fraction(found[1])
        return self.instance(record).tick_seconds

    def schedule(self, record: Record, objective: str) -> Schedule | None:
        """Return the best schedule, or None."""
        known = record.objectives[objective].schedule is not None
        return read_schedule(self._held(record, "schedule", objective)) if known else None

    def certificate(self, record: Record, objective: str) -> Certificate | None:
        """Return the certificate of the best bound, or None."""
        known = record.objectives[objective].certificate is not None
        return read_certificate(self._held(record, "certificate", objective)) if known else None

    def _new(self, record: Record, kind: str, objective: str) -> Path:
        path, best = self.path(record, kind, objective), record.objectives[objective]
        value = best.value if kind == "schedule" else best.bound
        return path.with_name(f".{path.name.removesuffix('json.gz')}{value}.json.gz".replace("/", "_"))

    def _held(self, record: Record, kind: str, objective: str) -> Path:
        new = self._new(record, kind, objective)
        return new if new.exists() else self.path(record, kind, objective)

    def add(self, instance: Instance, objectives: Iterable[str], **about: str) -> Record:
        """Add an instance; `about` is its name, family, source, origin and licence."""
        with valid("the record"):
            record = Record.model_validate({
                **about, **sizes(instance), "instance_sha256": instance.sha256,
                "objectives": {check_objective(objective): Best() for objective in objectives},
            })  # fmt: skip
        with self.locked():
            self.__dict__.pop("_paths", None)  # another process may have added some
            if record.name in self._paths:
                raise BadInput(f"the library has an instance {record.name!r} already; a changed one gets another name")
            if twin := self._of(instance.sha256):
                raise BadInput(f"the library has this instance already, as {twin.name!r}")
            (self.folder / record.family).mkdir(exist_ok=True)
            self._write(self.path(record, "instance"), instance.to_json(None))
            self._keep(record)
        return record

    def submit(self, offer: Schedule | Certificate, by: str, how: str, seconds: float = 0.0) -> list[Improved]:
        """Accept what verifies and is better: a schedule for every objective of its instance, or a certificate.

        Raises:
            BadInput: it is for no instance of the library, or an objective that does not count there.
            InvalidSchedule, InvalidCertificate: it does not verify.
        """
        record = self.of(offer.instance_sha256)
        return self.keep(record, self.instance(record), offer, origin(by, how, seconds))

    def keep(self, record: Record, instance: Instance, offer: Schedule | Certificate, origin: Origin) -> list[Improved]:
        """Verify it, keep it where it is better than the record, and return the improvements."""
        kind, values = _values(record, instance, offer)
        with self.locked():
            record = self.record(record.name)  # another process may have found something meanwhile
            return list(self._improve(record, instance, offer, kind, values, origin))

    def _improve(
        self, record: Record, instance: Instance, offer: Any, kind: Any, values: dict[str, Value], origin: Origin
    ) -> Iterator[Improved]:
        """A writer may be ended at any moment.

        The offer is written under a name with its value, the record that claims this value is replaced atomically, and
        then the offer takes its place; `_held` finds it in both.
        """
        for objective, value in values.items():
            before, written = record.objectives[objective], number(value, objective)
            assert written is not None  # for mypy: there is a value
            self._settle(record, kind, objective)
            best = before.better(kind, written, origin)
            if best is None:
                continue
            if best.gap is not None and best.gap < 0:
                held = (self.schedule if kind == "certificate" else self.certificate)(record, objective)
                assert held is not None  # for mypy: there is a gap
                why = f"{objective} of {record.name}: a schedule has {best.value}, and a certificate {best.bound}"
                raise contradiction(why, instance=instance, offer=offer, held=held)
            record = record.replace(objectives=record.objectives | {objective: best})
            self._write(self._new(record, kind, objective), offer.to_json())
            self._keep(record)
            self._settle(record, kind, objective)
            known, now = ((b.value if kind == "schedule" else b.bound) for b in (before, best))
            yield Improved(record.name, objective, kind, known, now)

    def _settle(self, record: Record, kind: str, objective: str) -> None:
        path = self.path(record, kind, objective)
        if (new := self._new(record, kind, objective)).exists():
            new.replace(path)
        for left in path.parent.glob(f".{path.name.removesuffix('json.gz')}*"):
            left.unlink()

    def _write(self, path: Path, text: str) -> None:
        write_bytes(path, gzip.compress(text.encode(), mtime=0))

    def _keep(self, record: Record) -> None:
        path = self.folder / record.family / f"{record.name}.json"
        write_text(path, record.to_json())
        self._paths[record.name] = path

    def check(self, name: str) -> list[Checked]:
        """Check all claims of a record, by the referee and the checker of certificates."""
        return list(self._checks(name))

    def _checks(self, name: str) -> Iterator[Checked]:
        try:
            record = self.record(name)
            instance = self.instance(record)
            for objective in record.objectives:
                check_objective(objective)
            if (found := sizes(instance)) != {"requests": record.requests, "calls": record.calls}:
                raise BadInput(f"the instance has {found['requests']} requests with {found['calls']} calls")
        except BadInput as error:
            yield Checked(name, "", "record", str(error))
            return
        yield Checked(name, "", "record", "")
        known = {self.path(record, "instance")}
        for objective, best in record.objectives.items():
            for kind, claimed in (("schedule", best.value), ("certificate", best.bound)):
                if claimed is not None:
                    known.add(self.path(record, kind, objective))
                    yield Checked(name, objective, kind, self._wrong(record, instance, objective, kind, claimed))
        for path in sorted(set((self.folder / record.family).glob(f"{name}.*.gz")) - known):
            yield Checked(name, "", path.name, "no objective of the record has this file")

    def _wrong(self, record: Record, instance: Instance, objective: str, kind: str, claimed: int | str) -> str:
        try:
            read = self.schedule if kind == "schedule" else self.certificate
            offer = read(record, objective)
            assert offer is not None
            _, values = _values(record, instance, offer)
        except (BadInput, InvalidSchedule, InvalidCertificate) as error:
            return str(error)
        if objective not in values:
            return f"it is of {', '.join(values)}"
        return "" if values[objective] == Fraction(claimed) else f"it proves {values[objective]}, not {claimed}"


def _values(record: Record, instance: Instance, offer: Schedule | Certificate) -> tuple[Any, dict[str, Value]]:
    if isinstance(offer, Schedule):
        trace = verify_schedule(instance, offer)
        return "schedule", {objective: objective_value(trace, objective) for objective in record.objectives}
    if offer.objective not in record.objectives:
        raise BadInput(f"{record.name} is for {', '.join(record.objectives)}, not for {offer.objective}")
    verify_certificate(instance, offer)
    return "certificate", {offer.objective: offer.value}


def table_rows(path: Path, *columns: str) -> list[dict[str, str]]:
    """Return the rows of a table beside the records that have these columns. BadInput: it is no such table."""
    try:
        rows = list(csv.DictReader(read_text(path).splitlines(), strict=True)) if path.exists() else []
        rows = [row for row in rows if None not in map(row.get, columns)]
        for row in rows:
            for name in {"seconds", "value"}.intersection(columns):
                if not NUMBER.fullmatch(row[name]):
                    raise ValueError(f"{name} is no number")
    except (csv.Error, ValueError) as error:
        raise BadInput(f"{path}: not a table of the library: {error}") from None
    return rows


def sizes(instance: Instance) -> dict[str, int]:
    """Return the numbers of requests and calls."""
    return {"requests": len(instance.requests), "calls": sum(len(request.calls) for request in instance.requests)}


def origin(by: str, how: str, seconds: float) -> Origin:
    """Return the origin of something found today."""
    with valid("who, how and in how many seconds"):
        return Origin(by=by, how=how, seconds=round(float(seconds), 1), date=datetime.now(UTC).strftime("%Y-%m-%d"))
