"""`kvbound import`."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from costmodels.cost_files import as_model, cost_file, write_cost
from costmodels.fitted import fit
from costmodels.vidur import read_vidur
from kvbound.cli.app import STYLE
from kvbound.cli.common import OUT, InstanceOutOption, JsonOption, emit, option
from kvbound.cli.config import ConfigOption
from kvbound.cli.costs import show_cost
from kvbound.cli.generate import write_requests
from kvbound.cli.import_run import run
from kvbound.cli.instances import facts, show_instance
from kvbound.cli.progress import LiveLine
from kvbound.cli.setting import (
    NO_COST,
    CallHandlingOption,
    ClosedLoopOption,
    CostSetting,
    ThinkOption,
    gathers,
    setting_of,
    ticks_of,
    with_handling,
)
from kvbound.cli.setting import OPTIONS as SETTING_OPTIONS
from kvbound.distortion import distortion
from kvcore.csv_table import MachineFor, build_instance
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.instance import Instance, Machine, Request
from kvcore.parameters import fraction, optional_fraction
from workloads.closed_loop import closed_loop
from workloads.coarsen import coarsen
from workloads.importers import Imported, Selection, contended_machine, infercept_requests, read_map, read_requests
from workloads.importers.agent_traces import LAYOUT as AGENTS_LAYOUT
from workloads.importers.agent_traces import MACHINE as AGENTS_MACHINE
from workloads.importers.agent_traces import SHARING as AGENTS_SHARING
from workloads.importers.azure import LAYOUT as AZURE
from workloads.importers.azure import MACHINE as TRACE_MACHINE
from workloads.importers.selection import KEYS, TraceLayout

app = typer.Typer(
    help="Turn a public trace into an instance file, or a profile into a cost file.", no_args_is_help=True, **STYLE
)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="docs/data.md describes it")]
SeedOption = Annotated[int, option("N", "of all that is drawn", "--seed", min=0)]
RateOption = Annotated[str | None, option("R", "Poisson arrivals a second (default: all at 0)")]


def _text(flag: str, metavar: str, help: str) -> Any:
    return Annotated[str | None, option(metavar, help, flag)]


def _number(flag: str, least: int, help: str, metavar: str = "N") -> Any:
    return Annotated[int | None, option(metavar, help, flag, min=least)]


OPTIONS: dict[str, tuple[Any, Any]] = {
    "out": (InstanceOutOption, inspect.Parameter.empty),
    "since": (_text("--from", "T", "seconds after the first arrival, or a time of day"), None),
    "until": (_text("--until", "T", "the same; requests that arrive then are left out"), None),
    "skip": (_number("--skip", 0, "leave out so many first requests"), 0),
    "take": (_number("--take", 1, "so many requests (default: all)"), None),
    "sample": (_number("--sample", 1, "draw so many of them"), None),
    "seed": (SeedOption, 0),
    "load": (_text("--load", "FACTOR", "arrivals come so many times as fast"), "1"),
    "slo_latency": (_text("--slo-latency", "S", "every request: seconds to its last token"), None),
    "slo_ttft": (_text("--slo-ttft", "S", "every request: seconds to its first token"), None),
    "slo_tpot": (_text("--slo-tpot", "S", "every request: seconds a token after the first"), None),
    "drop_too_long": (
        Annotated[bool, typer.Option("--drop-too-long", help="leave out what exceeds the memory, not refuse it")],
        False,
    ),
    "closed_loop": (ClosedLoopOption, None),
    "think": (ThinkOption, "0"),
    "handling": (CallHandlingOption, None),
    "block": (_number("--block", 1, "coarsen to blocks of so many tokens", "TOKENS"), None),
    "slot": (_number("--slot", 1, "coarsen to slots of so many ticks", "TICKS"), None),
    "round": (Annotated[str, option("restrict", "how it rounds: lengths up, limits down", "--round")], "restrict"),
    "config": (ConfigOption, None),
    "json": (JsonOption, None),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The arguments of an import."""

    setting: CostSetting
    given: Mapping[str, Any]  # the value of each of `OPTIONS`

    def selection(self, *, draws: bool = False) -> Selection:
        """Return the selection; with `draws`, `--take` draws as `--sample` does."""
        given = self.given
        take, sample = given["take"], given["sample"]
        if draws and take is not None:
            if sample is not None:
                raise BadInput("--take draws here as --sample does; give one of them")
            take, sample = None, take
        slos = (optional_fraction(f"--slo-{name}", given[f"slo_{name}"]) for name in ("latency", "ttft", "tpot"))
        return Selection(
            given["since"], given["until"], given["skip"], take, sample, given["seed"],
            fraction("--load", given["load"]), *slos,
        )  # fmt: skip

    def fitting(self, machine: Machine) -> Machine | None:
        """Return the machine if requests beyond its memory are to be left out."""
        return self.setting.machine(machine) if self.given["drop_too_long"] else None

    def read(
        self,
        file: str,
        layout: TraceLayout,
        machine: Machine,
        kind: str,
        rate: Fraction | None = None,
        selection: Selection | None = None,
    ) -> tuple[Imported, Machine]:
        """Read a trace for a machine, unless the cost has another."""
        trace = read_requests(
            file, layout, kind=kind, selection=selection or self.selection(), tick=self.setting.tick, rate=rate,
            machine=self.fitting(machine),
        )  # fmt: skip
        return trace, self.setting.machine(machine)

    def table(self, file: str, map: str, rate: str | None, kind: str) -> tuple[Imported, Machine]:
        """Read a table whose columns a map names; without a map, say so."""
        try:
            return self.read(file, read_map(map), TRACE_MACHINE, kind, optional_fraction("--rate", rate))
        except BadInput as error:
            if map != PLAIN or "no column" not in str(error):
                raise
            raise BadInput(f"{error}; name yours: --map arrival=COLUMN,prompt=COLUMN,decode=COLUMN") from None


