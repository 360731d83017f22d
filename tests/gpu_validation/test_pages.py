"""The pages and the notebook whose code needs PyTorch."""

import pytest

from tests.docs.test_docs import name_of, to_run
from tests.docs.test_notebooks import NEEDS_TORCH, check_fresh
from tests.support.markdown_blocks import run_page


@pytest.mark.parametrize("page", to_run(torch=True))
def test_page_says_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_page(page.read_text(encoding="utf-8"), name_of(page), tmp_path)


@pytest.mark.slow
def test_the_notebook_is_fresh():
    check_fresh(NEEDS_TORCH)
