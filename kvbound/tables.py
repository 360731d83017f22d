"""Measures as columns and rows of text (`kvcore.metrics.summary` defines each)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kvbound.explanation import PARTS, SPENT, Difference, Explained
from kvbound.units import Units, units_of
from kvcore.account import Kept
from kvcore.instance import Instance
from kvcore.limits import BUDGETS
from kvcore.metrics import Value
from kvcore.result import Result
from kvcore.schedule import Batch

TIMES = (
    ("latency", "mean"), ("latency", "p50"), ("latency", "p95"), ("latency", "p99"), ("latency_without_calls", "mean"),
    ("ttft", "mean"), ("ttft", "p50"), ("ttft", "p99"), ("tpot", "mean"), ("tpot", "p99"),
    ("normalized_latency", "p50"), ("normalized_latency_without_calls", "p50"),
)  # fmt: skip
SHORT = {
    "latency": "latency", "latency_without_calls": "without calls", "ttft": "TTFT", "tpot": "TPOT",
    "normalized_latency": "norm.", "normalized_latency_without_calls": "norm. w/o calls",
}  # fmt: skip
RATES = ("requests_per_second", "tokens_per_second", "goodput_per_second")
OVER = "/: the value over the optimum (over the lower bound, where that is all there is)"
WAITS = {kind: f"wait: {'policy' if kind == 'nothing' else kind}" for kind in SPENT[4:]}
SENTENCES = {
    "work": "at work, in batches that last longer",
    "recompute": "computing KV again that had been dropped",
    "calls": "in calls",
    "transfers": "in batches that swap their KV",
    "memory": "waiting while the KV of others fills the memory",
    "budgets": f"waiting for batches that are full ({', '.join(limit.key for limit in BUDGETS)})",
    "batch under way": "waiting for the end of a batch that was under way when they came or returned",
    "nothing": "waiting although memory and budgets have room: the policy does not take them",
}
"""The work of requests in the time of each kind, as the end of a sentence."""
NAMED = 6  # the most requests that a sentence names
CAUSES = ("total", "calls", "queued", "transfer", "recomputation")
WASTED = {"total": "wasted", "calls": "in calls", "recomputation": "refills"}  # else as their causes
TTFT = (("ttft", "mean"), ("ttft", "p99"))
Row = Mapping[str, Any]
Rows = Sequence[Row]  # rows as JSON has them
Labelled = Sequence[tuple[str, Row]]  # summaries, each with its label


class Cells(NamedTuple):
    """The columns and rows of a table, and the columns of numbers; a cell of None is empty."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int] = ()


def standing(row: Row) -> str:
    """Return the status of a result's row, with whose claim it is."""
    return f"claimed by {row['proved_by']}" if row["status"] == "claimed" else str(row["status"])


def title(result: Result) -> str:
    """Name what is held: the optimum, whose claim it is, the best found, or a lower bound."""
    if result.value is None:
        return "lower bound"
    return {"optimal": "optimum", "claimed": result.standing}.get(result.status, "best found")


def by_clock(result: Result) -> str:
    """Say how long it took by the clock, where that is more."""
    differs = result.clock_seconds > 1.1 * result.seconds + 1
    return f" ({result.clock_seconds:.2f} s by the clock)" if differs else ""


def because(result: Result) -> str:
    """Say why no schedule is below the bound: the certificate, or the argument of a claim."""
    if result.certificate is not None and result.certified_bound == result.bound:
        return f"certificate {result.certificate.proof.kind}"
    return "" if result.horizon is None else result.horizon.why


def times_cells(rows: Labelled, units: Units, *, wide: bool = True) -> Cells:
    """Return the times, a row for each labelled summary; 80 columns unless `wide`."""
    calls = any(measured["handlings"] for _, measured in rows)
    few = (("latency", "p99"), ("latency_without_calls", "mean") if calls else ("tpot", "p99"), *TTFT)
    names = TIMES if wide else few
    columns = [f"times, {units.time}", *(f"{SHORT[measure]} {part}" for measure, part in names)]
    cells = [[label, *(spread(measured[name], part, units) for name, part in names)] for label, measured in rows]
    return Cells(columns, cells, range(1, len(columns)))


