"""The four levels at which the KV is true, each with its own claim, and each able to fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from costmodels.models import LLAMA_1B, TINY
from gpu_validation import check, swap, truth
from gpu_validation.backend import TorchBackend
from gpu_validation.check import HELD
from gpu_validation.engine import Engine, ReplayResult
from gpu_validation.kernels.backend import TritonBackend
from gpu_validation.plan import make_plan
from gpu_validation.scenarios import WAYS, laid_out, workload
from tests.gpu_validation.test_plan import moved

torch.set_num_threads(1)
MICRO = replace(TINY, name="micro", layers=1, width=32, heads=2, kv_heads=1, hidden=32, vocabulary=64)
"""For the interpreter, in which a program takes milliseconds."""


def torch_engine(dtype):
    return Engine(TINY, TorchBackend(), dtype=dtype)


def plans_of(ways, **more):
    made = workload(**more)
    return {way: make_plan(made, laid_out(made, way)) for way in ways}


def changed_run(change):
    """Two runs of one token each: logits (3, 2, 0), and those changed."""
    logits = torch.tensor([3.0, 2.0, 0.0])
    return tuple(
        (name, ReplayResult([], 0.0, [], 0, {"R": [token]}, {("R", 1): row}))
        for name, row, token in (("a", logits, 0), ("b", logits + torch.tensor(change), 0))
    )


# --- L0 ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("block", [1, 4, 16])
def test_l0_swaps_are_exact(dtype, block):
    plans = plans_of(("preserve", "swap"), block=block)
    record = truth.swaps_are_exact(torch_engine(dtype), plans["preserve"], plans["swap"])
    assert record["holds"]
    assert (record["level"], record["wrong_checksums"], record["unequal_logits"]) == ("L0", 0, 0)
    assert record["swapped_tokens"] == sum(moved(b.out) for b in plans["swap"].batches) > 400
    assert record["logits"] == 64


def test_l0_fails_for_one_lost_number(monkeypatch):
    plans = plans_of(("preserve", "swap"))
    copy = swap.move

    def lossy(cache, pieces, out, layers):
        copy(cache, pieces, out, layers)
        if not out:
            cache.pool[pieces[0].device, 1, 1, 0, 0, 3] *= 1 + 2**-7

    monkeypatch.setattr(swap, "move", lossy)
    record = truth.swaps_are_exact(torch_engine(torch.bfloat16), plans["preserve"], plans["swap"])
    assert not record["holds"]
    assert record["wrong_checksums"] > 0
    assert record["unequal_logits"] > 0


def test_l0_fails_where_nothing_was_swapped():
    plans = plans_of(("preserve",))
    assert not truth.swaps_are_exact(torch_engine(torch.float32), plans["preserve"], plans["preserve"])["holds"]


# --- L1 ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("block", [1, 2, 16])
def test_l1_tokens_are_equal_in_fp64(block):
    records = truth.tokens_are_equal(torch_engine(torch.float64), truth.truth_plans(workload(block=block)))
    assert [record["schedule"] for record in records] == [*WAYS[1:], "chunked", "alone"]
    for record in records:
        print(f"{record['schedule']}: margin {record['smallest_margin']}, difference {record['largest_difference']}")
        assert record["holds"]
        assert not record["void"]
        assert record["largest_difference"] < 1e-13


@pytest.mark.parametrize(("change", "void", "holds"), [([0.0, 0.4, 0.0], False, True), ([0.0, 0.6, 0.0], True, False)])
def test_l1_is_void_where_the_margin_is_within_twice_the_difference(change, void, holds):
    record = truth._equal_tokens(torch_engine(torch.float32), *changed_run(change))
    assert (record["smallest_margin"], record["void"], record["holds"]) == (1.0, void, holds)


# --- L2 ----------------------------------------------------------------------------------------------------------
def strict_records(plans, strict):
    engine = Engine(MICRO, TritonBackend("cpu", strict=strict), dtype=torch.float64)
    return truth.logits_are_bitwise_equal(engine, plans)


def test_l2_strict_kernels_recompute_bitwise_in_the_interpreter():
    made = workload(requests=2, prompt=3, decode=1, returns=1)
    plans = {way: make_plan(made, laid_out(made, way, every=0)) for way in ("preserve", "recompute")}
    [record] = strict_records(plans, strict=True)
    assert (record["holds"], record["strict"], record["backend"]) == (True, True, "TritonBackend")
    assert record["logits"] == 8


def test_l2_fails_for_products_that_depend_on_the_batch():
    records = truth.logits_are_bitwise_equal(torch_engine(torch.float64), truth.truth_plans(workload()))
    assert {record["schedule"] for record in records if not record["holds"]} >= {"recompute", "alone"}
    assert all(record["unequal_logits"] > 0 for record in records if not record["holds"])


# --- L3 ----------------------------------------------------------------------------------------------------------
def test_l3_forces_every_run_along_the_first():
    plans, engine = plans_of(("preserve", "recompute")), torch_engine(torch.float64)
    first = engine.run(plans["preserve"])
    teacher = truth.teacher_of(plans["preserve"], first)
    teacher[1 + plans["preserve"].width + 20] += 1
    forced = engine.run(plans["recompute"], teacher=teacher, keep_logits=True)
    assert forced.tokens != first.tokens
    assert forced.tokens[plans["preserve"].ids[0]] == first.tokens[plans["preserve"].ids[0]]


@pytest.mark.parametrize(("change", "holds", "flips"), [
    ([0.0, 0.14, 0.0], True, 0),  # the reference is 0.1 off
    ([0.0, 0.16, 0.0], False, 0),
    ([-0.6, 0.6, 0.0], False, 1),
])  # fmt: skip
def test_l3_fails_where_the_error_is_more_than_that_of_the_reference(change, holds, flips):
    (_, exact), other = changed_run(change)
    reference = changed_run([0.0, 0.0, 0.1])[1][1]
    record = truth._close(torch_engine(torch.float32), exact, reference, other)
    assert (record["holds"], record["flips"]) == (holds, flips)
    assert record["relative_worst"] == pytest.approx(torch.tensor(change).norm().item() / 13**0.5, rel=1e-5)
    missing = truth._close(torch_engine(torch.float32), exact, reference, ("none", ReplayResult([], 0, [], 0, {})))
    assert not missing["holds"]


def test_one_token_far_off_is_not_hidden_by_the_mean():
    runs = []
    for off in (0.0, 0.1, 0.25):
        rows = {("R", k): torch.tensor([3.0, 2.0 + (off if k == 7 or off == 0.1 else 0.0)]) for k in range(50)}
        runs.append(ReplayResult([], 0.0, [], 0, {}, rows))
    exact, reference, other = runs
    record = truth._close(torch_engine(torch.float32), exact, reference, ("s", other))
    assert record["relative_mean"] < record["reference_mean"]
    assert not record["holds"]


# --- all levels --------------------------------------------------------------------------------------------------
def test_all_levels_on_plain_torch():
    records = truth.check_all(TINY, workload(requests=2), "cpu", "torch")
    assert [record["level"] for record in records] == ["L0"] + ["L1"] * 6 + ["L3"] * 7
    assert all(record["holds"] for record in records)
    assert {record["dtype"] for record in records} == {"bfloat16", "float64"}


@pytest.fixture
def rounding(monkeypatch):
    """Let Triton's interpreter round to bf16, as devices do; it cuts off, which errs twice as much."""

    def convert(values, source, target, mode):
        if (source, target) != (tl.float32, tl.bfloat16):
            return cut(values, source, target, mode)
        return torch.from_numpy(np.array(values)).bfloat16().view(torch.int16).numpy().view(np.uint16)

    cut = interpreter._convert_float
    monkeypatch.setattr(interpreter, "_convert_float", convert)


