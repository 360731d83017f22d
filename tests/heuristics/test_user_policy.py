"""A user's own policy: from a file, by name, and with one clear line for whatever is wrong with it."""

import json
import os

import pytest

from heuristics import Policy, PolicyError, get_policy, run_policy
from heuristics.engine import guarded
from kvcore.errors import BadInput
from tests.support.commands import kvbound, one_line
from workloads.builtin import builtin_instance

MINE = '''
from heuristics import Unified

class Smallest(Unified):
    """Shortest prompt first."""
    name, rule, source = "smallest", "shortest prompt first", "here"

    def key(self, job):
        return job.prompt
'''
OTHER = """
class Other(Smallest):
    name = "other"
"""


def test_a_policy_from_a_file_runs(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    both = f"{tmp_path / 'mine.py'},sarathi"
    rows = json.loads(kvbound("simulate", "infermax-figure15:I=4", "--policy", both, "--json", "-").stdout)["rows"]
    assert [row["policy"] for row in rows] == ["smallest", "sarathi"]
    assert all(row["verified"] for row in rows)


def test_one_of_several_is_named(tmp_path):
    file = tmp_path / "both.py"
    file.write_text(MINE + OTHER)
    assert get_policy(f"{file}:Other").name == "other"
    with pytest.raises(BadInput, match=r"has 2 policy classes; name one as .*both.py:CLASS \(Other, Smallest\)"):
        get_policy(str(file))
    with pytest.raises(BadInput, match="has no policy class 'Third'; it has Other, Smallest"):
        get_policy(f"{file}:Third")


@pytest.mark.parametrize(("text", "message"), [
    (None, "there is no file .*mine.py"),
    ("1 // 0", r"mine.py fails: ZeroDivisionError: .* \(.*mine.py, line 1\)$"),
    ("import sys\nsys.exit(0)", r"mine.py fails: SystemExit: 0 \(.*mine.py, line 2\)$"),
    ("x = (", r"mine.py fails: SyntaxError: .* \(mine.py, line 1\)$"),
    ("x = 1", "has 0 policy classes; one is a subclass of kvbound.Policy"),
    (MINE + "\n    def __init__(self, more):\n        pass\n", "Smallest cannot be made: TypeError"),
])  # fmt: skip
def test_a_file_that_is_no_policy(text, message, tmp_path):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(BadInput, match=message) as caught:
        get_policy(str(tmp_path / "mine.py"))
    assert "\n" not in str(caught.value)


def test_a_class_of_a_notebook_says_what_it_is_by_its_name_and_docstring():
    """A cell stands in no file."""
    cell = {"Policy": Policy, "__name__": "a_notebook"}
    exec('class Short(Policy):\n    """Shortest first.\n\n    More."""\n    def decide(self, view, plan): 0', cell)
    policy = get_policy(cell["Short"])
    assert (policy.name, policy.rule, policy.source) == ("short", "Shortest first.", "one's own")


def test_an_error_in_a_decision_names_file_and_line(tmp_path):
    text = MINE + "\n    def decide(self, view, plan):\n        self.missing\n"
    (tmp_path / "mine.py").write_text(text)
    line = text.splitlines().index("        self.missing") + 1
    with pytest.raises(PolicyError, match=rf"fails in batch 0: AttributeError: .* \(.*mine.py, line {line}\)$"):
        run_policy(builtin_instance("infermax-figure15:I=4"), get_policy(str(tmp_path / "mine.py")))


def test_a_decision_that_does_not_return_is_ended(monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(
        MINE + "\n    def decide(self, view, plan):\n        while True:\n            pass\n"
    )
    monkeypatch.setattr(guarded, "SECONDS", 0.1)
    with pytest.raises(PolicyError, match="policy smallest fails in batch 0: TimeoutError: it has not decided within"):
        run_policy(builtin_instance("infermax-figure15:I=4"), get_policy(str(tmp_path / "mine.py")))


SILENT = "class Silent(BaseException):\n    def __str__(self): raise ValueError\n"


@pytest.mark.parametrize(
    ("raised", "said_of_it"),
    [("SystemExit(0)", "SystemExit: 0"), ("GeneratorExit", "GeneratorExit ("), ("Silent", "Silent (")],
)
@pytest.mark.parametrize("method", ["decide(self, view, plan)", "start(self, view)", "why_not(self, machine)"])
def test_a_policy_that_raises_what_ends_a_program_is_an_error(method, raised, said_of_it, tmp_path):
    (tmp_path / "mine.py").write_text(f"{SILENT}{MINE}\n    def {method}:\n        raise {raised}\n")
    said = one_line("simulate", "infermax-figure15:I=4", "--policy", tmp_path / "mine.py")
    assert said.startswith(f"kvbound: policy smallest fails in batch 0: {said_of_it}")


@pytest.mark.parametrize(
    ("text", "message"),
    [("while True:\n    pass\n", "TimeoutError: it has not ended within 0.1 s"),
     ("import os\nos._exit(0)\n", "SystemExit: 0"), ("from os import _exit\n_exit(3)\n", "SystemExit: 3"),
     ("raise GeneratorExit", r"GeneratorExit \(")],
)  # fmt: skip
def test_a_file_that_does_not_end_or_ends_the_program(text, message, monkeypatch, tmp_path):
    monkeypatch.setattr(guarded, "SECONDS", 0.1)
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(BadInput, match=f"mine.py fails: {message}"):
        get_policy(str(tmp_path / "mine.py"))
    assert os._exit is guarded._exit
    (tmp_path / "mine.py").write_text(f"import os\n{MINE}\n    def decide(self, view, plan):\n        os._exit(0)\n")
    with pytest.raises(PolicyError, match="fails in batch 0: SystemExit: 0"):
        run_policy(builtin_instance("infermax-figure15:I=4"), get_policy(str(tmp_path / "mine.py")))
