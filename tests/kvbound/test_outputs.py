"""Outputs: whole or not at all, through links and into what is no regular file; nothing printed is a command."""

import os
import stat
import sys
import threading
from contextlib import suppress
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
from matplotlib.figure import Figure

from kvbound.cli import main
from kvbound.cli.common import PlainConsole, people_console, table
from kvbound.plots import style
from kvcore.errors import BadInput
from kvcore.files import check_database, check_writable, write_bytes, write_text, writing
from tests.support.commands import kvbound
from workloads.builtin import builtin_instance

LONGEST = "n" * 255


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    (tmp_path / "folder").mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    dangling = tmp_path / "dangling"
    dangling.symlink_to("folder/new")
    check_writable(link, dangling)
    write_text(link, "new")
    write_text(dangling, "new")
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("new\n", 0o640)
    assert (tmp_path / "folder" / "new").read_text() == "new\n"
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert names(tmp_path) == ["dangling", "folder", "link", "real"]


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(BadInput, match="cannot be written"):
        write_text(tmp_path / "a" / "file", "x")


def test_a_pipe_is_written_through(tmp_path):
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", pipe)
    reader.join(30)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert got[0].startswith('{"format": "kvbound-schedule"')
    assert names(tmp_path) == ["pipe"]


def test_a_file_that_cannot_be_written_loses_no_other(tmp_path):
    """As with a disk that fills up meanwhile; what was found is printed, too."""
    long = {option: tmp_path / f"{LONGEST}.{option}.svg" for option in ("--json", "--plot")}
    given = {"--schedule": tmp_path / "s.json", "--curves": tmp_path / "c.svg", **long}
    asked = [word for pair in given.items() for word in pair]
    said = kvbound("solve", "infermax-figure15:I=2", "--ways", "improve", "--time-limit", 1, *asked, code=2)
    assert "found by" in said.stdout
    assert said.stderr.count("cannot be written: File name too long") == 2
    assert said.stderr.count("\n") == 1
    assert names(tmp_path) == ["c.svg", "s.json"]


def test_a_picture_of_another_kind_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("kvbound.cli.compare.load_instance", None)
    said = kvbound("compare", "mars-figure1", "--plot", "x.gif", code=2).stderr
    assert said == "kvbound: x.gif: a picture is saved as .svg, .png or .pdf, not as .gif\n"


def test_a_report_without_a_schedule(tmp_path):
    """No policy can run: the report says why, and there is nothing to draw."""
    given = "--policies", "vllm", "--no-optimum", "--html", tmp_path / "r.html", "--plot", tmp_path / "p.svg"
    said = kvbound("compare", "mars-figure1", *given, code=2).stderr
    assert said == "kvbound: no schedule to draw: give at least one pair (title, trace)\n"
    assert "it needs a machine with evict" in (tmp_path / "r.html").read_text()


def test_a_device_is_written_through(tmp_path):
    """On copies of /dev/null and /dev/full, so that a mistake here harms nobody."""
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        null.write_text("x")
    except OSError:
        pytest.skip("this user may make no devices here")
    check_writable(null, full)
    write_text(null, "{}")
    with pytest.raises(BadInput, match="full: cannot be written: No space left on device"):
        write_bytes(full, b"{}")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert names(tmp_path) == ["full", "null"]


@pytest.mark.parametrize("length", [245, 255])
def test_names_as_long_as_a_name_may_be(tmp_path, length):
    write_text(tmp_path / LONGEST[:length], "x")
    style.save(Figure(), tmp_path / f"{LONGEST[: length - 4]}.svg")
    assert [len(name) for name in names(tmp_path)] == [length, length]


def test_a_name_too_long_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be written: File name too long"):
        write_text(tmp_path / f"{LONGEST}n", "x")
    check_writable(tmp_path / f"{LONGEST}n")
    assert names(tmp_path) == []


