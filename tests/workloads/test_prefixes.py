"""Drawn conversations: what their contexts have in common, in whole blocks."""

from pathlib import Path
from typing import Any

import pytest

from kvcore import BadInput, Instance, Machine
from kvcore.files import read_instance
from kvcore.instance import Node
from tests.support.build import instance, request
from tests.support.commands import kvbound
from workloads.generators import generate
from workloads.generators.prefixes import Part, Turn, with_parts
from workloads.own import what_is_shared

MACHINE = Machine(memory=100_000, block=16, evict=True)


def test_contents_are_the_whole_blocks_of_parts() -> None:
    requests = request("A", 9, 8), request("B", 12, 1), request("C", 3, 1)
    system = Part("system", 6)
    parts = ((system, Part("short", 7), Part("A", 16)), (system, Part("B", 12)), (Part("C", 3),))
    on = with_parts(instance(*requests, block=4), map(Turn, requests, parts))
    assert on.contents == (
        Node(id="system", blocks=1), Node(id="A", parent="system", blocks=3), Node(id="B", parent="system", blocks=2)
    )  # fmt: skip
    assert [each.path for each in on.requests] == [("A", 3), ("B", 2), None]
    assert what_is_shared(on) == "16.7 % of all prompt tokens begin an earlier context, too"  # 4 of B's, of 24


def test_a_turn_goes_on_from_what_was_sent_and_answered_before() -> None:
    on = generate("prefixes", n=60, seed=3, machine=MACHINE, systems=2, examples=1, turns=3)
    assert {node.id for node in on.contents if node.parent is None} == {"system-1", "system-2"}
    assert [sum(part.blocks for part in parts) for parts in on.parts] == [each.peak // 16 for each in on.requests]
    assert 25 < sum(whole_of_an_earlier(on)) < 55  # two of three, about
    assert generate("prefixes", n=60, seed=3, machine=MACHINE, systems=2, examples=1, turns=3) == on
    assert not any(whole_of_an_earlier(generate("prefixes", n=60, seed=3, machine=MACHINE, turns=1)))


def whole_of_an_earlier(on: Instance) -> list[bool]:
    """Whether a prompt begins with an earlier request's whole context."""
    paths = [{part.node: part.blocks for part in parts} for parts in on.parts]
    return [
        any(all(path.get(node, 0) >= blocks for node, blocks in before.items()) for before in paths[:k])
        for k, path in enumerate(paths)
    ]


def test_the_command_writes_contents_and_says_what_is_shared(tmp_path: Path) -> None:
    file = tmp_path / "W.json"
    given = "prefixes --n 1200 --rate 2 --seed 7 --systems 3 --block-size 16 --memory 100000"
    shown = kvbound("generate", *given.split(), "--out", file)
    made = read_instance(file)
    assert made.contents == generate("prefixes", n=1200, seed=7, machine=made.machine, systems=3).contents
    assert what_is_shared(made) in shown.stdout


@pytest.mark.parametrize("given", ["", "--no-same-batch"])
def test_whether_a_batch_reuses_what_it_computes_is_an_option(tmp_path: Path, given: str) -> None:
    kvbound("generate", "prefixes", "--n", "3", *given.split(), "--out", tmp_path / "W.json")
    assert read_instance(tmp_path / "W.json").machine.same_batch is not bool(given)


@pytest.mark.parametrize("name", ["systems", "examples", "turns"])
def test_counts_are_positive(name: str) -> None:
    given: dict[str, Any] = {name: 0}
    with pytest.raises(BadInput, match=f"--{name} is at least 1, not 0"):
        generate("prefixes", n=2, **given)
