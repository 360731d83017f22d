"""The kernels as compiled for a Hopper GPU: nothing spills, and the instructions are the ones that a variant is for.

They are compiled in a Python without TRITON_INTERPRET, one for all sources of a test.
"""

import json

import pytest

from benchmarks import compiled as compiler
from gpu_validation.kernels.variants import VARIANTS
from kvcore.errors import BadInput
from tests.gpu_validation.test_backend_errors import said_without_interpreter

SHARED = 227 * 1024
"""Bytes of shared memory that a program can have on Hopper (CUDA C++ programming guide, compute capability 9.0)."""

NAMES = ("attention", "combine", "store_kv", "rms_norm", "silu_mul", "matmul")

VARIANTS_OF_A_GPU = [key for key in VARIANTS if key[1] in (2, 4)]

FAST = """
    attention(VARIANTS["decode", 2], torch.bfloat16, 64, 16, 4),
    attention(VARIANTS["prefill", 2], torch.bfloat16, 64, 16, 4),
    attention(VARIANTS["strict", 2], torch.bfloat16, 64, 16, 4),
"""


def compiled(sources):
    """Return (what each source is, what came out) for a Python expression of sources."""
    code = (
        "import json, warnings; from dataclasses import asdict\n"
        "warnings.simplefilter('ignore')\n"
        "from benchmarks.compiled import *\n"
        f"for source in ({sources}): print(json.dumps("
        "[source.name, source.dtype, source.shape, asdict(compile_source(source))]))"
    )
    rows = [json.loads(line) for line in said_without_interpreter(code).splitlines()]
    assert rows
    return [(f"{name} {dtype} {shape}", made) for name, dtype, shape, made in rows]


def faults(what, made):
    """Return what is wrong with a compiled kernel of attention."""
    found = [] if made["spilled"] == 0 else [f"spills {made['spilled']} bytes"]
    if made["shared"] > SHARED:
        found.append(f"takes {made['shared']} bytes of shared memory")
    if "fp32" in what:
        return found
    if bool(made["wgmma"]) != ("prefill" in what) or bool(made["mma"]) == ("prefill" in what):
        found.append(f"has {made['wgmma']} wgmma and {made['mma']} mma.sync")
    narrow = (
        "prefill " in what and "D 16," in what
    )  # 256 threads share 2 KiB; the 128 of prefill-few copy 16 bytes each
    if set(made["copies"]) != {"8" if narrow else "16"}:
        found.append(f"copies by {made['copies']}")
    if max(made["waits"], default=0) < 2:
        found.append(f"keeps no tile on its way: {made['waits']}")
    return found


def test_the_variants_of_attention_compile_as_meant():
    assert {what: faults(what, made) for what, made in compiled(FAST) if faults(what, made)} == {}


@pytest.mark.slow
def test_every_variant_and_shape_compiles_as_meant():
    rows = compiled("*attentions(everything=True),")
    assert {what.split()[1] for what, _ in rows} == {name for name, _ in VARIANTS}
    assert {what: faults(what, made) for what, made in rows if faults(what, made)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["torch.bfloat16", "torch.float16", "torch.float32"])
def test_the_small_kernels_compile_without_spills(dtype):
    rows = compiled(f"*others({dtype}),")
    assert [what for what, made in rows if made["spilled"] or made["shared"] > SHARED] == []
    products = [made for what, made in rows if what.startswith("matmul")]
    assert [bool(made["wgmma"]) for made in products] == ["float32" not in dtype]


def test_a_fault_is_seen():
    good = {"spilled": 0, "shared": 0, "wgmma": 1, "mma": 0, "copies": {"16": 4}, "waits": [2, 0]}
    assert faults("attention prefill bf16", good) == []
    for change in ({"spilled": 8}, {"shared": SHARED + 1}, {"wgmma": 0}, {"copies": {"4": 1}}, {"waits": [0]}):
        assert len(faults("attention prefill bf16", good | change)) == 1


def test_the_table_has_a_line_for_each_source(monkeypatch):
    made = compiler.Compiled(72, 0, 36864, 0, 16, {16: 8}, (2, 0))
    monkeypatch.setattr(compiler, "compile_source", lambda source: made)
    header, rule, *lines = compiler.table(compiler.attentions(everything=False))
    assert header.count("|") == rule.count("|") == lines[0].count("|")
    assert lines[0] == "| attention decode | bf16 | D 64, BS 16, GQA 4 | 4 | 72 | 0 | 36.0 | mma.sync | 16 B |"
    assert len(lines) == 2 * len(VARIANTS_OF_A_GPU)


def test_the_interpreter_compiles_nothing():
    with pytest.raises(BadInput, match="unset it to compile"):
        compiler.compile_source(next(compiler.others()))


@pytest.mark.slow
def test_launches_bind_and_other_batches_compile_nothing_new():
    code = (
        "import warnings; warnings.simplefilter('ignore'); from tests.gpu_validation import launches; launches.main()"
    )
    said = said_without_interpreter(code)
    launches, compiled = json.loads(said.splitlines()[-1])
    names = {name for name, _ in launches}
    assert names == {f"{name}_kernel" for name in NAMES}
    attention = len(("decode-few", "prefill-few", "strict"))
    assert compiled == {"attention_kernel": attention, "combine_kernel": 1, "store_kv_kernel": 1}