def test_what_fails_leaves_what_was_there(tmp_path, monkeypatch):
    picture = tmp_path / "a.svg"
    style.save(Figure(), picture)
    before = picture.read_bytes()

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    with suppress(ZeroDivisionError), writing(picture) as file:
        file.write("half of it")
        raise ZeroDivisionError
    monkeypatch.setattr("pathlib.Path.replace", fails)
    with pytest.raises(BadInput, match=r"a.svg: cannot be written: No space left on device"):
        style.save(Figure(), picture)
    assert picture.read_bytes() == before
    assert names(tmp_path) == ["a.svg"]


def test_a_database_is_a_regular_file(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    check_database(tmp_path / "real", tmp_path / "link", tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(BadInput, match=f"^{path}: a database is a regular file, and this is none"):
            check_database(path)


# --- standard output
def printed(out, *arguments):
    """Run `kvbound ARGUMENTS` in this process with that standard output; return its exit code."""
    with (
        mock.patch.object(sys, "argv", ["kvbound", *arguments]),
        mock.patch.object(sys, "stdout", out),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return int(str(ended.value.code))


def test_standard_output_that_takes_nothing_is_one_line(capsys):
    for arguments in (("show", "mars-figure1"), ("show", "mars-figure1", "--json", "-")):
        with Path("/dev/full").open("w") as full:
            assert printed(full, *arguments) == 2
        assert capsys.readouterr().err == "kvbound: standard output: No space left on device\n"
        assert printed(None, *arguments) == 2
        assert capsys.readouterr().err == "kvbound: standard output: Bad file descriptor\n"


def test_whoever_stops_reading_has_seen_enough(capsys):
    reading, writing_end = os.pipe()
    os.close(reading)
    with os.fdopen(writing_end, "w") as out:
        assert printed(out, "policies") == 0
    assert capsys.readouterr().err == ""


def test_standard_input_that_is_closed_is_one_line(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    said = kvbound("show", "-", code=2).stderr
    assert said == "kvbound: standard input: cannot be read: Bad file descriptor\n"


def test_standard_output_by_another_name(tmp_path):
    with (tmp_path / "out").open("w") as out:
        arguments = ("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", f"/dev/fd/{out.fileno()}")
        assert printed(out, *arguments) == 0
    text = (tmp_path / "out").read_text()
    assert text.startswith('{"format": "kvbound-schedule"')
    assert "fcfs" in text, "the table comes after it"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_narrow_terminal_folds_no_number_and_clips_nothing(width):
    columns = ["label", *(f"measure {k}" for k in range(9)), "what it is"]
    rows = [
        [f"policy-{i}", *(f"{10**k + i}.125" for k in range(9)), "some words that may be folded " * 2] for i in (1, 2)
    ]
    out = StringIO()
    PlainConsole(file=out, width=width).print(table(columns, rows, right=range(1, 10)))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    words = out.getvalue().split()
    assert [word for word in words if word.endswith(".125")].count("1000001.125") == 1
    assert {cell for row in rows for cell in row[1:10]} <= set(words)
    assert out.getvalue().count("measure") == 9
    assert (
        words.count("policy-1") == words.count("label") == (1 if width == 200 else len([x for x in lines if not x]) + 1)
    )


def test_nothing_printed_is_a_command(capsys, tmp_path):
    console = people_console()
    console.print("\x1b[31mred\x07 [/bold] :smile: [red]")
    console.print(table(("\x1b[1mhead",), [("\x9b2J\x1b]0;title\x07[/x]",)]))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["?[31mred? [/bold] :smile: [red]", "?[1mhead", "?2J?]0;title?[/x]"]
    instance = tmp_path / "i.json"
    instance.write_text(builtin_instance("mars-figure1").replace(name="[/bold] :x: [red]").to_json())
    assert kvbound("show", instance).stdout.startswith("[/bold] :x: [red]")
    assert kvbound("show", "\x1b[31m", code=2).stderr.isascii()
    assert "\x1b" not in kvbound("sweep", "\x1b[31m.toml", code=2).stderr
