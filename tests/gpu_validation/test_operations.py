"""The small kernels in the interpreter, against plain torch in fp64."""

import pytest
import torch

from gpu_validation.kernels.backend import TritonBackend
from tests.gpu_validation.operations import OPERATIONS, matmul, random, rms_norm, silu_mul, store_kv
from tests.gpu_validation.paged import TOLERANCE

WIDER = {torch.float64: 1, torch.float32: 2, torch.float16: 3, torch.bfloat16: 6}
"""The largest numbers here are about four, not one."""


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_kernel_agrees_with_its_twin(name, dtype):
    assert OPERATIONS[name](dtype) <= WIDER[dtype] * TOLERANCE[dtype]


@pytest.mark.parametrize("case", [
    lambda dtype: rms_norm(dtype, 1, 16), lambda dtype: rms_norm(dtype, 33, 100), lambda dtype: silu_mul(dtype, 1, 1),
    lambda dtype: silu_mul(dtype, 17, 1030), lambda dtype: matmul(dtype, 1, 16, 16),
    lambda dtype: matmul(dtype, 3, 300, 260), lambda dtype: store_kv(dtype, 2, 1, 1, 16, 1),
    lambda dtype: store_kv(dtype, 19, 12, 3, 64, 16), lambda dtype: store_kv(dtype, 16, 4, 4, 32, 64),
])  # fmt: skip
def test_odd_shapes(case):
    assert case(torch.float64) <= TOLERANCE[torch.float64]


def test_the_product_of_a_row_does_not_depend_on_the_batch_bitwise():
    backend = TritonBackend("cpu", strict=True)
    x, weight = random(67, 100, dtype=torch.float64), random(40, 100, dtype=torch.float64, seed=1)
    whole = backend.linear(x, weight)
    for first, last in ((0, 1), (5, 6), (66, 67), (13, 40)):
        assert torch.equal(backend.linear(x[first:last], weight), whole[first:last])


def test_empty_batches():
    backend, empty = TritonBackend("cpu", strict=True), torch.empty((0, 8))
    assert backend.linear(empty, torch.ones((3, 8))).shape == (0, 3)
    assert backend.silu_mul(empty).shape == (0, 4)
    assert backend.rms_norm(empty, torch.ones(8), 1e-5)[0].shape == (0, 8)
