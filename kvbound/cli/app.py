"""The commands, one file each; here they get their names."""

from __future__ import annotations

from typing import Annotated

import typer

from kvbound.cli import (
    about,
    bound,
    calibrate,
    check,
    compare,
    costs,
    demo,
    generate,
    imports,
    instances,
    kernels,
    load,
    replay,
    search,
    simulate,
    solve,
    sweep,
    verify,
)
from kvcore import __version__

app = typer.Typer(
    name="kvbound",
    help="How good can an LLM-serving scheduler be? Proved optima, bounds, and the distance of real schedulers.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kvbound {__version__}")
        raise typer.Exit


@app.callback()
def _kvbound(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="and exit")
    ] = False,
) -> None: ...


app.command("instances")(instances.instances)
app.command("show")(instances.show)
app.command("solvers")(about.solvers)
app.command("policies")(about.policies)
app.command("costs")(costs.costs)
app.command("solve")(solve.solve)
app.command("bound")(bound.bound)
app.command("simulate")(simulate.simulate)
app.command("compare")(compare.compare)
app.command("replay")(replay.replay)
app.command("load")(load.load_sweep)
app.command("sweep")(sweep.sweep)
app.command("search")(search.search)
app.command("verify")(verify.verify)
app.command("check")(check.check)
app.command("calibrate")(calibrate.calibrate)
app.command("kernels")(kernels.kernels)
app.command("demo")(demo.demo)
app.command("generate")(generate.generate)
app.add_typer(imports.app, name="import")