def work_cells(rows: Labelled, units: Units, *, wide: bool = True) -> Cells:
    """Return throughput, waste and moves, likewise."""
    cells = [{"work": label} | _work(measured, rate_unit(units)) for label, measured in rows]
    columns = columns_of = list(cells[0]) if cells else ["work"]
    if not wide:
        columns = ["work", f"tokens/{rate_unit(units)}", "evictions", "recomputed", "wasted"]
        met = [name for name in columns_of if name.startswith("SLO met")]
        columns += [name for name in (*met, "unfinished") if any(row[name] for row in cells)]
    numbers = [k for k, name in enumerate(columns) if name not in ("work", "handling of calls")]
    return Cells(columns, [[row[name] for name in columns] for row in cells], numbers)


def spread(seconds: Mapping[str, float] | None, part: str, units: Units) -> str | None:
    """Return a part of a spread, such as its mean, from seconds in the unit of time (None: not known)."""
    found = (seconds or {}).get(part)
    return None if found is None else f"{found / float(units.seconds):.4g}"


def rate_unit(units: Units) -> str:
    """Return the unit below rates: a second, or a tick where that is the unit."""
    return "tick" if units.time == "ticks" else "s"


def _work(measured: Row, second: str) -> dict[str, object]:
    waste, shares = measured["waste_share"] or {}, "tokens_reused" in measured
    rates = zip(("requests", "tokens", "good"), RATES, strict=True)
    return {
        "unfinished": measured["unfinished"],
        **{f"{what}/{second}": f"{measured[name]:.4g}" for what, name in rates},
        "SLO met": percent(measured["slo_attainment"]),
        **class_cells(measured),
        "batches": f"{measured['batches']:,}",
        "evictions": f"{measured['evictions']:,}",
        "recomputed": percent(measured["recomputed_share"]),
        **({"reused": f"{measured['tokens_reused']:,}"} if shares else {}),
        "swapped out": f"{measured['tokens_swapped_out']:,}",
        **{WASTED.get(cause, cause): percent(waste.get(cause)) for cause in (*CAUSES, *["retained"] * shares)},
        "handling of calls": ", ".join(f"{count:,} {how}" for how, count in measured["handlings"].items()) or "-",
    }


def class_cells(measured: Row) -> dict[str, str | None]:
    """Return the share of each SLO class that is on time."""
    return {f"SLO met, {name}": percent(share) for name, share in measured.get("slo_attainment_by_class", {}).items()}


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds."""
    return f"{1e3 * seconds:.4g}"


def percent(share: float | None, digits: int = 1) -> str | None:
    """Return a share in percent (None: not known)."""
    return None if share is None else f"{100 * share:.{digits}f} %"


def without_calls(value: int | str | None, instance: Instance, objective: str) -> list[str | None]:
    """Return the cell of the mean latency without calls; empty without calls."""
    calls = sum(request.call_time for request in instance.requests)
    if not calls or objective != "total-flow-time":
        return []
    return [None if value is None else units_of(instance).text((Fraction(value) - calls) / len(instance.requests))]


def without_calls_column(instance: Instance, objective: str) -> list[str]:
    """Return the heading of that cell."""
    return [f"mean without calls, {units_of(instance).time}"] * len(without_calls(None, instance, objective))


def value_columns(units: Units, objective: str, *names: str) -> list[str]:
    """Return the headings of an objective's columns."""
    return [f"{name}, {units.of(objective)}" for name in names]


def explained_cells(rows: Sequence[Explained], units: Units) -> list[Cells]:
    """Return the parts of schedules' time, and of their requests', without empty ones."""
    parts = [part for part in PARTS if any(row.found.parts[part] for row in rows)]
    spent = [kind for kind in SPENT if any(row.found.spent[kind] for row in rows)]
    calls = any(row.found.spent["calls"] for row in rows) and any(row.ratio is not None for row in rows)
    until = [f"until the last completion, {units.time}", "all", *parts, "batches, bound by"]
    requests = [f"of all requests, {units.time}", "all", *(WAITS.get(kind, kind) for kind in spent)]
    requests += ["over the bound, without calls"] * calls
    times, waits = [], []
    for row in rows:
        bound = ", ".join(f"{count:,} {part}" for part, count in row.found.batches.items() if count)
        times.append([row.label, *_whole(row.found.parts, parts, units), bound])
        ratio = None if row.ratio is None else f"{float(row.ratio):.4g}"
        waits.append([row.label, *_whole(row.found.spent, spent, units), *[ratio] * calls])
    whole = Cells(until, times, range(1, len(until))), Cells(requests, waits, range(1, len(requests)))
    return [*whole, *_shared_cells(rows, units)]


