"""Whatever is wrong with a file is said in one clear line; what is written is read back equal."""

import hashlib
import json
import os
import pickle
import random
import re
import tracemalloc
from collections import deque
from contextlib import contextmanager, nullcontext
from fractions import Fraction

import pytest
from pydantic import ValidationError

from kvcore import BadInput, Batch, Instance, Machine, Request, Schedule, Segment, Slo, verify_schedule
from kvcore.certificates import Certificate
from kvcore.csv_table import read_csv
from kvcore.files import MAX_BYTES, parse, read_instance, read_schedule, read_text, write_text
from kvcore.instance import LIMIT
from tests.support.drawer import draw_instance
from tests.support.mars_schedules import MARS, mars
from tests.support.random_schedules import random_schedule
from workloads.builtin import builtin_instance

DELETE = object()


def mars_json():
    return json.loads(mars().to_json())


def changed(*path, to):
    """The text of the MARS instance with the value at `path` replaced, added or deleted."""
    document = mars_json()
    place = document
    for key in path[:-1]:
        place = place[key]
    if to is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(document)


def bad(text, message, model=Instance):
    """Assert that reading the text fails with one short line that holds the message (taken literally)."""
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        parse(model, text, "file.json")
    return one_line(str(caught.value))


@contextmanager
def at_most(size):
    """Assert that no more bytes are taken inside of the block."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def one_line(line):
    assert line.startswith("file.json: ")
    assert line.isprintable(), line
    assert len(line) < 500, len(line)
    return line


# --- types and ranges --------------------------------------------------------------------------------------------

CALL = ("requests", 0, "segments", 0, "call")
COUNTS = [("requests", 0, "arrival"), (*CALL, "duration"), (*CALL, "returns"), ("machine", "host_memory"),
          ("cost", 0, "busy"), ("cost", 0, "decode_kv")]  # fmt: skip
POSITIVES = [*(("machine", name) for name in ("memory", "block", "batch_tokens", "prefill_tokens", "batch_requests")),
             *(("requests", 0, name) for name in ("prompt", "weight")), ("requests", 0, "segments", 0, "decode"),
             ("cost", 0, "divisor"), ("version",)]  # fmt: skip


@pytest.mark.parametrize("path", COUNTS + POSITIVES, ids=lambda path: str(path[-1]))
def test_integers_are_integers_in_their_range(path):
    for value, shown in (
        (True, "true"), (1.0, "1.0"), ("1", '"1"'), (1.5, "1.5"), (1e400, None), (float("nan"), None),
    ):  # fmt: skip
        expected = f"must be a valid integer (it is {shown})" if shown else "is not a number that a file"
        bad(changed(*path, to=value), expected)
    bad(changed(*path, to=[]), f"{path[-1]}: must be a valid integer")
    least = 0 if path in COUNTS else 1
    bad(changed(*path, to=least - 1), f"must be greater than or equal to {least} (it is {least - 1})")
    for huge in (LIMIT + 1, 10**19, 10**400):
        bad(changed(*path, to=huge), "must be less than or equal to")


@pytest.mark.parametrize("switch", ["hybrid", "chunked", "evict", "partial", "pause"])
def test_switches_are_booleans(switch):
    for value in (0, 1, "true", None):
        bad(changed("machine", switch, to=value), f"machine.{switch}: must be a valid boolean")


def test_limits_may_be_null_and_nothing_else_may():
    for limit in ("memory", "host_memory", "batch_tokens", "prefill_tokens", "batch_requests"):
        assert getattr(parse(Instance, changed("machine", limit, to=None), "x").machine, limit) is None
    for path in (("machine", "block"), ("requests", 0, "prompt"), ("name",), ("requests",), ("cost",)):
        bad(changed(*path, to=None), "(it is null)")


ONE_FAULT = [
    # words
    (("format",), "kvbound-schedule", "format: must be 'kvbound-instance'"),
    (("version",), 3, "version: must be less than or equal to 2 (it is 3)"),
    ((*CALL, "handling"), "keep", "or 'free' (it is \"keep\")"),
    # lists
    (("requests",), [], "requests: must have at least 1 item"),
    (("requests", 0, "segments"), [], "requests[0].segments: must have at least 1 item"),
    (("cost",), [], "cost: must have at least 1 item"),
    (("cost",), [{"busy": 1}] * 1001, "cost: must have at most 1000 items"),
    (("requests",), {}, "requests: must be a valid array"),
    (("machine",), [], "machine: must be an object"),
    # keys
    *(((*place, "colour"), 1, "colour: unknown key (it is 1)")
      for place in [(), ("machine",), ("requests", 0), ("requests", 0, "segments", 0), ("cost", 0)]),
    *((path, DELETE, f"{path[-1]}: this key is missing")
      for path in [("machine",), ("machine", "memory"), ("requests",), ("requests", 0, "id"), ("requests", 0, "prompt"),
                   ("requests", 0, "segments"), ("requests", 0, "segments", 0, "decode")]),
    (("a\nb\x1b[31m" + "x" * 10_000,), 1, "a b?[31mxxx"),
    (("machine", "memory"), "a\nb\x1b" + "x" * 10_000, "machine.memory: must be a valid integer"),
    # names
    (("requests", 0, "id"), "", "requests[0].id: must have at least 1 character"),
    (("requests", 0, "id"), "x" * 201, "requests[0].id: must have at most 200 characters"),
    (("requests", 0, "id"), 5, "requests[0].id: must be a valid string (it is 5)"),
    *((path, text, f"{where}: only printable characters") for text in ("a\nb", "a\tb", "\x1b[31m", "a\u2028b", "\x00")
      for path, where in ((("requests", 0, "id"), "requests[0].id"), (("name",), "name"))),
    # requests
    (("requests", 0, "id"), "R2", "two requests have the id R2"),
    (("requests", 1, "segments", 1, "call"), {"duration": 1},
     "requests[1]: request R2: the last segment must not end with a call"),
    (("requests", 1, "segments", 0, "call"), None,
     "request R2: segment 1 must end with a call (only the last has none)"),
    (("machine", "prefill_tokens"), 2, "machine: prefill_tokens 2 exceeds batch_tokens 1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), ONE_FAULT, ids=lambda value: str(value)[:20])
def test_one_fault_is_named(path, value, message):
    bad(changed(*path, to=value), message)


def test_what_is_nearly_a_fault_is_read():
    assert parse(Instance, changed("requests", 0, "id", to="Anfrage 1 für Zoë"), "x").requests[0].id[-3:] == "Zoë"
    assert parse(Instance, changed("machine", "batch_tokens", to=2), "x").machine.prefill_limit == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [("[{}, {}]", "file.json: must be an object"), ('{"x": [{}, {}]}', "file.json: x: unknown key")],
)
def test_pydantic_is_not_shown_what_it_would_refuse_whole_of_a_large_file(text, why, monkeypatch):
    """It makes objects of what it refuses: 50 bytes for each byte of a file of empty objects."""
    monkeypatch.setattr("kvcore.files.LARGE", 0)
    monkeypatch.setattr(Schedule, "model_validate_json", None)
    with pytest.raises(BadInput, match=f"^{re.escape(why)}$"):
        parse(Schedule, text, "file.json")


def test_a_duplicate_key():
    text = changed("machine", "memory", to=6)
    bad(text.replace('"memory": 6', '"memory": 6, "memory": 7'), "the key 'memory' stands twice in one object")
    many = ",".join(f'"k{i}":1' for i in range(100_000))
    bad("{" + many + ',"k99999":2}', "the key 'k99999' stands twice")
    bad('{"a\\nb": 1, "a\\nb": 2}', "stands twice")


# --- what the instance forbids -----------------------------------------------------------------------------------
def one_request(machine, **request):
    request = {"id": "A", "prompt": 4, "segments": [{"decode": 1}]} | request
    return json.dumps({"machine": {"memory": None} | machine, "requests": [request]})


def calling(handling, returns=2):
    return [{"decode": 2, "call": {"duration": 1, "returns": returns, "handling": handling}}, {"decode": 1}]


THREE, WHOLE = {"segments": [{"decode": 3}]}, {"chunked": False}
ROOM, MOVED = "(rule R6); it takes a memory of", "(rules R7 and R9); it takes a host_memory of 5, or another handling"
NEEDS = "and prefills are not chunked (rules R3 and R5); it takes a prefill budget of"
NEVER = [
    ({"memory": 5}, THREE, f"its last token needs 6 tokens of KV (6 blocks of 1), memory is 5 {ROOM} 6", {"memory": 6}),
    ({"memory": 7, "block": 4}, THREE, f"6 tokens of KV (2 blocks of 4), memory is 7 {ROOM} 8", {"memory": 8}),
    ({"memory": 3, "block": 4}, {"prompt": 1}, f"1 tokens of KV (1 blocks of 4), memory is 3 {ROOM} 4", {"memory": 4}),
    *(({"batch_tokens": 3} | WHOLE, {},
       f"its prompt is a prefill of 4 tokens, a batch takes 3 {NEEDS} 4, or chunked", more)
      for more in ({"batch_tokens": 4}, {"chunked": True})),
    ({"batch_tokens": 9, "prefill_tokens": 3} | WHOLE, {}, f"a batch takes 3 {NEEDS} 4, or chunked",
     {"prefill_tokens": 4}),
    # at the call 4 + 2 - 1 tokens are held; the refill is of these, the last generated one, and the 2 returned
    *(({"batch_tokens": 7} | WHOLE, {"segments": calling("discard")},
       f"the refill after call 1 is a prefill of 8 tokens, a batch takes 7 {NEEDS} 8, or chunked", more)
      for more in ({"batch_tokens": 8}, {"chunked": True})),
    *(({"batch_tokens": 4} | WHOLE, {"segments": calling(handling, returns=4)},
       f"what call 1 returns is a prefill of 5 tokens, a batch takes 4 {NEEDS} 5, or chunked", {"batch_tokens": 5})
      for handling in ("preserve", "free")),
    ({"host_memory": 4}, {"segments": calling("swap")}, f"call 1 swaps out 5 tokens, host_memory is 4 {MOVED}",
     {"host_memory": 5}),
]  # fmt: skip
"""Machines that are one unit too small for a request, what is said of it, and the least repair."""


@pytest.mark.parametrize(("machine", "request_", "why", "repair"), NEVER)
def test_what_can_never_fit_names_its_rules_and_the_least_repair(machine, request_, why, repair):
    line = bad(one_request(machine, **request_), why)
    assert line.startswith("file.json: request A can never fit: ")
    assert line.endswith(why)
    parse(Instance, one_request(machine | repair, **request_), "x")


def test_other_handlings_fit():
    for handling in ("preserve", "swap", "free"):
        machine = {"batch_tokens": 7, "chunked": False, "host_memory": None}
        parse(Instance, one_request(machine, segments=calling(handling)), "x")
    parse(Instance, one_request({"host_memory": 4}, segments=calling("free")), "x")


def test_the_smallest_conflict_is_one_request_or_one_call_of_it():
    """Of several requests and calls, the line names the one to blame; with another handling, all is well."""
    calls = [*calling("free")[:1], *calling("swap")]
    fine = {"id": "B", "prompt": 1, "segments": [{"decode": 1}]}
    blamed = {"id": "A", "prompt": 4, "segments": calls}
    machine = {"memory": None, "host_memory": 8}
    bad(json.dumps({"machine": machine, "requests": [fine, blamed]}), "request A can never fit: call 2 swaps out 9")
    calls[1]["call"]["handling"] = "preserve"
    parse(Instance, json.dumps({"machine": machine, "requests": [fine, blamed]}), "x")


# --- fractions ---------------------------------------------------------------------------------------------------


NO_FRACTION = [True, None, "x", "", " 1/2", "1/2/3", "1_0", "1e3", "-1/2", "1.5", 1.0]
LONG = "a fraction in text has at most 40 characters"
LARGE = f"its numerator and denominator are at most {LIMIT}"


@pytest.mark.parametrize(
    ("value", "message"),
    [("0", 'must be above 0 (it is "0")'), (0, "must be above 0"), (-1, "must be above 0"),
     ("1/0", "not a fraction: '1/0'"), (1.5, 'give an integer or a fraction in text, such as "3/2" (it is 1.5)'),
     *((value, "give an integer or a fraction in text") for value in NO_FRACTION), ("1" * 41, LONG),
     ("1" * 10**6, LONG), (10**400, LARGE), (f"1/{LIMIT + 1}", LARGE)],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_what_is_no_positive_fraction(value, message):
    bad(changed("tick_seconds", to=value), f"tick_seconds: {message}")
    if value is not None:
        bad(changed("requests", 0, "slo", to={"tpot": value}), f"requests[0].slo.tpot: {message}")


def test_fractions_in_text_are_exact():
    for text, value in (("3/2", Fraction(3, 2)), ("6/4", Fraction(3, 2)), ("2", Fraction(2)), (2, Fraction(2))):
        assert parse(Instance, changed("tick_seconds", to=text), "x").tick_seconds == value
    assert parse(Instance, changed("tick_seconds", to=f"{LIMIT}/{LIMIT - 1}"), "x").tick_seconds > 1


# --- what is no JSON ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [Instance, Schedule])
@pytest.mark.parametrize(("text", "message"), [
    ("", "not JSON: Expecting value (line 1, column 1)"),
    ("  \n\n", "not JSON: Expecting value"),
    ("{'a': 1}", "not JSON: Expecting property name"),
    ('{"a": 1} x', "not JSON: Extra data (line 1, column 10)"),
    ("\ufeff{}", "not JSON: Unexpected UTF-8 BOM"),
    ("null", "must be an object"),
    ("[1, 2]", "must be an object"),
    ("1e400", "must be an object"),
    ('{"version": NaN}', "NaN is not a number that a file may hold"),
    ('{"version": -Infinity}', "-Infinity is not a number that a file may hold"),
    ('{"version": ' + "1" * 5000 + "}", "Exceeds the limit (4300 digits)"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a":' * 100_000, "nested too deeply"),
    ('{"name":' + "[" * 300 + "]" * 300 + "}", "recursion limit exceeded"),
    ('{"name": "\\ud800"}', "Invalid JSON: unexpected end of hex escape"),
    ('{"name": "a\nb"}', "not JSON: Invalid control character"),
], ids=lambda value: value[:14] if isinstance(value, str) else value.__name__)  # fmt: skip
def test_what_is_no_json_object(model, text, message):
    assert "sys." not in bad(text, message, model)


def test_a_number_beyond_floating_point():
    text = changed("machine", "memory", to=6)
    bad(text.replace('"memory": 6', '"memory": 1e400'), "machine.memory: must be a valid integer")


def test_every_truncation_of_a_file():
    text = mars().to_json(indent=None)
    for length in range(0, len(text), 7):
        bad(text[:length], "not JSON")


# --- files -------------------------------------------------------------------------------------------------------
def refused(path, message):
    for reader in (read_instance, read_schedule):
        with pytest.raises(BadInput, match=re.escape(message)) as caught:
            reader(path)
        one_line(str(caught.value).replace(str(path), "file.json"))


def test_files_that_cannot_be_read_or_hold_no_text(tmp_path):
    refused(tmp_path / "none.json", "cannot be read: No such file or directory")
    refused(tmp_path, "cannot be read: Is a directory")
    path = tmp_path / "file"
    for data, message in (
        (b"", "not JSON: Expecting value"), (b"\x7fELF\x02\x01\xff\xfe", "not UTF-8 text (byte 6)"),
        (b"PK\x03\x04", "not JSON"),
    ):  # fmt: skip
        path.write_bytes(data)
        refused(path, message)


def test_a_huge_file_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "huge.json"
    path.touch()
    os.truncate(path, 2**30)
    with at_most(2**20):
        refused(path, "larger than 256 MiB")


def test_a_file_of_exactly_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("kvcore.files.MAX_BYTES", 2**20)
    path = tmp_path / "file.json"
    path.write_text(" " * 2**20)
    assert len(read_text(path)) == 2**20
    path.write_text(" " * (2**20 + 1))
    refused(path, "larger than 1 MiB")
    assert MAX_BYTES == 256 * 2**20


def test_a_certificate_may_be_smaller_only():
    with pytest.raises(BadInput, match=r"c\.json: larger than 64 MiB, which is the most that is read of such a file"):
        parse(Certificate, " " * (64 * 2**20 + 1), "c.json")


def test_standard_input(monkeypatch, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(mars().to_json())
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert read_instance("-") == mars()
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        monkeypatch.setattr("kvcore.files.MAX_BYTES", 100)
        with pytest.raises(BadInput, match="standard input: larger than"):
            read_instance("-")


def test_writing_is_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.json"
    write_text(target, "{}")
    assert target.read_text() == "{}\n"
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        write_text(tmp_path / "none" / "out.json", "{}")
    with pytest.raises(BadInput, match="cannot be written"):
        write_text(tmp_path, "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


# --- schedules ---------------------------------------------------------------------------------------------------


UNITS = {
    "empty batches": "{},", "lists for batches": "[],", "numbers for batches": "0,", "texts for batches": '"",',
    "wrong starts": '{"start":""},', "unknown keys": '{"start":0,"a":0},',
    "good batches": '{"start":0,"work":{"R1":1}},',
    "good batches of many requests": '{"start":0,"work":{"R1":1,"R2":1,"R3":1}},',
}  # fmt: skip
"""What a schedule is full of."""


@pytest.mark.parametrize("what", [*UNITS, "entries of one batch", "keys of one file", "digits"])
def test_reading_takes_memory_in_proportion_to_the_file(what):
    """About 20 bytes for a byte of the file."""
    if what in UNITS:
        text = (UNITS[what] * (2**18 // len(UNITS[what])))[:-1]
    elif what == "entries of one batch":
        text = '{"start":0,"work":{' + ",".join(f'"{k:x}":""' for k in range(2**15)) + "}}"
    else:
        text = "" if what == "keys of one file" else "1" * 2**18
    more = "".join(f',"{k:x}":0' for k in range(2**15)) if what == "keys of one file" else ""
    text = f'{{"instance_sha256":"x","batches":[{text}]{more}}}'
    good = what.startswith("good")
    with at_most((20 if good else 30) * len(text)), nullcontext() if good else pytest.raises(BadInput):
        parse(Schedule, text, "x")


@pytest.mark.parametrize(("header", "row"), [("a,b", "1,2"), ("a,b,c,d", ",,,1"), ("a,b", "12.5,tool")])
def test_reading_a_table_takes_no_memory(tmp_path, header, row):
    path = tmp_path / "table.csv"
    path.write_text(header + "\n" + f"{row}\n" * 20_000)
    with at_most(2**18):
        (last,) = deque(read_csv(path, header.split(",")).rows, maxlen=1)
    assert (last.line, last.text("b")) == (20_001, row.split(",")[1])


def test_a_part_of_a_batch_that_is_left_out_stays_empty():
    batch = Batch(start=0, work={"R1": 1})
    with pytest.raises(TypeError, match="a batch is not changed: make another one"):
        batch.drop["R1"] = 1
    assert batch == Batch(start=0, work={"R1": 1}, drop={}, swap_out={}, swap_in={})
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_a_small_file_takes_no_memory_for_a_large_one(tmp_path):
    write_text(tmp_path / "i.json", mars().to_json())
    with at_most(2**20):
        read_instance(tmp_path / "i.json")


def test_a_bound_is_no_division_by_zero():
    proof = {"kind": "alone"}
    text = json.dumps({"instance_sha256": "0" * 64, "objective": "makespan", "bound": "5/0", "proof": proof})
    bad(text, "bound: String should match pattern '^-?[0-9]+(/0*[1-9][0-9]*)?$' (it is \"5/0\")", Certificate)


def test_the_first_of_thousands_of_unknown_keys_is_named():
    keys = "".join(f',"k{k}":0' for k in range(2000))
    bad('{"instance_sha256":"x","batches":[]' + keys + "}", "k0: unknown key", Schedule)


def schedule_json(**batch):
    batches = [{"start": 0, "work": {"R1": 1}} | batch]
    return json.dumps({"instance_sha256": mars().sha256, "batches": batches})


@pytest.mark.parametrize("what", ["work", "drop", "swap_out", "swap_in"])
def test_bad_tokens_in_a_schedule(what):
    for value in (True, 1.0, "1", None, [1]):
        bad(schedule_json(**{what: {"R1": value}}), f"batches[0].{what}.R1: must be a valid integer", Schedule)
    bad(schedule_json(**{what: {"R1": 10**16}}), f"batches[0].{what}.R1: must be less than", Schedule)
    bad(schedule_json(**{what: [["R1", 1]]}), f"batches[0].{what}: must be an object", Schedule)
    bad(schedule_json(**{what: {"a\nb": 1}}), "only printable characters", Schedule)
    bad(schedule_json(**{what: {"x" * 201: 1}}), "must have at most 200 characters", Schedule)


def test_bad_batches_in_a_schedule():
    bad(schedule_json(start=0.5), "batches[0].start: must be a valid integer (it is 0.5)", Schedule)
    bad(schedule_json(start=None), "batches[0].start: must be a valid integer (it is null)", Schedule)
    bad(schedule_json(start=10**60 + 1), f"batches[0].start: must be less than or equal to {10**60} (it is ", Schedule)
    bad(schedule_json(end=1), "batches[0].end: unknown key", Schedule)
    bad('{"batches": []}', "instance_sha256: this key is missing", Schedule)
    bad('{"instance_sha256": ""}', "batches: this key is missing", Schedule)
    bad(schedule_json().replace('{"R1": 1}', '{"R1": 1, "R1": 1}'), "the key 'R1' stands twice", Schedule)
    bad(mars().to_json(), "format: must be 'kvbound-schedule'", Schedule)


def test_negative_numbers_in_a_schedule_are_for_the_referee():
    assert parse(Schedule, schedule_json(start=-1, work={"R1": -3}), "x").batches[0].work == {"R1": -3}


def test_a_schedule_for_another_instance():
    other = builtin_instance("hindsight:n=3,M=10,seed=1")
    with pytest.raises(BadInput, match=r"the schedule is for another instance \(its instance_sha256 is [0-9a-f]{12}"):
        verify_schedule(other, MARS.schedule(mars()))
    same_but_for_a_name = mars().replace(name="renamed")
    with pytest.raises(BadInput, match=r"that of renamed is [0-9a-f]{12}\.\.\)"):
        verify_schedule(same_but_for_a_name, MARS.schedule(mars()))


# --- round trips and the hash ------------------------------------------------------------------------------------
def test_what_is_written_is_read_back_equal(tmp_path):
    path = tmp_path / "file.json"
    for seed in range(40):
        draw = random.Random(seed)
        instance = draw_instance(draw)
        write_text(path, instance.to_json(indent=draw.choice([None, 1])))
        again = read_instance(path)
        assert (again, again.sha256) == (instance, instance.sha256)
        schedule = random_schedule(draw, instance)
        write_text(path, schedule.to_json())
        assert read_schedule(path) == schedule


def test_names_beyond_ascii_are_read_back_equal(tmp_path):
    instance = Instance(
        name="größer ≥ 1 😀", tick_seconds=Fraction(1, 3), machine=Machine(memory=None),
        requests=(Request(id='"quoted" \\ É', prompt=1, segments=(Segment(decode=1),), slo=Slo(tpot=Fraction(7, 3))),),
    )  # fmt: skip
    write_text(tmp_path / "file.json", instance.to_json())
    assert read_instance(tmp_path / "file.json") == instance


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def without_defaults(value):
    """Leave out every null, false or zero and the other defaults of the MARS instance (not what has no default)."""
    defaults = {"hybrid": True, "chunked": True, "pause": True, "block": 1, "weight": 1, "divisor": 1, "version": 1,
                "tick_seconds": "1", "format": "kvbound-instance"}  # fmt: skip
    if isinstance(value, list):
        return [without_defaults(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if v not in (None, 0, False) and defaults.get(k) != v}
    return {key: without_defaults(item) for key, item in kept.items()}


def test_the_hash_does_not_depend_on_how_the_file_is_written():
    document = mars_json()
    shorter = without_defaults(document)
    assert len(json.dumps(shorter)) < len(json.dumps(document)) / 2
    variants = (reordered(document), shorter, document | {"tick_seconds": 1}, document | {"tick_seconds": "2/2"})
    layouts = (json.dumps(document, indent=7), json.dumps(document, separators=(",", ":")))
    for variant in (*map(json.dumps, variants), *layouts):
        assert parse(Instance, variant, "x").sha256 == mars().sha256


def test_the_hash_is_that_of_the_canonical_json():
    for instance in (mars(), *(draw_instance(random.Random(seed)) for seed in range(5))):
        document = json.loads(instance.to_json())
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert instance.sha256 == hashlib.sha256(canonical.encode("ascii")).hexdigest()


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def another(document, path, value):
    """The instance with the value at `path` replaced by another one that is valid there."""
    for other in (7, 2, True, False, None, "free", "other", {"ttft": 3}, {"knee": 1, "coefficient": 1}):
        place = copy = json.loads(json.dumps(document))
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other
        if str(other) != str(value):
            try:
                return parse(Instance, json.dumps(copy), "x")
            except BadInput:
                continue
    raise AssertionError(f"nothing else is valid at {path}")


def test_the_hash_changes_with_any_value():
    roomy = {"memory": 60, "host_memory": 60, "batch_tokens": 9, "prefill_tokens": 8}
    document = mars_json() | {"machine": mars_json()["machine"] | roomy}
    fixed = ("format", "version", "call", "coarsening")
    hashes = [parse(Instance, json.dumps(document), "x").sha256]
    for path, value in leaves(document):
        if path[-1] not in fixed:
            hashes.append(another(document, path, value).sha256)
    assert len(set(hashes)) == len(hashes) > 50


# --- the nouns in Python -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("make", "message"), [
    (lambda: Machine(memory=6.0), "valid integer"),
    (lambda: Segment(decode=True), "valid integer"),
    (lambda: setattr(mars().machine, "memory", 7), "frozen"),
    (lambda: mars().replace(machine=mars().machine.replace(memory=5)), "can never fit"),
    (lambda: Batch(start="0"), "valid integer"),
])  # fmt: skip
def test_nouns_made_in_python_are_checked_alike(make, message):
    with pytest.raises(ValidationError, match=message):
        make()


def test_replace_forgets_what_was_cached():
    before = mars()
    assert before.sha256 != before.replace(name="other").sha256
    assert before.replace(requests=before.requests[:1]).index == {"R1": 0}
    assert {call.handling for request in before.with_free_calls().requests for call in request.calls} == {"free"}