SETTING = {f"setting_{name}": each for name, each in SETTING_OPTIONS.items()}


def _asked(values: dict[str, Any]) -> Asked:
    return Asked(setting_of({name.removeprefix("setting_"): values.pop(name) for name in SETTING}), values)


def _imports(name: str) -> Callable[[Callable[..., tuple[Imported, Machine | MachineFor]]], None]:
    def register(read: Callable[..., tuple[Imported, Machine | MachineFor]]) -> None:
        @wraps(read)
        def command(asked: Asked, **given: Any) -> None:
            check_writable(asked.given["out"], asked.given["json"])
            if asked.given["round"] != "restrict":
                raise BadInput(f"--round is restrict, not {asked.given['round']!r}: for bounds use the fine instance")
            with LiveLine(f"reading {given['file']}"):
                found = read(asked=asked, **given)
            _write(*found, asked)

        app.command(name)(gathers("asked", OPTIONS | SETTING, _asked)(command))

    return register


MapOption = Annotated[str, option("KEY=COLUMN[:UNIT],..", f"which column says what: {', '.join(KEYS)}", "--map")]
PLAIN = "arrival=arrival,prompt=prompt,decode=decode"  # the map of a file whose columns are called as the keys are


@_imports("csv")
def csv(file: FileArgument, asked: Asked, map: MapOption = PLAIN, rate: RateOption = None) -> tuple[Imported, Machine]:
    """Read any CSV file (also in gzip) with a header: a row is a request, or one turn of a session."""
    return asked.table(file, map, rate, "csv")


@_imports("jsonl")
def jsonl(
    file: FileArgument, asked: Asked, map: MapOption = PLAIN, rate: RateOption = None
) -> tuple[Imported, Machine]:
    """Read any file of JSON objects, one a line (also in gzip); a column is a key, or a path such as usage.tokens."""
    return asked.table(file, map, rate, "jsonl")


@_imports("azure")
def azure(file: FileArgument, asked: Asked) -> tuple[Imported, Machine]:
    """Read an Azure LLM inference trace: arrivals, prompt and output lengths."""
    return asked.read(file, AZURE, TRACE_MACHINE, "azure")


