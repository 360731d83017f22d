"""Policies that misbehave, as a user's file; sweeps have to survive all of them."""

from pathlib import Path

CODE = """
import ctypes, os, time
from pathlib import Path
from heuristics.policies.figure_1 import Fcfs

LOG, GATE = Path({log!r}), Path({gate!r})

class Slow(Fcfs):
    name = "slow"
    def start(self, view):
        with LOG.open("a") as log:
            log.write("run\\n")
        while GATE.exists() and len(LOG.read_text().splitlines()) > int(GATE.read_text() or 0):
            time.sleep(0.01)
        print("what a policy prints is no row")
        super().start(view)

class Raises(Fcfs):
    def start(self, view):
        raise RuntimeError("no idea")

class Dies(Fcfs):
    def start(self, view):
        os.write(2, b"terrible\\n")
        ctypes.CDLL(None)._exit(7)  # not os._exit, which is an error here

class Hangs(Fcfs):
    def start(self, view):
        time.sleep(600)

class Greedy(Fcfs):
    def start(self, view):
        held = bytearray(os.urandom(2**20)) * 600
        time.sleep(600)
"""


MOST_JOBS = 2
"""How many runs there may be at once."""


def write_policies(folder: Path) -> Path:
    """Write the file; its policy `Slow` writes a line in `runs.log` for each run of it, and may be held (`allow`)."""
    file = folder / "policies.py"
    file.write_text(CODE.format(log=str(folder / "runs.log"), gate=str(folder / "gate")), encoding="utf-8")
    return file


def allow(folder: Path, more: int = 10**9) -> None:
    """Let that many further runs of `Slow` end, or a few more, and hold all after them."""
    gate = folder / "gate"
    gate.with_suffix(".new").write_text(str(runs(folder) + more + MOST_JOBS), encoding="utf-8")
    gate.with_suffix(".new").rename(gate)


def held(folder: Path) -> bool:
    """Whether a run of `Slow` is held, now or once it looks."""
    return runs(folder) > int((folder / "gate").read_text(encoding="utf-8"))


def write_study(folder: Path, *names: str, count: int, more: str = "") -> Path:
    """Write a study of these policies of the file on `count` tiny instances."""
    chosen = ", ".join(f'"{folder / "policies.py"}:{name}"' if name[0].isupper() else f'"{name}"' for name in names)
    study = folder / "study.toml"
    text = f"""{more}
        [[instances]]
        builtin = "hindsight"
        parameters = {{ n = 2, M = 8, seed = "0..{count - 1}" }}
        [[policies]]
        names = [{chosen}]
        """
    study.write_text("\n".join(line.strip() for line in text.splitlines()), encoding="utf-8")
    return study


def runs(folder: Path) -> int:
    """Return how often `Slow` was run."""
    log = folder / "runs.log"
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