@pytest.mark.slow
@pytest.mark.usefixtures("rounding")
def test_all_levels_in_the_interpreter():
    records = truth.check_all(MICRO, workload(requests=2), "cpu", "triton")
    assert [record["level"] for record in records] == ["L0"] + ["L1"] * 6 + ["L2"] * 6 + ["L3"] * 7
    assert all(record["holds"] for record in records)
    assert {record["strict"] for record in records if record["level"] == "L2"} == {True}


# --- the kernels under the engine ---------------------------------------------------------------------------------
def test_the_kernels_generate_the_tokens_of_plain_torch():
    made = workload(requests=3, prompt=2, decode=2, returns=1)
    plan = make_plan(made, laid_out(made, "swap", every=0))
    runs = []
    for backend in (TorchBackend(), TritonBackend("cpu")):
        engine = Engine(MICRO, backend, dtype=torch.float64)
        runs.append(engine.run(plan, keep_logits=True, poison=True, check=True))
    assert runs[0].tokens == runs[1].tokens
    assert max(truth._difference(*runs)) < 1e-12
    assert all(token.before == token.after for token in runs[1].swapped)


def test_the_workload_of_a_gpu_reaches_every_variant_and_contexts_of_2000():
    """As the engine would choose them on a GPU: nothing runs here."""
    backend = TritonBackend("cpu")
    backend.prepare(LLAMA_1B.heads, LLAMA_1B.kv_heads, LLAMA_1B.head_width, torch.bfloat16)
    reached, longest = set(), 0
    for plan in truth.truth_plans(HELD, chunk=300).values():
        for planned in plan.batches[:40]:
            lengths = [work.resident + work.tokens for work in planned.work]
            layout = backend.layout(planned.starts(), lengths, [work.table for work in planned.work])
            while layout is not None and layout.variant is not None:
                reached.add(layout.variant.name)
                longest, layout = max(longest, *lengths), layout.rest
    assert reached == {"decode", "decode-few", "prefill", "prefill-few"}
    assert 1900 < longest < 2100


# --- the preflight -----------------------------------------------------------------------------------------------
def test_the_preflight_lists_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(check.shutil, "which", lambda name: None)
    assert check.main(["--device", "cpu", "--preflight"]) == 0  # a CPU needs none of it
    assert "preflight : a C compiler is not here" in capsys.readouterr().out
    rows = {row["check"]: row for row in check.preflight(torch.device("cpu"))}
    assert (rows["a C compiler"]["holds"], rows["triton"]["holds"]) == (False, True)


def test_the_preflight_compares_a_variant_with_the_twin(monkeypatch):
    assert check._attention("decode", TINY, torch.float32, torch.device("cpu")) == ""
    attention = TritonBackend.attention
    monkeypatch.setattr(TritonBackend, "attention", lambda *given: 1.01 * attention(*given))
    assert check._attention("decode", TINY, torch.float32, torch.device("cpu")).startswith(
        "wrong: relative error 1.0e-02"
    )
