"""Every planted error in a kernel is caught, and the kernel as it is passes the same cases."""

import pytest
import torch

from gpu_validation.kernels import backend
from tests.gpu_validation.mutants import MUTANTS, is_right, load


@pytest.fixture(autouse=True)
def _memory_that_nobody_wrote_is_nan():
    """A row that a kernel forgets may hold what it should: that of the case before."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("function", MUTANTS)
def test_the_kernel_as_it_is_passes(function):
    assert is_right(function)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("function", "name"), [(function, name) for function in MUTANTS for name in MUTANTS[function]])
def test_a_planted_error_is_caught(function, name, monkeypatch, tmp_path):
    monkeypatch.setattr(backend, function, load(function, MUTANTS[function][name], tmp_path))
    assert not is_right(function)
