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

COMMANDS = {
    "instances": "instances.instances",
    "show": "instances.show",
    "solvers": "about.solvers",
    "policies": "about.policies",
    "costs": "costs.costs",
    "solve": "solve.solve",
    "bound": "bound.bound",
    "improve": "improve.improve",
    "simulate": "simulate.simulate",
    "compare": "compare.compare",
    "replay": "replay.replay",
    "load": "load.load_sweep",
    "sweep": "sweep.sweep",
    "search": "search.search",
    "verify": "verify.verify",
    "library": "library.app",
    "check": "check.check",
    "calibrate": "calibrate.calibrate",
    "kernels": "kernels.kernels",
    "demo": "demo.demo",
    "generate": "generate.generate",
    "import": "imports.app",
}
"""The file in this folder, and the function in it (or a group of commands), of each command."""

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
        """Write a line for each command, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_line(name)) for name in COMMANDS])


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


app = typer.Typer(
    name="kvbound",
    cls=Commands,
    help="How good can an LLM-serving scheduler be? Proved optima, bounds, and the distance of real schedulers.",
    no_args_is_help=True,
    **STYLE,
)


@app.callback()
def _kvbound(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="and exit")
    ] = False,
) -> None: ...
