"""`kvbound search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED, EXIT_UNDECIDED, common, only_writes
from kvbound.cli.common import OUT, POLICY, as_file, emit, option, table
from kvbound.cli.progress import LiveLine
from kvbound.instance_text import SWITCHES, request_cells
from kvcore.errors import BadInput, unknown
from kvcore.files import check_writable
from kvcore.instance import LIMIT, Instance, Machine

if TYPE_CHECKING:
    from hypotheses.search import Claim, SearchRecord


def search(
    policy: Annotated[str, option("NAME", "`kvbound policies` lists them; or FILE.py", *POLICY)],
    objective: common.ObjectiveOption = "total-flow-time",
    n: Annotated[int, option("N", "requests at most", "--n", min=1, max=8)] = 3,
    memory: Annotated[int, option("TOKENS", "of KV, at most", min=1, max=LIMIT)] = 8,
    prompt: Annotated[int, option("TOKENS", "of a request, at most", min=1, max=LIMIT)] = 3,
    decode: Annotated[int, option("TOKENS", "of a segment, at most", min=1, max=LIMIT)] = 4,
    calls: Annotated[int, option("N", "of a request, at most", min=0, max=1000)] = 0,
    duration: Annotated[int, option("TICKS", "of a call, at most", min=0, max=LIMIT)] = 4,
    returns: Annotated[int, option("TOKENS", "of a call, at most", min=0, max=LIMIT)] = 0,
    arrival: Annotated[int, option("TICKS", "the last, at most; the first is at 0", min=0, max=LIMIT)] = 2,
    handling: Annotated[
        str, option("free|preserve|discard|swap|any", "of the calls; any: each in its own way")
    ] = "free",
    switches: Annotated[str, option("NAME[,NAME..]|none", "of the machine that are on")] = "hybrid,chunked,evict,pause",
    host_memory: Annotated[int, option("TOKENS", "of swapped KV that the host holds", min=0, max=LIMIT)] = 0,
    batch_tokens: Annotated[int | None, option("TOKENS", "in a batch, at most", min=1, max=LIMIT)] = None,
    batch_requests: Annotated[int | None, option("N", "in a batch, at most", min=1, max=LIMIT)] = None,
    steps: Annotated[int, option("N", "instances tried where not all are", min=1)] = 2000,
    time_limit: common.TimeLimitOption = None,
    work: common.WorkOption = None,
    seed: Annotated[int, option("N", "of the annealing", min=0)] = 0,
    out: Annotated[str | None, option("I.json", "write the worst instance there", *OUT)] = None,
    json: common.JsonOption = None,
) -> int:
    """Look for the instance on which a policy is farthest from optimal."""
    from hypotheses.search import SearchSpace, search

    check_writable(out, json)
    machine = Machine(
        memory=None, host_memory=host_memory, batch_tokens=batch_tokens, batch_requests=batch_requests
    ).replace(**switches_of(switches))  # fmt: skip
    family = SearchSpace(n, memory, prompt, decode, calls, duration, returns, arrival, handling, machine)
    with LiveLine(f"searching against {policy}") as line:
        seen = search(
            family, policy, objective, seconds=time_limit, work=work, steps=steps, seed=seed,
            progress=lambda seen, _: line.show(
                f"searching against {policy}: {'none yet' if seen.claim is None else in_words(seen.claim)}, "
                f"{seen.looked} instances (Ctrl-C keeps the worst)"
            ),
        )  # fmt: skip
    only_writes()
    return _report(family.to_json(), seen, out, json)


def switches_of(text: str) -> dict[str, bool]:
    """Return the machine's switches that are on."""
    names = set() if text == "none" else {name.strip() for name in text.split(",")}
    if others := names - set(SWITCHES):
        raise unknown("switch", min(others), SWITCHES, "none")
    return {name: name in names for name in SWITCHES}


def in_words(claim: Claim) -> str:
    """Say the ratio, or its range."""
    if claim.decided:
        return f"ratio {claim.at_least} = {float(claim.at_least):.4g}"
    most = "" if claim.at_most is None else f", at most {claim.at_most}"
    return f"ratio at least {claim.at_least} = {float(claim.at_least):.4g}{most}"


def _report(family: dict[str, Any], seen: SearchRecord, out: str | None, json: str | None) -> int:
    interrupted = seen.stopped == "interrupted"
    if seen.claim is None and not interrupted:
        raise seen.failure or BadInput("the family has no instance in which every request fits; enlarge --memory")
    payload: dict[str, Any] = {"family": family, **seen.to_json()}
    instance = None if seen.claim is None else named(seen.claim)
    if instance is not None:
        payload |= {"instance_sha256": instance.sha256, "instance": instance.model_dump(mode="json")}
    emit(json, payload, lambda console: _show(seen, console), (out, as_file(instance)))
    if interrupted:
        return EXIT_INTERRUPTED
    return 0 if seen.claim is not None and seen.claim.decided else EXIT_UNDECIDED


def named(claim: Claim) -> Instance:
    """Return a claim's instance, named after the policy."""
    return claim.instance.replace(name=f"worst of {claim.policy}, {claim.objective}")


def _show(seen: SearchRecord, console: Console) -> None:
    if seen.claim is not None:
        claim = seen.claim
        by = "proved" if claim.proved else "claimed by the search"
        optimum = f"{claim.best}, {by}" if claim.decided else f"from {claim.bound} to {claim.best}"
        console.print(f"{in_words(claim)}: {claim.policy} {claim.value}, optimum {optimum} ({claim.objective})")
        console.print(f"memory {claim.instance.machine.memory}")
        console.print(table(*request_cells(claim.instance, len(claim.instance.requests))[0]))
    whole = ", ".join(map(str, seen.complete))
    console.print(
        f"{seen.looked} instances"
        + (f"; none of the family with {whole} requests is worse, each optimum certified" * bool(whole))
    )
    if seen.undecided:
        console.print(f"note: {seen.undecided} optima not proved within the limits of a search")
    if seen.failed:
        console.print(f"note: no schedule on {seen.failed} instances, of which the first: {seen.failure}")
    if seen.stopped != "ended":
        console.print(f"stopped: {seen.stopped}")