def _shared_cells(rows: Sequence[Explained], units: Units) -> list[Cells]:
    shared = [(row.label, row.found.shared) for row in rows if row.found.shared is not None]
    columns = ["contents", f"{units.kv} reused", f"work saved, {units.time}", "blocks forgotten"]
    saved = [(label, f"{s.reused:,}", units.text(s.saved), f"{s.forgotten:,}") for label, s in shared]
    titles = ["contents in calls", "calls", "handling", "keep or forget", "held", "kept", "reused by itself",
              "by others", f"work saved, {units.time}", f"retained, {units.kv} x {units.time}"]  # fmt: skip
    groups: dict[tuple[str, str, str], list[Kept]] = {}
    for label, sharing in shared:
        for kept in sharing.calls:
            groups.setdefault((label, kept.call.handling, kept.choice), []).append(kept)
    calls = []
    for (label, handling, choice), some in groups.items():
        own = sum(kept.reused.get(kept.request, 0) for kept in some)
        tokens = sum(kept.held for kept in some), sum(kept.kept for kept in some), own
        others = sum(sum(kept.reused.values()) for kept in some) - own
        names = few([f"{kept.request}/{kept.call.segment + 1}" for kept in some])
        times = (units.text(sum(getattr(kept, name) for kept in some)) for name in ("saved", "retained"))
        calls.append((label, names, handling, choice, *(f"{n:,}" for n in (*tokens, others)), *times))
    cells = Cells(columns, saved, (1, 2, 3)), Cells(titles, calls, range(4, len(titles)))
    return [each for each in cells if each.rows]


def _whole(parts: Mapping[str, Value], names: Sequence[str], units: Units) -> list[str]:
    return [units.text(sum(parts.values())), *(units.text(parts[name]) for name in names)]


def differences(rows: Sequence[Explained], units: Units) -> list[str]:
    """Return how each schedule's parts differ from the reference's, and where they part first."""
    return [line for row in rows if row.difference for line in _differences(row, row.difference, units)]


def _differences(row: Explained, found: Difference, units: Units) -> Iterator[str]:
    spent = _change(row.found.spent, row.other.spent, units)
    parts = _change(row.found.parts, row.other.parts, units)
    yield f"{row.label} beside {row.beside}: all requests {spent}; the last completion {parts}"
    yield (
        f"  they part in batch {found.batch:,}: {row.label} {_batch(found.ours, found.theirs, units)}; "
        f"{row.beside} {_batch(found.theirs, found.ours, units)}"
    )


def causes(rows: Sequence[Explained], units: Units) -> list[str]:
    """Return up to three sentences on why the longest schedule takes longer than the reference."""
    if not rows:
        return []
    worst = max(rows, key=lambda row: sum(row.found.spent.values()))
    more = {kind: ticks - worst.other.spent[kind] for kind, ticks in worst.found.spent.items()}
    largest = sorted((kind for kind in more if more[kind] > 0), key=lambda kind: -more[kind])[:3]
    if sum(more.values()) <= 0:
        return []
    lines = [
        f"Why {worst.label} takes {units.spelled(sum(more.values()))} more than {worst.beside}, all requests together:"
    ]
    for kind in largest:
        each = {id: times[kind] - worst.other.requests[id][kind] for id, times in worst.found.requests.items()}
        most = max(each, key=lambda id: each[id])
        of = "" if len(each) == 1 else f"; most of all {most}, {units.spelled(each[most])}"
        lines.append(f"  {units.spelled(more[kind])} more {SENTENCES[kind]}{of}.")
    return lines


