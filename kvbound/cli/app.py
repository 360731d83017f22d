"""The commands by name; a command's file is loaded when called, so that help comes at once."""

import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kvbound.cli import print_version

GROUPS: dict[str, tuple[str, str]] = {
    "Solve and bound": (
        "solve bound improve verify solvers options", "kvbound solve mars-figure1 --handling free --plot best.svg",
    ),
    "Policies": (
        "compare simulate policies search load replay",
        "kvbound compare mars-figure1 --policies fcfs,mars-order --explain",
    ),
    "Data": (
        "import generate instances show library costs calibrate",
        "kvbound import csv trace.csv --map prompt=input,decode=output -o mine.json",
    ),
    "Studies": ("demo check sweep kernels", "kvbound check faster-call-vllm"),
}  # fmt: skip
PLACES = {
    "solvers": "about.solvers", "options": "about.options", "policies": "about.policies", "load": "load.load_sweep",
    "import": "imports.app", "show": "instances.show", "library": "library.app",
}  # fmt: skip
"""The file in this folder and the function in it (or a group of commands), where not both have the command's name."""
COMMANDS = {name: PLACES.get(name, f"{name}.{name}") for names, _ in GROUPS.values() for name in names.split()}
STYLE: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class Commands(TyperGroup):
    """The group of all commands, each loaded when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        known: Any = dict.fromkeys(COMMANDS)
        self.commands = known

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command (None: unknown name)."""
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
        for title, (names, example) in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, first_line(name)) for name in names.split()])
                formatter.write(f"\n  $ {example}\n")


def overview() -> str:
    """Return the text without a command: the groups, examples, and where to read on."""
    groups = [f"{title}: {names.replace(' ', ', ')}\n  $ {example}" for title, (names, example) in GROUPS.items()]
    more = "kvbound --help says what each command does, kvbound COMMAND --help its options."
    return "\n\n".join(["Usage: kvbound COMMAND [ARGS]...", WHAT.replace("? ", "?\n"), *groups, more])


def first_line(name: str) -> str:
    """Return the first line of a command's docstring, without loading it."""
    file, attribute = COMMANDS[name].split(".")
    text = Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")
    start = rf'def {attribute}\(.*?"""|{attribute} = typer\.Typer\(\s*help="'
    found = re.search(rf'^(?:{start})(.*?)(?:"|$)', text, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1]


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
