"""The attention kernel in the interpreter, against plain torch in fp64."""

from dataclasses import replace

import pytest
import torch

from gpu_validation.kernels import paged_attention
from gpu_validation.kernels.backend import TritonBackend
from gpu_validation.kernels.variants import VARIANTS, HeadShape, variant_for, work_list
from kvcore.errors import BadInput
from tests.gpu_validation.paged import TOLERANCE, Batch, attend, error, expected, inputs_of

CASES = {
    "one token": Batch(((1, 1),)),
    "decodes around a block": Batch(((15, 1), (16, 1), (17, 1))),
    "decodes around a tile": Batch(((63, 1), (64, 1), (65, 1), (128, 1))),
    "decode in two splits": Batch(((300, 1), (1, 1), (256, 1)), heads=2, kv_heads=1),
    "decode in 8 splits": Batch(((1800, 1),), heads=1, kv_heads=1, block=64),
    "whole prompt": Batch(((20, 20),)),
    "prompt of two tiles": Batch(((70, 70),), heads=2, kv_heads=1),
    "chunk at an offset": Batch(((40, 9),)),
    "chunk from a tile's edge": Batch(((80, 16),)),
    "mixed": Batch(((33, 1), (20, 20), (70, 9), (1, 1))),
    "a request without rows": Batch(((7, 0), (20, 3), (9, 0), (30, 1))),
    "blocks of 1": Batch(((5, 1), (12, 12), (67, 3)), block=1),
    "blocks of 3": Batch(((5, 1), (12, 12), (67, 3)), block=3),
    "blocks of 64": Batch(((65, 1), (12, 12), (67, 3)), block=64),
    "width 64": Batch(((33, 1), (20, 20)), width=64),
    "width 128": Batch(((33, 1), (20, 9)), width=128),
    "every head its own KV": Batch(((33, 1), (20, 9)), heads=2),
    "8 heads share": Batch(((33, 1), (20, 9)), heads=8, kv_heads=1),
    "3 heads share": Batch(((33, 1), (40, 25)), heads=6),
    "32 heads share": Batch(((33, 1), (20, 3)), heads=32, kv_heads=1),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_is_right_in_fp64(case):
    assert error(TritonBackend("cpu"), inputs_of(CASES[case], torch.float64)) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("case", ["a request without rows", "decodes around a tile", "blocks of 3", "3 heads share"])
def test_strict_attention_is_right_in_fp64(case):
    inputs = inputs_of(CASES[case], torch.float64)
    output, layout = attend(TritonBackend("cpu", strict=True), inputs)
    assert (layout.variant.name, layout.rest) == ("strict", None)
    torch.testing.assert_close(output, expected(inputs), atol=1e-13, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", ["mixed", "decode in two splits"])
def test_attention_is_right_in_the_dtypes_of_a_gpu(case, dtype):
    assert error(TritonBackend("cpu"), inputs_of(CASES[case], dtype)) <= TOLERANCE[dtype]


@pytest.mark.parametrize(("case", "first", "rest"), [
    ("decodes around a block", "decode-few", None), ("whole prompt", "prefill-few", None),
    ("mixed", "decode-few", "prefill-few"),
])  # fmt: skip
def test_decodes_and_other_rows_have_kernels_of_their_own(case, first, rest):
    backend = TritonBackend("cpu")
    _, layout = attend(backend, inputs_of(CASES[case], torch.float64))
    assert (layout.variant.name, layout.rest and layout.rest.variant.name) == (first, rest)


def test_one_variant_can_be_asked_for():
    variant = replace(VARIANTS["decode", 8], tile=32, split=64)
    inputs = inputs_of(CASES["decodes around a tile"], torch.float64)
    output, layout = attend(TritonBackend("cpu", variant=variant), inputs)
    assert (layout.variant, layout.splits, layout.rest) == (variant, 2, None)
    torch.testing.assert_close(output, expected(inputs), atol=1e-13, rtol=0)
    with pytest.raises(BadInput, match="decode splits the KV, and serves requests with one row only"):
        attend(TritonBackend("cpu", variant=variant), inputs_of(CASES["mixed"], torch.float64))


def test_large_batches_take_the_large_variants(monkeypatch):
    shape = HeadShape(group=2, kv_heads=2, width=16, size=8)
    assert variant_for("decode", [4096] * 64, HeadShape(4, 8, 64, 2)).name == "decode"
    assert variant_for("prefill", [2048], HeadShape(4, 8, 64, 2)).name == "prefill"
    assert (variant_for("decode", [64], shape).name, variant_for("prefill", [64], shape).name) == (
        "decode-few",
        "prefill-few",
    )
    monkeypatch.setattr("gpu_validation.kernels.variants.SMS", 0)
    inputs = inputs_of(Batch(((600, 1), (70, 70))), torch.float64)
    output, layout = attend(TritonBackend("cpu"), inputs)
    assert (layout.variant.name, layout.splits, layout.rest.variant.name) == ("decode", 2, "prefill")
    torch.testing.assert_close(output, expected(inputs), atol=1e-13, rtol=0)


def test_the_work_with_the_most_kv_comes_first():
    starts, lengths = [0, 5, 6, 8], [5, 100, 40]
    assert work_list(starts, lengths, [0, 1, 2], 2) == [(1, 0), (2, 0), (0, 4), (0, 2), (0, 0)]


def test_no_rows_give_no_rows():
    backend = TritonBackend("cpu")
    inputs = inputs_of(Batch(((7, 0),)), torch.float64)
    assert attend(backend, inputs)[0].shape == (0, 4, 16)
    empty = backend.layout([0], [], [])
    assert backend.attention(inputs.query, inputs.kv, empty, 1.0).shape == (0, 4, 16)


def rows_of(backend, inputs, cuts):
    """Return the rows of one request computed in chunks that end at `cuts`."""
    parts = []
    before = inputs.lengths[0] - len(inputs.query)
    for first, last in zip([0, *cuts], [*cuts, len(inputs.query)], strict=True):
        chunk = inputs._replace(query=inputs.query[first:last], starts=[0, last - first], lengths=[before + last])
        parts.append(attend(backend, chunk)[0])
    return torch.cat(parts)


def test_strict_rows_do_not_depend_on_the_chunk_bitwise():
    inputs = inputs_of(Batch(((70, 37),)), torch.float64)
    backend = TritonBackend("cpu", strict=True)
    whole, layout = attend(backend, inputs)
    assert layout.variant.name == "strict"
    for cuts in (range(16, 37, 16), range(5, 37, 5), range(30, 37)):
        assert torch.equal(whole, rows_of(backend, inputs, list(cuts)))


def test_strict_rows_do_not_depend_on_the_batch_bitwise():
    inputs = inputs_of(Batch(((70, 5), (20, 20), (65, 1))), torch.float64)
    backend = TritonBackend("cpu", strict=True)
    whole, _ = attend(backend, inputs)
    for s, (first, last) in enumerate([(0, 5), (5, 25), (25, 26)]):
        alone = backend.layout([0, last - first], [inputs.lengths[s]], [inputs.tables[s]])
        output = backend.attention(inputs.query[first:last], inputs.kv, alone, inputs.scale)
        assert torch.equal(output, whole[first:last])


def test_the_kernels_are_interpreted_here():
    assert paged_attention.INTERPRETED
    assert ("strict", 2) in VARIANTS
