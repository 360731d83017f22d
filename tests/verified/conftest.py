"""The program of verified/, built where OCaml is."""

import subprocess
from pathlib import Path
from shutil import which

import pytest

FOLDER = Path(__file__).parents[2] / "verified"


@pytest.fixture(scope="session", autouse=True)
def _program():
    zarith = (
        which("ocamlfind") and subprocess.run(["ocamlfind", "query", "zarith"], capture_output=True).returncode == 0
    )
    if not zarith:
        pytest.skip("OCaml, ocamlfind or zarith is absent, so verified/ is not built")
    subprocess.run(["make", "-C", FOLDER, "build/kvcheck"], check=True, capture_output=True)
