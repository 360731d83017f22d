"""Runs the fenced blocks of a Markdown page, so that no page shows what does not happen.

All blocks of a page run in order, in one folder and one Python namespace:

* ```` ```python ```` runs; what it prints must equal the ```` ```text ```` block that follows directly (none: it must
  print nothing). `...` stands for anything.
* ```` ```console ```` runs each line `$ kvbound ..` (a trailing backslash continues it). Lines after a command are its
  whole output, if there are any; `# exit N` says which exit code is expected (0 otherwise).
* ```` ```json file=NAME ```` (any language) is written to that file first.
* `notest` after the language: shown, not run.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.support.commands import run_kvbound

Program = Callable[[list[str]], tuple[int, str]]
"""Takes arguments; returns the exit code and what was printed."""
RUN = ("python", "console")
MUST_SAY_NOTEST = ("bash", "sh", "shell", "py", "pycon", "python3")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, its text, its first line in the page (from 1)."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int
    directly: bool  # nothing but white space stands between the block before and this one


@dataclass
class Command:
    """A console line, the output that the page shows for it, and the exit code that it expects."""

    line: str
    output: list[str] = field(default_factory=list)
    code: int = 0


def find_blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    lines = page.splitlines()
    k, directly = 0, False
    while k < len(lines):
        fence = re.fullmatch(r"( *)(```+)(.*)", lines[k])
        if fence is None:
            directly = directly and not lines[k].strip()
            k += 1
            continue
        indent, ticks, info = fence.groups()
        closing = [n for n in range(k + 1, len(lines)) if lines[n].strip() == ticks]
        if not closing:
            raise ValueError(f"line {k + 1}: the block is not closed")
        language, *words = info.split() or [""]
        body = [line.removeprefix(indent) for line in lines[k + 1 : closing[0]]]
        found.append(Block(language, tuple(words), "".join(f"{line}\n" for line in body), k + 2, directly))
        k, directly = closing[0] + 1, True
    return found


def run_page(page: str, name: str, folder: Path, program: Program = run_kvbound) -> int:
    """Run all blocks of a page in `folder` and return how many ran; AssertionError says where it differs."""
    blocks = find_blocks(page)
    namespace: dict[str, object] = {"__name__": "page"}
    ran = 0
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        where = f"{name}:{block.line}"
        check_words(block, where)
        if "notest" in block.words:
            continue
        for word in block.words:
            (folder / word.removeprefix("file=")).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            expected = after.text if after is not None and after.language == "text" and after.directly else ""
            compare(expected, run_python(block, name, folder, namespace), where)
        elif block.language == "console":
            for command in read_commands(block.text, where):
                run_command(command, where, folder, program)
        ran += block.language in RUN
    return ran


def check_words(block: Block, where: str) -> None:
    """Refuse what would silently not be run."""
    unknown = [word for word in block.words if word != "notest" and re.fullmatch(r"file=[\w.-]+", word) is None]
    assert not unknown, f"{where}: {unknown[0]!r} after {block.language} means nothing; write notest or file=NAME"
    shown_only = block.language in MUST_SAY_NOTEST and "notest" not in block.words
    assert not shown_only, f"{where}: {block.language} blocks are not run; use python, console or notest"


def run_python(block: Block, name: str, folder: Path, namespace: dict[str, object]) -> str:
    """Run a Python block and return what it prints; tracebacks carry the page's line numbers."""
    code = compile("\n" * (block.line - 1) + block.text, name, "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def read_commands(text: str, where: str) -> list[Command]:
    """Return the commands of a console block, each with what it is expected to give."""
    commands: list[Command] = []
    for line in text.splitlines():
        code = re.fullmatch(r"# exit (\d+)", line.strip())
        if commands and commands[-1].line.endswith("\\"):
            commands[-1].line = commands[-1].line[:-1] + line
        elif line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif not commands:
            raise AssertionError(f"{where}: a console block starts with a line `$ kvbound ..`")
        elif code is not None:
            commands[-1].code = int(code[1])
        else:
            commands[-1].output.append(line)
    return commands


def run_command(command: Command, where: str, folder: Path, program: Program) -> None:
    """Run one console line in this process, and compare its exit code and its output (errors included)."""
    first, *arguments = shlex.split(command.line, comments=True)
    assert first == "kvbound", f"{where}: only kvbound is run here, not {first}; write notest"
    with contextlib.chdir(folder), mock.patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1"}):
        code, printed = program(arguments)
    assert code == command.code, f"{where}: `{command.line}` exits with {code}, not {command.code}\n{printed}"
    if any(line.strip() for line in command.output):
        compare("\n".join(command.output), printed, f"{where}: `{command.line}`")


def compare(expected: str, printed: str, where: str) -> None:
    """Compare two texts; `...` in the first stands for anything, white space at line ends does not count."""
    want, got = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (expected, printed)
    )
    same = doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)
    assert same, f"{where}: the page says\n{want}\nand it printed\n{got}"
