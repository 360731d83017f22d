"""The commands by name; the file of a command is loaded when it is called, so that help comes at once."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kvbound.cli import print_version

GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "Solve and bound": (
        "kvbound solve mars-figure1 --handling free --plot best.svg",
        {
            "solve": "solve.solve",
            "bound": "bound.bound",
            "improve": "improve.improve",
            "verify": "verify.verify",
            "solvers": "about.solvers",
            "options": "about.options",
        },
    ),
    "Policies": (
        "kvbound compare mars-figure1 --policies fcfs,mars-order --explain",
        {
            "compare": "compare.compare",
            "simulate": "simulate.simulate",
            "policies": "about.policies",
            "search": "search.search",
            "load": "load.load_sweep",
            "replay": "replay.replay",
        },
    ),
    "Data": (
        "kvbound import csv trace.csv --map prompt=input,decode=output -o mine.json",
        {
            "import": "imports.app",
            "generate": "generate.generate",
            "instances": "instances.instances",
            "show": "instances.show",
            "library": "library.app",
            "costs": "costs.costs",
            "calibrate": "calibrate.calibrate",
        },
    ),
    "Studies": (
        "kvbound check faster-call-vllm",
        {
            "demo": "demo.demo",
            "check": "check.check",
            "sweep": "sweep.sweep",
            "kernels": "kernels.kernels",
        },
    ),
}
"""The commands by what they are for, each group with an example; of each, the file in this folder and the function in
it (or a group of commands)."""
COMMANDS = {name: place for _, commands in GROUPS.values() for name, place in commands.items()}

STYLE: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class Commands(TyperGroup):
    """The group of all commands, each loaded when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        known: Any = dict.fromkeys(COMMANDS)
        self.commands = known

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command (None: there is none of that name)."""
        if cmd_name not in COMMANDS:
            return None
        file, _, attribute = COMMANDS[cmd_name].partition(".")
        found = getattr(import_module(f"kvbound.cli.{file}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(**STYLE)
            single.command(cmd_name)(found)
            found = single
        return get_command(found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, by group, without loading any."""
        for title, (example, commands) in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, first_line(name)) for name in commands])
                formatter.write(f"\n  $ {example}\n")


def overview() -> str:
    """Return what is said where no command is given: the groups, an example of each, and where to read on."""
    groups = [f"{title}: {', '.join(commands)}\n  $ {example}" for title, (example, commands) in GROUPS.items()]
    more = "kvbound --help says what each command does, kvbound COMMAND --help its options."
    return "\n\n".join(["Usage: kvbound COMMAND [ARGS]...", WHAT.replace("? ", "?\n"), *groups, more])


def first_line(name: str) -> str:
    """Return the first line of what a command says of itself, as it stands in its file."""
    file, _, attribute = COMMANDS[name].partition(".")
    for node in ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == attribute:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == attribute
            and isinstance(node.value, ast.Call)
        ):
            return next(str(ast.literal_eval(word.value)) for word in node.value.keywords if word.arg == "help")
    raise LookupError(name)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


WHAT = "How good can an LLM-serving scheduler be? Proved optima, bounds, and the distance of real schedulers."
app = typer.Typer(
    name="kvbound", cls=Commands, help=WHAT, invoke_without_command=True, **STYLE | {"add_completion": True}
)


@app.callback()
def _kvbound(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(overview())
