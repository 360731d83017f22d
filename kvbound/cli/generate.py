"""`kvbound generate`."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import chain, islice
from typing import Annotated, Any

import typer
from rich.console import Console

from costmodels import GPT_J_6B
from kvbound.cli.common import InstanceOutOption, JsonOption, emit, option
from kvbound.cli.instances import show_head
from kvbound.cli.progress import LiveLine
from kvbound.cli.setting import (
    CallHandlingOption,
    ClosedLoopOption,
    CostSetting,
    ThinkOption,
    takes_setting,
    ticks_of,
    with_handling,
)
from kvcore.errors import BadInput
from kvcore.files import check_writable
from kvcore.instance import Instance, Request
from kvcore.parameters import fraction, optional_fraction
from kvcore.stream import write_instance
from workloads.closed_loop import closed_loop
from workloads.generators import KINDS, MOST, Workload, instance_of
from workloads.own import what_is_shared

CHUNK = 1000  # requests that are held at a time


@takes_setting
def generate(
    kind: Annotated[str, typer.Argument(metavar="|".join(KINDS), help="of requests; docs/data.md describes them")],
    out: InstanceOutOption,
    setting: CostSetting,
    n: Annotated[int | None, option("N", "so many requests", "--n", min=1)] = None,
    rate: Annotated[str | None, option("R", "arrivals a second (default: all at 0)")] = None,
    cv: Annotated[str | None, option("C", "Gamma gaps with this variation (default: Poisson)")] = None,
    minutes: Annotated[str | None, option("T", "arrivals for so long (with --rate)")] = None,
    seed: Annotated[int, option("N", "of all that is drawn", min=0)] = 0,
    share: Annotated[str | None, option("S", "mixed: share without calls (1/2)")] = None,
    prompt: Annotated[int | None, option("TOKENS", "fixed: of each request (1024)", min=1)] = None,
    output: Annotated[int | None, option("TOKENS", "fixed: of each request (1024)", min=1)] = None,
    mix: Annotated[str | None, option("A+B", "infermax-mix: its two groups (siso+lilo)")] = None,
    systems: Annotated[int | None, option("N", "prefixes: system prompts (4)", min=1)] = None,
    examples: Annotated[int | None, option("N", "prefixes: examples after each (4)", min=1)] = None,
    turns: Annotated[int | None, option("N", "prefixes: mean of a conversation (4)", min=1)] = None,
    slo_ttft: Annotated[str | None, option("S", "every request: seconds to its first token")] = None,
    slo_normalized: Annotated[str | None, option("S", "every request: seconds of latency a token generated")] = None,
    closed: ClosedLoopOption = None,
    think: ThinkOption = "0",
    handling: CallHandlingOption = None,
    json: JsonOption = None,
) -> None:
    """Draw a workload as the papers describe theirs."""
    check_writable(out, json)
    parameters: dict[str, Any] = {"prompt": prompt, "output": output, "mix": mix}
    parameters |= {"systems": systems, "examples": examples, "turns": turns}
    parameters["share"] = None if share is None else fraction("--share", share, zero=True)
    workload = Workload(
        kind, n=n, seed=seed, tick=setting.tick,
        rate=optional_fraction("--rate", rate), cv=optional_fraction("--cv", cv),
        minutes=optional_fraction("--minutes", minutes), slo_ttft=optional_fraction("--slo-ttft", slo_ttft),
        slo_normalized=optional_fraction("--slo-normalized", slo_normalized),
        parameters={name: value for name, value in parameters.items() if value is not None},
    )  # fmt: skip
    machine, requests = setting.machine(GPT_J_6B), workload.requests()
    if closed is not None:
        if workload.rate is not None:
            raise BadInput("--closed-loop: users ask when their last answer has come; leave out --rate")
        requests = closed_loop(requests, closed, ticks_of("--think", think, setting.tick))

    def instance(requests: tuple[Request, ...]) -> Instance:
        made = with_handling(instance_of(workload, machine, setting.cost, requests), handling)
        return made if closed is None else made.replace(name=f"{made.name},closed-loop={closed},think={think}")

    write_requests(out, requests, instance, json, MOST if kind == "prefixes" else CHUNK)


def write_requests(
    out: str,
    requests: Iterable[Request],
    instance: Callable[[tuple[Request, ...]], Instance],
    json: str | None = None,
    chunk: int = CHUNK,
) -> None:
    """Write requests as they come, in one file; `instance` makes one of `chunk` at a time."""
    left = iter(requests)
    chunks = map(instance, iter(lambda: tuple(islice(left, chunk)), ()))
    first = next(chunks)

    def show(console: Console) -> None:
        show_head(first, sha256, sizes, console)
        if first.contents:
            console.print(what_is_shared(first))

    with LiveLine(f"writing {out}"):
        sha256, sizes = write_instance(
            out, first, (request for part in chain([first], chunks) for request in part.requests)
        )
    if out != "-":
        payload = {"instance": first.name, "instance_sha256": sha256, "sizes": asdict(sizes)}
        emit(json, payload, show)
