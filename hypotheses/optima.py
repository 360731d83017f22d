"""Optima of small instances, certified or claimed, and remembered."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bounds.clock import now
from kvcore.certificates import InvalidCertificate, read_certificate
from kvcore.files import read_schedule, write_text
from kvcore.instance import Instance
from kvcore.referee import InvalidSchedule
from kvcore.result import Horizon, Result
from solvers.exact import exact
from solvers.source import code_version

SOLVE_SECONDS = 150.0  # for one optimum
PROVED = ("optimal", "claimed")
REMEMBERED = "an earlier run"
_FOUND: dict[tuple[str, str], Result] = {}  # optima that were found, by the hash of the instance and the objective


def optimum(instance: Instance, objective: str, deadline: float) -> Result | None:
    """Return an optimum, certified or claimed; None if the limits strike.

    From the exact searches. The folder KVBOUND_OPTIMA, if named, keeps schedules and certificates for later runs;
    referee and checker judge them.
    """
    place = instance.sha256, objective
    if place not in _FOUND:
        found = _remembered(instance, objective) or _solved(instance, objective, deadline)
        if found is None:
            return None
        _FOUND[place] = found
    return _FOUND[place]


def _solved(instance: Instance, objective: str, deadline: float) -> Result | None:
    if (seconds := deadline - now()) <= 0:
        return None
    found = exact(instance, objective, time_limit=min(SOLVE_SECONDS, seconds))
    if found.status not in PROVED:
        return None
    for kind, thing in (("certificate", found.certificate), ("schedule", found.schedule)):  # which is read first
        if thing is not None and (file := _file(instance, objective, kind)) is not None:
            write_text(file, thing.to_json())
    return found


def _remembered(instance: Instance, objective: str) -> Result | None:
    """Without a certificate that meets it, it is a claim."""
    schedule, certificate = (_file(instance, objective, kind) for kind in ("schedule", "certificate"))
    if schedule is None or certificate is None or not schedule.exists():
        return None
    proof = read_certificate(certificate) if certificate.exists() else None
    with suppress(InvalidCertificate, InvalidSchedule):
        held = Result(instance, objective, read_schedule(schedule), certificate=proof)
        certified = held.value == held.certified_bound
        return replace(
            held, bound=held.value, bound_kind="certificate" if certified else "search", found_by=REMEMBERED,
            proved_by=REMEMBERED, horizon=Horizon(0, True, "this very code has proved it"),
        )  # fmt: skip
    return None


def _file(instance: Instance, objective: str, kind: str) -> Path | None:
    folder = os.environ.get("KVBOUND_OPTIMA")
    return Path(folder) / f"{instance.sha256}-{objective}-{code_version()}.{kind}.json" if folder else None
