"""Prompts that begin alike are read from the hashes of their blocks."""

import json

import pytest

from kvcore import BadInput, Machine
from kvcore.instance import Node
from tests.support.commands import kvbound
from workloads.importers import read_agent_traces, read_trace

MAP = "prompt=in,decode=out,contents=hash_ids:4"
ROWS = ((12, [7, 8, 9]), (14, [7, 8, 1, 2]), (3, [5]), (9, [8, 9, 3]), (16, [7, 8, 1, 2]))


def table(folder, *rows):
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps({"in": k, "out": 1, "hash_ids": ids}) + "\n" for k, ids in rows))
    return path


def read(path, map=MAP, jsonl=True, block=2):
    return read_trace(path, map, machine=Machine(memory=100, block=block), jsonl=jsonl)


def test_equal_hashes_after_equal_prompts_are_shared(tmp_path):
    found = read(table(tmp_path, *ROWS))
    assert found.contents == (
        Node(id="7", blocks=4), Node(id="9", parent="7", blocks=2), Node(id="1", parent="7", blocks=4),
        Node(id="8/2", blocks=4),  # 8 and 9 after nothing are other contents than after 7
    )  # fmt: skip
    assert [each.path for each in found.requests] == [("9", 2), ("1", 2), None, ("8/2", 4), ("1", 4)]


def test_a_chat_goes_on_from_its_parent_by_its_hashes(tmp_path):
    path = tmp_path / "qwen.jsonl"
    rows = ((1, -1, 0.5, 40, [1, 2, 3]), (2, -1, 1, 20, [7, 8]), (3, 1, 9.25, 70, [1, 2, 4, 5, 6]))
    keys = ("chat_id", "parent_chat_id", "timestamp", "input_length", "hash_ids")
    path.write_text(
        "".join(json.dumps(dict(zip(keys, row, strict=True)) | {"output_length": 9}) + "\n" for row in rows)
    )
    columns = "arrival=timestamp,prompt=input_length,decode=output_length,id=chat_id,contents=hash_ids:16"
    found = read(path, columns, block=16)
    assert found.contents == (Node(id="1", blocks=4), Node(id="7", blocks=1))
    assert [(each.id, each.path) for each in found.requests] == [("1", ("1", 2)), ("2", ("7", 1)), ("3", ("1", 4))]


def test_a_csv_file_has_hashes_with_spaces_between_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("in,out,hash_ids\n" + "".join(f"{k},1,{' '.join(map(str, ids))}\n" for k, ids in ROWS))
    assert read(path, jsonl=False).contents == read(table(tmp_path, *ROWS)).contents


def test_without_hashes_there_are_no_contents(tmp_path):
    assert not read(table(tmp_path, (12, []), (9, None), (9, [1, 2]))).parts[0]


AGENTS = """trace_id,agent,seq,t_s,input_tokens,output_tokens,common_prefix_prev_tokens,api_time_s,think_time_s
A,main,0,0,128,10,0,1,0
A,main,1,9,200,10,128,1,1
A,main,2,20,256,10,64,1,1
A,main,3,30,100,10,64,1,1
B,main,0,1,192,5,0,1,0
B,main,1,5,192,,64,1,1
B,main,2,9,250,5,192,1,1
"""
"""A's third input has changed after 64 tokens, its fourth is short, too; B's second row gave no answer."""


def test_inputs_of_agents_share_what_they_have_in_common_with_the_row_before(tmp_path):
    path = tmp_path / "agents.csv"
    path.write_text(AGENTS)
    found = read_agent_traces(path, machine=Machine(memory=1000, block=32), contents=True)
    first, second = "main-A/0#1", "main-B/0#1"
    assert [(each.id, len(each.calls), each.path) for each in found.requests] == [
        ("main-A/0", 1, ("main-A/0#3", 4)), ("main-B/0", 0, ("main-B/0#3", 4)), ("main-B/2", 0, ("main-B/2#3", 4)),
        ("main-A/2", 0, ("main-A/2#4", 6)), ("main-A/3", 0, (first, 2)),
    ]  # fmt: skip
    assert found.contents == (
        Node(id=first, blocks=2), Node(id="main-A/0#3", parent=first, blocks=4), Node(id=second, blocks=2),
        Node(id="main-B/0#3", parent=second, blocks=4), Node(id="main-B/2#3", parent=second, blocks=4),
        Node(id="main-A/2#4", parent=first, blocks=6),
    )  # fmt: skip
    assert len(read_agent_traces(path, machine=Machine(memory=1000)).requests) == 4  # as before: A's third goes on
    with pytest.raises(BadInput, match="inputs are compared by 64 tokens; give a --block-size that divides 64"):
        read_agent_traces(path, machine=Machine(memory=1000, block=48), contents=True)
    given = ("--memory", 1000, "--block-size", 64, "--contents", "--out", tmp_path / "I.json")
    made = kvbound("import", "agent-traces", path, *given)
    assert "20.7 % of all prompt tokens begin an earlier context, too" in made.stderr  # 3 * 64 of 926


@pytest.mark.parametrize(("map", "block", "error"), [
    ("prompt=in,decode=out,contents=hash_ids", 2, "write contents=COLUMN:TOKENS, with the tokens of a block"),
    ("prompt=in,decode=out,contents=hash_ids:0", 2, "write contents=COLUMN:TOKENS, with the tokens of a block"),
    ("prompt=in,decode=out,arrival=in,session=in,contents=hash_ids:4", 2, "contents and session: hashes of whole"),
    (MAP, 3, "a hash is of 4 tokens, no whole blocks of 3; give --block-size 4, or what divides it"),
])  # fmt: skip
def test_what_is_wrong_with_hashes(tmp_path, map, block, error):
    with pytest.raises(BadInput, match=error):
        read(table(tmp_path, *ROWS), map, block=block)


def test_import_says_how_much_is_shared(tmp_path):
    out = tmp_path / "I.json"
    made = kvbound("import", "jsonl", table(tmp_path, *ROWS), "--map", MAP, "--block-size", 4, "--out", out)
    assert "37.0 % of all prompt tokens begin an earlier context, too" in made.stderr  # 8 of 14, and 12 of 16, of 54
    shown = kvbound("show", out)
    assert "contents of 7 blocks in 4 nodes, on the paths of 4 requests; reuse in the batch that" in shown.stdout
