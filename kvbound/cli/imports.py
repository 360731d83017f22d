"""`kvbound import`: real traces as instances, fine or coarsened with a proved direction."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from costmodels.files import as_model, cost_file, write_cost
from costmodels.fitted import fit
from costmodels.vidur import read_vidur
from kvbound.cli.common import JsonOption, emit
from kvbound.cli.costs import show_cost
from kvbound.cli.handling import CallHandlingOption, with_handling
from kvbound.cli.setting import Setting, takes_setting
from kvcore.coarsen import coarsen
from kvcore.errors import BadInput
from kvcore.files import write_text
from kvcore.instance import Instance
from kvcore.parameters import optional_fraction
from workloads.importers import contended_machine, read_agent_traces, read_azure, read_infercept
from workloads.importers.agent_traces import MACHINE as AGENTS_MACHINE
from workloads.importers.azure import MACHINE as AZURE_MACHINE

app = typer.Typer(
    help="Turn a public trace into an instance file, or a profile into a cost file.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="the CSV file; docs/data.md describes it")]
OutOption = Annotated[
    str, typer.Option("--out", metavar="I.json", help="the instance file to write (-: standard output)")
]
TakeOption = Annotated[int | None, typer.Option(min=1, metavar="N", help="so many requests (default: all)")]
BlockOption = Annotated[int | None, typer.Option(min=1, metavar="TOKENS", help="coarsen to blocks of so many tokens")]
SlotOption = Annotated[int | None, typer.Option(min=1, metavar="TICKS", help="coarsen to slots of so many ticks")]
RoundOption = Annotated[str, typer.Option("--round", metavar="relax|restrict", help="which way coarsening rounds")]
SeedOption = Annotated[int, typer.Option(min=0, metavar="N", help="of all that is drawn")]


@app.command("infercept")
@takes_setting
def infercept(
    file: FileArgument,
    out: OutOption,
    setting: Setting,
    take: TakeOption = None,
    seed: SeedOption = 0,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="only requests of one augmentation")] = None,
    rate: Annotated[str | None, typer.Option(metavar="R", help="Poisson arrivals a second (default: all at 0)")] = None,
    minutes: Annotated[
        str | None, typer.Option(metavar="T", help="draw with replacement, for so long (with --rate)")
    ] = None,
    handling: CallHandlingOption = None,
    block: BlockOption = None,
    slot: SlotOption = None,
    round_: RoundOption = "restrict",
    json: JsonOption = None,
) -> None:
    """Read the InferCept mixture: augmented requests with their calls."""
    instance = read_infercept(
        file, take=take, seed=seed, augmentation=kind, rate=optional_fraction("--rate", rate),
        minutes=optional_fraction("--minutes", minutes), tick=setting.tick, cost=setting.cost,
        machine=lambda requests: setting.machine(contended_machine(requests)),
    )  # fmt: skip
    if round_ == "relax":  # a bound is one for the handlings of the fine instance
        instance = _coarsen(with_handling(instance, handling), block, slot, round_)
    else:  # the choice of least waste then sees the coarse machine
        instance = with_handling(_coarsen(instance, block, slot, round_), handling)
    _finish(instance, out, json)


@app.command("azure")
@takes_setting
def azure(
    file: FileArgument,
    out: OutOption,
    setting: Setting,
    take: TakeOption = None,
    block: BlockOption = None,
    slot: SlotOption = None,
    round_: RoundOption = "restrict",
    json: JsonOption = None,
) -> None:
    """Read an Azure LLM inference trace: arrivals, prompt and output lengths; `--take` takes the first rows."""
    machine = setting.machine(AZURE_MACHINE)
    instance = read_azure(file, take=take, tick=setting.tick, cost=setting.cost, machine=machine)
    _finish(_coarsen(instance, block, slot, round_), out, json)


@app.command("agent-traces")
@takes_setting
def agent_traces(
    file: FileArgument,
    out: OutOption,
    setting: Setting,
    take: TakeOption = None,
    seed: SeedOption = 0,
    drop_too_long: Annotated[
        bool, typer.Option("--drop-too-long", help="leave out requests that exceed the memory, instead of refusing")
    ] = False,
    handling: CallHandlingOption = None,
    json: JsonOption = None,
) -> None:
    """Read sessions of coding agents: each a request with a call between its rows. `--memory` is required."""
    if "memory" not in setting.given:
        raise BadInput(
            "name the memory that you use, in tokens (--memory): contexts of coding agents reach 880,000 tokens"
        )
    instance = read_agent_traces(
        file, machine=setting.machine(AGENTS_MACHINE), take=take, seed=seed, drop_too_long=drop_too_long,
        tick=setting.tick, cost=setting.cost,
    )  # fmt: skip
    _finish(with_handling(instance, handling), out, json)


@app.command("vidur")
def vidur(
    file: FileArgument,
    out: Annotated[str, typer.Option("--out", metavar="COST.json", help="the cost file to write")],
    devices: Annotated[int, typer.Option("--tp", min=1, metavar="N", help="devices that share a layer")] = 1,
    layers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="layers (default: those of the model of that shape)")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Fit a cost to Vidur's profile of a layer: time by tokens, without attention, as a cost file."""
    profile = read_vidur(file, devices)
    if layers is None and profile.model is None:
        raise BadInput(f"{file}: no known model has layers of this shape {profile.shape}; name their number (--layers)")
    count = layers or (profile.model.layers if profile.model else 0)
    observations = profile.observations(count)
    made = cost_file(
        fit(observations, names=("busy", "tokens"), seed=seed), name=f"{Path(file).name}, {count} layers, no attention",
        tick=Fraction(1, 10**9), model=None if profile.model is None else profile.model.name, observations=observations,
    )  # fmt: skip
    write_cost(made, out)
    if out != "-":
        show_cost(out, as_model(made, str(file)), made.fit, json)


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
