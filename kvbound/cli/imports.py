"""`kvbound import`: real traces as instances, fine or coarsened with a proved direction."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, cast

import typer

from kvbound.cli.common import JsonOption, emit
from kvbound.coarsen import coarsen
from kvbound.errors import BadInput
from kvbound.files import write_text
from kvbound.importers import read_azure, read_infercept
from kvbound.instance import Handling, Instance, Machine

app = typer.Typer(help="Turn a public trace into an instance file.", no_args_is_help=True, rich_markup_mode=None)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="the CSV file; docs/data.md describes it")]
OutOption = Annotated[
    str, typer.Option("--out", metavar="I.json", help="the instance file to write (-: standard output)")
]
TakeOption = Annotated[int | None, typer.Option(min=1, metavar="N", help="so many requests (default: all)")]
BlockOption = Annotated[int | None, typer.Option(min=1, metavar="TOKENS", help="coarsen to blocks of so many tokens")]
SlotOption = Annotated[int | None, typer.Option(min=1, metavar="TICKS", help="coarsen to slots of so many ticks")]
RoundOption = Annotated[str, typer.Option("--round", metavar="relax|restrict", help="which way coarsening rounds")]
TickOption = Annotated[str, typer.Option(metavar="SECONDS", help="length of a tick, a decode step, as a fraction")]
MemoryOption = Annotated[int | None, typer.Option(min=1, metavar="TOKENS", help="KV memory of the device")]
HostOption = Annotated[int | None, typer.Option(min=0, metavar="TOKENS", help="swapped KV that the host holds")]
BatchOption = Annotated[int | None, typer.Option(min=1, metavar="TOKENS", help="the most tokens in a batch")]
HANDLINGS = ("min-waste", "preserve", "discard", "swap", "free")


@app.command("infercept")
def infercept(
    file: FileArgument,
    out: OutOption,
    take: TakeOption = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="of the draw of requests and arrivals")] = 0,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="only requests of one augmentation")] = None,
    rate: Annotated[str | None, typer.Option(metavar="R", help="Poisson arrivals a second (default: all at 0)")] = None,
    handling: Annotated[str, typer.Option(metavar="|".join(HANDLINGS), help="of every call")] = "min-waste",
    block: BlockOption = None,
    slot: SlotOption = None,
    round_: RoundOption = "restrict",
    tick: TickOption = "1/40",
    memory: MemoryOption = None,
    host_memory: HostOption = None,
    batch_tokens: BatchOption = None,
    json: JsonOption = None,
) -> None:
    """Read the InferCept mixture: augmented requests with their calls."""
    instance = read_infercept(
        file, take=take, seed=seed, augmentation=kind, rate=None if rate is None else fraction("--rate", rate),
        tick=fraction("--tick", tick),
    )  # fmt: skip
    instance = _with_machine(instance, memory, host_memory, batch_tokens)
    if round_ == "relax":  # a bound is one for the handlings of the fine instance
        instance = _coarsen(with_handling(instance, handling), block, slot, round_)
    else:  # the choice of least waste then sees the coarse machine
        instance = with_handling(_coarsen(instance, block, slot, round_), handling)
    _finish(instance, out, json)


@app.command("azure")
def azure(
    file: FileArgument,
    out: OutOption,
    take: TakeOption = None,
    block: BlockOption = None,
    slot: SlotOption = None,
    round_: RoundOption = "restrict",
    tick: TickOption = "1/40",
    memory: MemoryOption = None,
    host_memory: HostOption = None,
    batch_tokens: BatchOption = None,
    json: JsonOption = None,
) -> None:
    """Read an Azure LLM inference trace: arrivals, prompt and output lengths; `--take` takes the first rows."""
    instance = read_azure(file, take=take, tick=fraction("--tick", tick))
    instance = _with_machine(instance, memory, host_memory, batch_tokens)
    _finish(_coarsen(instance, block, slot, round_), out, json)


def with_handling(instance: Instance, handling: str) -> Instance:
    """Return the instance with one handling for all calls, or with InferCept's choice of least waste for each."""
    from heuristics import with_min_waste_handlings

    if handling not in HANDLINGS:
        raise BadInput(f"--handling is one of {', '.join(HANDLINGS)}, not {handling!r}")
    if handling in ("min-waste", "free"):
        return with_min_waste_handlings(instance) if handling == "min-waste" else instance
    return instance.with_calls_handled(cast(Handling, handling))


def fraction(option: str, text: str) -> Fraction:
    """Read a positive number given as a whole number, a decimal or a fraction."""
    try:
        value = Fraction(text) if len(text) <= 40 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise BadInput(f"{option} {text}: write a number above 0, such as 2, 0.5 or 1/40")
    return value


def _with_machine(instance: Instance, memory: int | None, host: int | None, batch_tokens: int | None) -> Instance:
    given = {"memory": memory, "host_memory": host, "batch_tokens": batch_tokens}
    changes = {name: value for name, value in given.items() if value is not None}
    return instance.replace(machine=Machine(**{**instance.machine.model_dump(), **changes})) if changes else instance


def _coarsen(instance: Instance, block: int | None, slot: int | None, direction: str) -> Instance:
    """Coarsen where a block or a slot is given; the one that is not given is as large as the other."""
    if direction not in ("relax", "restrict"):
        raise BadInput(f"--round is relax or restrict, not {direction!r}")
    size = block or slot
    if size is None:
        return instance
    return coarsen(instance, block_tokens=block or size, slot_ticks=slot or size, direction=direction)


def _finish(instance: Instance, out: str, json: str | None) -> None:
    from kvbound.cli.instances import facts, show_instance

    write_text(out, instance.to_json())
    if out != "-":
        emit(json, facts(instance), lambda console: show_instance(instance, console))