def _change(ours: Mapping[str, Value], theirs: Mapping[str, Value], units: Units) -> str:
    changes = {part: Fraction(ours[part]) - Fraction(theirs[part]) for part in ours}
    largest = sorted(changes, key=lambda part: -abs(changes[part]))
    shown = [part for part in largest if round(changes[part] * units.tick, 6)]
    terms = [f"{_signed(changes[part], units)} {WAITS.get(part, part)}" for part in shown]
    whole = f"{_signed(sum(changes.values(), Fraction(0)), units)} {units.time}"
    return f"{whole} = {', '.join(terms)}" if terms else "as long"


def _signed(ticks: Fraction, units: Units) -> str:
    return ("+" if ticks > 0 else "-" if ticks < 0 else "") + units.text(abs(ticks))


VERBS = (("works on", "work"), ("drops", "drop"), ("swaps out", "swap_out"), ("swaps in", "swap_in"),
         ("forgets of", "forget"), ("reuses for", "reuse"))  # fmt: skip


def _batch(batch: Batch | None, other: Batch | None, units: Units) -> str:
    if batch is None:
        return "has ended"
    does = []
    for verb, name in VERBS:
        mine, theirs = getattr(batch, name), {} if other is None else getattr(other, name)
        listed = [f"{id} ({tokens:,})" for id, tokens in mine.items() if theirs.get(id) != tokens]
        same = len(mine) - len(listed)
        alike = [f"{same} that both work on"] if same and name == "work" else [f"{same} that both do"] if same else []
        does += [f"{verb} {', '.join(_few(listed) + alike)}"] if mine else []
    return f"{', '.join(does)}, at {units.spelled(batch.start)}"


def calls_cells(best: dict[str, Any], rows: Sequence[dict[str, Any]], units: Units, objective: str) -> Cells:
    """Return the best schedule's handling of each call, and other handlings."""
    columns = ["schedule", *value_columns(units, objective, "value"), "more", "calls"]
    cells = [[best["label"], units.value(best["value"], objective), None, _calls(best["handling"])]]
    for row in sorted((row for row in rows if row["value"] is not None), key=lambda row: Fraction(row["value"])):
        more = percent(float(Fraction(row["value"]) / Fraction(best["value"]) - 1)) if Fraction(best["value"]) else None
        other = {call: f"{how} for {best['handling'][call]}" for call, how in row["handling"].items()
                 if how != best["handling"][call]}  # fmt: skip
        cells.append([row["label"], units.value(row["value"], objective), more, _calls(other) or "the same"])
    return Cells(columns, cells, range(1, len(columns) - 1))


def _calls(handling: Mapping[str, str]) -> str:
    found: dict[str, list[str]] = {}
    for call, how in handling.items():
        found.setdefault(how, []).append(call)
    return "; ".join(f"{how}: {few(calls)}" for how, calls in found.items())


def few(names: Sequence[str]) -> str:
    """Name the first."""
    return ", ".join(_few([*names]))


def _few(names: list[str]) -> list[str]:
    return names[:NAMED] + ([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])


def why_not(row: dict[str, Any]) -> str | None:
    """Say why a policy did not run."""
    if "error" not in row:
        return None
    return str(row["error"]).removeprefix(f"policy {row['policy']} ").replace(f" on {row['instance']}:", ":")


def handling_text(row: dict[str, Any]) -> str:
    """Count a row's handlings."""
    counts = Counter(row["handling"].values())
    return ", ".join(f"{counts[how]} {how}" for how in ("preserve", "discard", "swap", "mixed") if counts[how]) or "-"


def decimal(text: str | None) -> str | None:
    """Write a fraction for people."""
    return None if text is None else f"{float(Fraction(text)):.4g}"


def between(result: Result) -> str:
    """Say what is known of the optimum."""
    at_most = f"at most {in_words(result, result.value)}"
    if result.bound is None:
        return f"the optimum is {at_most}; no lower bound was proved"
    return f"the optimum is at least {in_words(result, result.bound)} and {at_most}"


def in_words(result: Result, value: Value | str | None) -> str:
    """Write a value of the objective of a result with its unit."""
    return "nothing" if value is None else units_of(result.instance).named(value, result.objective)
