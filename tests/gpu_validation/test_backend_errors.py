"""What a backend of Triton refuses, and how it says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_validation.kernels.backend import TritonBackend
from kvcore.errors import BadInput
from tests.gpu_validation.paged import Batch, attend, inputs_of

ROOT = Path(__file__).parents[2]


def said_without_interpreter(code):
    """Run code in a Python without TRITON_INTERPRET; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("model", "message"), [
    ((4, 2, 24, torch.float32), "heads of width 24: the kernels take 16, 32, 64, 128"),
    ((4, 3, 16, torch.float32), "4 heads share 3 KV heads unevenly"),
])  # fmt: skip
def test_shapes_that_do_not_fit(model, message):
    with pytest.raises(BadInput, match=message):
        TritonBackend("cpu").prepare(*model)


def test_double_precision_is_for_the_interpreter(monkeypatch):
    backend = TritonBackend("cpu")
    monkeypatch.setattr("gpu_validation.kernels.backend.INTERPRETED", False)
    with pytest.raises(BadInput, match="float64 runs in the interpreter only"):
        backend.prepare(4, 2, 16, torch.float64)


def test_a_backend_serves_one_model():
    backend, inputs = TritonBackend("cpu"), inputs_of(Batch(((3, 1),)), torch.float64)
    _, layout = attend(backend, inputs)
    backend.prepare(2, 2, 16, torch.float64)
    with pytest.raises(BadInput, match="make one for each model"):
        backend.attention(inputs.query, inputs.kv, layout, inputs.scale)


def test_tensors_that_are_not_whole():
    inputs = inputs_of(Batch(((3, 1),)), torch.float64)
    strided = inputs._replace(kv=inputs.kv.transpose(3, 4).contiguous().transpose(3, 4))
    with pytest.raises(BadInput, match="whole in memory"):
        attend(TritonBackend("cpu"), strided)