@_imports("agent-traces")
def agent_traces(
    file: FileArgument,
    asked: Asked,
    contents: Annotated[bool, typer.Option("--contents", help="with what inputs have in common")] = False,
) -> tuple[Imported, Machine]:
    """Read sessions of coding agents: each a request with a call between its rows. `--memory` is required.

    `--take` draws, as `--sample` does.
    """
    if "memory" not in asked.setting.given:
        raise BadInput(
            "name the memory that you use, in tokens (--memory): contexts of coding agents reach 880,000 tokens"
        )
    layout = AGENTS_SHARING if contents else AGENTS_LAYOUT
    return asked.read(file, layout, AGENTS_MACHINE, "agent-traces", selection=asked.selection(draws=True))


@_imports("infercept")
def infercept(
    file: FileArgument,
    asked: Asked,
    kind: Annotated[str | None, option("NAME", "only requests of one augmentation")] = None,
    rate: RateOption = None,
    minutes: Annotated[str | None, option("T", "draw with replacement, for so long (with --rate)")] = None,
) -> tuple[Imported, MachineFor]:
    """Read the InferCept mixture: augmented requests with their calls. `--take` draws, as `--sample` does."""
    trace = infercept_requests(
        file, asked.selection(draws=True), augmentation=kind, rate=optional_fraction("--rate", rate),
        minutes=optional_fraction("--minutes", minutes), tick=asked.setting.tick,
        machine=asked.fitting(Machine(memory=None)),
    )  # fmt: skip
    return trace, lambda requests: asked.setting.machine(contended_machine(requests))


@app.command("vidur")
def vidur(
    file: FileArgument,
    out: Annotated[str, option("COST.json", "the cost file to write", *OUT)],
    devices: Annotated[int, option("N", "devices that share a layer", "--tp", min=1)] = 1,
    layers: Annotated[int | None, option("N", "layers (default: those of the model of that shape)", min=1)] = None,
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


app.command("run")(run)


def _write(trace: Imported, machine: Machine | MachineFor, asked: Asked) -> None:
    given, setting = asked.given, asked.setting
    if (users := given["closed_loop"]) is not None:
        if given["load"] != "1" or ",rate=" in trace.name:
            raise BadInput("--closed-loop: users ask when their last answer has come; leave out --load and --rate")
        think = ticks_of("--think", given["think"], setting.tick)
        name = f"{trace.name},closed-loop={users},think={given['think']}"
        trace = replace(trace, name=name, requests=closed_loop(trace.requests, users, think))
    out, json, block, slot = (given[name] for name in ("out", "json", "block", "slot"))
    size = block or slot  # of both, if only one is given
    lost = list[str]()
    whole = size is not None or json is not None or trace.hashes is not None
    if not whole and isinstance(machine, Machine):  # nothing needs all requests at once
        about = machine, trace.name, setting.tick, setting.cost

        def build(some: Sequence[Request]) -> Instance:
            return with_handling(build_instance(trace.source, some, *about), given["handling"])

        write_requests(out, trace.requests, build)
    else:
        with LiveLine(f"reading {trace.source}"):
            fine = trace.instance(machine, setting.tick, setting.cost)
        coarse = fine if size is None else coarsen(fine, block_tokens=size, slot_ticks=slot or size)
        instance = with_handling(coarse, given["handling"])  # the choice of least waste sees the coarse machine
        write_text(out, instance.to_json())
        if out != "-":
            emit(json, facts(instance), lambda console: show_instance(instance, console))
        lost += [] if size is None else [_distorted(fine, coarse)]
    if trace.notes:  # which are there once all requests have been read
        lost = [f"{trace.source}: {'; '.join(trace.notes)} (docs/data.md)", *lost]
    if setting.assumed:
        lost.append(NO_COST)
    lost += [f"this roofline: {setting.note} (docs/costmodels.md)"] * bool(setting.note)
    for line in lost:
        print(f"kvbound: {line}", file=sys.stderr)


def _distorted(fine: Instance, coarse: Instance) -> str:
    found = distortion(fine, coarse)
    return (
        f"coarsening changed all peaks together to {found.peaks:.2f} times, decodes and calls to {found.times:.2f} "
        f"times, memory to {found.memory:.2f} times what they were"
    )
