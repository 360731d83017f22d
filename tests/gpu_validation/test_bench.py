"""The benchmark of attention: its bytes and operations by hand, its order, and that wrong peers are found out."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from costmodels.models import LLAMA_1B, TINY, Model
from gpu_validation import measure, peers
from gpu_validation.attention_bench import bench, bench_case, gpu_cases, layers_for
from gpu_validation.attention_case import TOLERANCE, AttentionCase, CaseData
from gpu_validation.backend import TorchBackend
from gpu_validation.bandwidth import Probe, bandwidths, peaks
from gpu_validation.devices import open_backend
from gpu_validation.kernels.backend import FlashInferBackend
from gpu_validation.peers import PEERS, Peer, Unsupported, flashinfer, ours
from kvbound.cli.kernels import summary
from tests.support.commands import kvbound, one_line

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LIMITS = {"read": 2e9, "copy": 1e9, "matmul": 4e9}
MIXED = AttentionCase("mixed", TINY, ((5, 12), (1, 33), (1, 0)))
ALIKE = AttentionCase("chunk", TINY, ((6, 21),) * 2)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


OURS = ours(TorchBackend, "ours")


def test_the_bytes_of_a_decode_launch():
    case = AttentionCase("decode", LLAMA_1B, ((1, 2047),) * 64)
    a_token = 2 * 8 * 64 * 2  # keys and values, 8 heads of 64, 2 bytes
    assert case.kv_bytes() == 64 * 2048 * a_token == 268_435_456
    assert case.kv_bytes(4) == 2 * 268_435_456


def test_the_operations_of_a_causal_prefill():
    assert AttentionCase("prefill", LLAMA_1B, ((2048, 0),)).flops == 4 * 32 * 64 * (2048 * 2049 // 2) == 17_188_257_792
    visible = sum(key <= 12 + query for query in range(5) for key in range(17))  # the chunk of 5 at 12
    assert MIXED.pairs == visible + 34 + 1
    assert MIXED.flops == 4 * 4 * 16 * MIXED.pairs


def test_the_grid_has_the_shapes_that_targets_name():
    cases = gpu_cases(LLAMA_1B)
    decodes = {(len(case.work), case.lengths[0]): case for case in cases if case.kind == "decode"}
    assert set(decodes) == {(b, n) for b in (1, 8, 64, 256) for n in (512, 2048, 8192)}
    assert decodes[256, 2048].kv_bytes() > 1e9
    assert {case.work[0] for case in cases if case.kind == "prefill"} == {(2**k, 0) for k in range(9, 14)}
    assert all(case.rows >= 8192 for case in cases if case.kind == "prefill")
    quick = gpu_cases(LLAMA_1B, quick=True)
    assert {case.kind for case in quick} == {"decode", "prefill", "chunk", "mixed"}
    assert cases[: len(quick)] == quick
    assert [case.large for case in cases] == [k < len(quick) for k in range(len(cases))]


def test_tables_permute_the_blocks_and_dense_follows_them():
    data = CaseData.make(ALIKE, CPU, torch.float32, layers=2)
    blocks = [block for table in data.tables for block in table]
    assert sorted(blocks) == list(range(4)) != blocks
    values = data.dense(layer=1, side=1)
    assert values.shape == (2, 2, 27, 16)
    for request, position in ((0, 0), (0, 20), (1, 15), (1, 26)):
        block = data.tables[request][position // 16]
        assert torch.equal(values[request, :, position], data.kv[block, 1, 1, :, position % 16])


def test_every_peer_agrees_and_its_rates_follow_from_its_time():
    rows = list(bench([ALIKE], [OURS, PEERS["sdpa"], planted("right")], CPU, torch.float32, LIMITS, repeats=3))
    assert [row.get("error") for row in rows] == [None, None, None]
    for row in rows:
        assert row["relative_error"] < 1e-6
        assert row["seconds_p10"] <= row["seconds_median"] <= row["seconds_p90"]
        assert row["bytes_per_second"] == pytest.approx(2 * 27 * 2 * 2 * 16 * 4 / row["seconds_median"])
        assert row["of_read"] == pytest.approx(row["bytes_per_second"] / 2e9)
        assert row["of_matmul"] == pytest.approx(row["flop_per_second"] / 4e9)
    best = min(rows[1:], key=lambda row: row["seconds_median"])
    assert rows[0]["best_peer"] == best["peer"]
    assert rows[0]["over_best_peer"] == pytest.approx(best["seconds_median"] / rows[0]["seconds_median"])


def test_the_kernels_are_right_on_our_cases():
    backends = []

    def make():
        backends.append(open_backend("cpu", "triton"))
        return backends[-1]

    data = CaseData.make(AttentionCase("mixed", TINY, ((3, 30), (1, 20))), CPU, torch.float32, layers=2)
    run = ours(make, "ours, triton").prepare(data)
    assert max(data.error(run(layer), layer) for layer in (0, 1)) < 1e-6
    assert type(backends[0]).__name__ == "TritonBackend"


def test_the_summary_by_hand():
    def row(kind, size, share, over, ours=True):
        facts = {"kind": kind, "kv_bytes": size, "of_read": share, "ours": ours, "seconds_median": 1.0}
        return facts | {"flop_per_second": 1e12 * share} | ({} if over is None else {"over_best_peer": over})

    rows = [
        row("decode", 600_000_000, 0.9, 1.1), row("decode", 500_000_000, 0.8, 0.95), row("decode", 10**9, 0.84, 1.0),
        row("decode", 499_999_999, 0.2, None), row("prefill", 10, 0.3, 1.2), row("prefill", 10, 0.5, 0.9),
        row("decode", 10**9, 0.99, None, ours=False), {"ours": True, "kind": "decode", "error": "x"},
    ]  # fmt: skip
    assert summary(rows) == {
        "timed": 6, "large_decodes": 3, "of_read": [0.8, 0.84, 0.9], "prefill_flop_per_second": 5e11, "compared": 5,
        "won": 3, "least_over_best_peer": 0.9,
    }  # fmt: skip
    assert summary([])["of_read"] is summary([])["least_over_best_peer"] is None


def planted(how):
    """Ours, with something done to its result or instead of it."""

    def prepare(data):
        if how == "refuses":
            raise Unsupported("takes something else")
        if how == "missing":
            import no_such_library  # noqa: F401
        if how == "raises":
            raise ValueError("first line\nsecond line")
        if how == "one key less":
            backend = TorchBackend()
            layout = backend.layout(data.starts, [length - 1 for length in data.case.lengths], data.tables)
            return lambda layer: backend.attention(data.query, data.kv[:, layer], layout, data.scale)
        right = OURS.prepare(data)
        if how == "first layer always":
            return lambda layer: right(0)
        return lambda layer: right(layer) * (float("nan") if how == "not a number" else 1)

    return Peer(how, prepare)


def test_wrong_peers_are_rows_that_say_so():
    names = ["one key less", "first layer always", "not a number", "refuses", "raises", "missing", "right"]
    rows = bench_case(ALIKE, [OURS, *map(planted, names)], CPU, torch.float32, repeats=2)
    errors = {row["peer"]: row.get("error") for row in rows}
    for name in names[:2]:
        assert errors[name].startswith("wrong: relative error ")
    assert errors["not a number"] == "wrong: relative error nan, more than 1.0e-05"
    assert errors["refuses"] == "takes something else"
    assert errors["raises"] == "ValueError: first line"
    assert errors["missing"] == "ModuleNotFoundError: No module named 'no_such_library'"
    assert errors["right"] is errors["ours"] is None
    assert [row["peer"] for row in rows if "seconds_median" in row] == ["ours", "right"]


def test_each_case_has_a_backend_of_its_own():
    made = []

    def make():
        made.append(TorchBackend())
        return made[-1]

    cases = [ALIKE, MIXED]
    rows = list(bench(cases, [ours(make, "ours")], CPU, torch.float32, {}, repeats=2))
    assert [row["case"] for row in rows] == [case.name for case in cases] == ["chunk 2 x 6 at 21", "mixed, 3"]
    assert len(made) == 2
    assert "over_best_peer" not in rows[0]


def test_a_kernel_that_breaks_while_it_is_timed_leaves_the_other_cases(monkeypatch):
    calls = []

    def interleaved(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("an illegal memory access\nand more")
        return measure.interleaved(*arguments)

    monkeypatch.setattr("gpu_validation.attention_bench.interleaved", interleaved)
    rows = list(bench([ALIKE, MIXED], [OURS, planted("right")], CPU, torch.float32, LIMITS, repeats=2))
    broken = "RuntimeError: an illegal memory access"
    assert [row.get("error") for row in rows] == [broken, broken, None, None]


def test_one_key_less_of_8192_is_more_than_the_tolerance_of_bf16():
    model = Model("wide", 1, 64, 2, 1, 32, 64, 64)
    data = CaseData.make(AttentionCase("decode", model, ((1, 8191),) * 4), CPU, torch.float32, layers=1)
    assert data.error(planted("one key less").prepare(data)(0), 0) > TOLERANCE[torch.bfloat16]


def test_a_long_chunk_is_checked_at_both_ends():
    data = CaseData.make(AttentionCase("prefill", TINY, ((150, 3), (2, 0))), CPU, torch.float64, layers=1)
    right = OURS.prepare(data)(0)
    assert data.error(right, 0) < 1e-12, "whole and in chunks, products are rounded apart on some processors"
    for row in (0, 63, 86, 149, 150, 151):
        wrong = right.clone()
        wrong[row] += 1
        assert data.error(wrong, 0) > 1e-3


def test_peers_take_turns_and_the_warm_up_is_left_out():
    ran = []
    executions = {name: lambda name=name: [ran.append(name), len(ran)] for name in "ABC"}
    taken = measure.in_turns(executions, repeats=2, warmup=1)
    assert "".join(ran) == "ABCCBAABC"
    assert taken["A"] == [[None, 6], [None, 7]]
    samples = measure.interleaved(executions, CPU, repeats=4, warmup=0)
    assert [len(found) for found in samples.values()] == [4, 4, 4]


class Woken:
    """Torch's cuda for a GPU that twice wakes before the host has queued everything."""

    def __init__(self):
        self.held = []
        self.synchronize = lambda: None
        self._sleep = self.held.append
        self.Event = self._event
        self.runs = 0

    def _event(self, enable_timing):
        return SimpleNamespace(
            record=lambda: None, query=lambda: self.runs < 3, synchronize=lambda: None,
            elapsed_time=lambda end: 10.0 * self.runs,
        )  # fmt: skip

    def run(self):
        self.runs += 1


def test_a_gpu_that_woke_too_early_is_timed_again(monkeypatch):
    gpu = Woken()
    monkeypatch.setattr(measure, "cuda", gpu)
    assert measure.sample(gpu.run, CUDA) == 0.03
    assert gpu.held == [2_000_000, 8_000_000, 32_000_000]


@pytest.mark.parametrize(
    ("said", "driver", "clock"), [("580.95.05, 1980, 700.00\n", "580.95.05", "1980"), ("", None, None)]
)
def test_the_facts_are_what_nvidia_smi_says_of_this_gpu(said, driver, clock, monkeypatch):
    asked = list[str]()
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="12-34"))
    monkeypatch.setattr(measure.subprocess, "run", lambda c, **_: asked.extend(c) or SimpleNamespace(stdout=said))
    found = measure._gpu(CUDA)
    assert asked[:3] == ["nvidia-smi", "-i", "GPU-12-34"]
    assert found == {"driver": driver, "sm_clock_max_mhz": clock, "power_limit_w": "700.00" if driver else None}


@pytest.mark.parametrize(("reasons", "throttled"), [(("0x1", "0x2"), False), (("0x0", "0x4"), True), (("0x48",), True)])
def test_clocks_are_read_while_something_runs(reasons, throttled, monkeypatch):
    """Idleness and a set clock are no throttling, power and heat are; a line that was cut off counts for nothing."""
    said = "".join(f"{1800 + k}, 2619, 0x{int(reason, 16):016x}\n" for k, reason in enumerate(reasons)) + "19"
    ended = list[bool]()
    process = SimpleNamespace(terminate=lambda: ended.append(True), communicate=lambda: (said, None))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="12-34"))
    monkeypatch.setattr(measure.subprocess, "Popen", lambda *_, **__: process)
    with measure.watched(CUDA) as found:
        assert not ended
    assert found == {"sm_clock_mhz": 1800 + (len(reasons) - 1) / 2, "memory_clock_mhz": 2619, "throttled": throttled}
    with measure.watched(CPU) as found:
        pass
    assert found == {}


def test_small_cases_take_more_layers_and_large_ones_must_fit(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10 * 2**30, 0))
    small, large = (AttentionCase("decode", LLAMA_1B, ((1, 2047),) * batch) for batch in (8, 1024))
    assert small.kv_bytes() == 2**25
    assert layers_for(small, 2, CUDA, copies=True) == 2**27 // 2**25
    assert large.kv_bytes() == 2**32
    assert layers_for(large, 2, CUDA, copies=False) == 2
    assert layers_for(large, 2, CUDA, copies=True) == 0
    monkeypatch.setattr("gpu_validation.attention_bench.layers_for", lambda *_: 0)
    assert "does not fit" in bench_case(large, [OURS], CPU, torch.float32)[0]["error"]


def test_bandwidths_and_their_peaks():
    rows = bandwidths(CPU, repeats=2)
    copy = next(row for row in rows if row["quantity"] == "copy")
    assert copy["amount"] == 2 * 2**22
    assert copy["per_second"] == copy["amount"] / copy["seconds_median"]
    rates = peaks(rows)
    assert rates["read"] == max(row["per_second"] for row in rows if row["quantity"].startswith("read"))
    assert set(rates) == {"copy", "read", "matmul", "host to device", "device to host", "both directions"}
    assert Probe("x", "bytes", 1, lambda: None).amount == 1


def attend(query, keys, values, scale):
    """Return attention of query [H, c, D] at the end of keys and values [KV, n, D]."""
    group, n, c = query.shape[0] // keys.shape[0], keys.shape[1], query.shape[1]
    mask = torch.arange(n) > torch.arange(n - c, n)[:, None]
    scores = query @ keys.repeat_interleave(group, 0).mT * scale
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ values.repeat_interleave(group, 0)


def paged(cache, pages, length):
    """Return [KV, n, D] from a paged cache [pages, KV, BS, D]."""
    return torch.cat([cache[page] for page in pages], dim=1)[:, :length]


class FakeFlashInfer:
    """What a wrapper of FlashInfer computes by its documentation, from the arguments of plan and run alone."""

    def __init__(self, workspace, layout, use_tensor_cores=False, backend="auto"):
        assert layout == "HND"
        self.decodes = use_tensor_cores
        assert self.decodes or backend == "fa2"

    def plan(self, *arguments, causal=False, **types):
        arguments = arguments if not self.decodes else (torch.arange(len(arguments[0])), *arguments)
        self.rows, starts, pages, last, *shape = arguments
        assert shape == [4, 2, 16, 16]
        assert causal or self.decodes
        self.pages = [pages[a:b].tolist() for a, b in pairwise(starts)]
        self.lengths = [16 * (len(p) - 1) + int(k) for p, k in zip(self.pages, last, strict=True)]
        self.scale = types["sm_scale"]
        assert types["q_data_type"] == types["kv_data_type"] == torch.float32

    def run(self, query, caches):
        out = []
        for s, (pages, length) in enumerate(zip(self.pages, self.lengths, strict=True)):
            rows = query[self.rows[s] : self.rows[s + 1]].transpose(0, 1)
            out.append(attend(rows, *(paged(cache, pages, length) for cache in caches), self.scale).transpose(0, 1))
        return torch.cat(out)


@pytest.mark.parametrize("case", [MIXED, ALIKE, AttentionCase("decode", TINY, ((1, 15), (1, 16), (1, 40)))])
def test_flashinfer_is_given_what_it_documents(case, monkeypatch):
    fake = SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=FakeFlashInfer, BatchPrefillWithPagedKVCacheWrapper=FakeFlashInfer
    )
    monkeypatch.setattr(peers, "_library", lambda name, device: fake)
    monkeypatch.setattr(peers, "WORKSPACE", 1)
    data = CaseData.make(case, CPU, torch.float32, layers=2)
    run = flashinfer(data)
    assert max(data.error(run(layer), layer) for layer in (0, 1)) < 1e-6


def test_a_backend_by_flashinfer_plans_a_layout_once(monkeypatch):
    made = list[FakeFlashInfer]()

    def wrapper(*arguments, **options):
        made.append(FakeFlashInfer(*arguments, **options))
        return made[-1]

    fake = SimpleNamespace(BatchPrefillWithPagedKVCacheWrapper=wrapper)
    monkeypatch.setattr(peers, "_library", lambda name, device: fake)
    monkeypatch.setattr("gpu_validation.kernels.backend.WORKSPACE", 1)
    backend, data = FlashInferBackend("cpu"), CaseData.make(MIXED, CPU, torch.float32, layers=2)
    backend.prepare(TINY.heads, TINY.kv_heads, TINY.head_width, torch.float32)
    layout = backend.layout(data.starts, data.case.lengths, data.tables)
    for layer in (0, 1):
        assert data.error(backend.attention(data.query, data.kv[:, layer], layout, data.scale), layer) < 1e-6
    assert len(made) == 1


def test_libraries_need_a_gpu():
    rows = bench_case(ALIKE, [OURS, PEERS["flashinfer"]], CPU, torch.bfloat16, repeats=2)
    assert [row.get("error") for row in rows] == [None, "runs on a GPU only"]
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_library'"):
        peers._library("no_such_library", CUDA)


@pytest.mark.parametrize(("arguments", "code", "message"), [
    ((), 4, "torch sees no GPU here; use --device cpu for a dry run"),
    (("--device", "cpu", "--model", "gpt-9"), 2, "no model is called 'gpt-9'; is it gpt-j-6b?; there are tiny"),
    (("--device", "cpu", "--peers", "sdpa,x"), 2, "no peer is called 'x'; there are sdpa, flashinfer"),
    (("--device", "cpu", "--json", "nowhere/x.json"), 2, "there is no folder"),
])  # fmt: skip
def test_what_cannot_be_measured_is_one_line(arguments, code, message):
    assert not torch.cuda.is_available()
    assert message in one_line("kernels", *arguments, code=code)


def test_an_interrupted_run_writes_what_it_has(tmp_path, monkeypatch):
    real = measure.interleaved

    def interleaved(runs, *rest):
        if "ours, sdpa" in runs and len(runs) == 1:
            raise KeyboardInterrupt
        return real(runs, *rest)

    monkeypatch.setattr("gpu_validation.attention_bench.interleaved", interleaved)
    kvbound("kernels", "--device", "cpu", "--peers", "sdpa", "--json", tmp_path / "k.json", code=130)
    found = json.loads((tmp_path / "k.json").read_text())  # the mixed case, which only ours can do, was interrupted
    assert {row["kind"] for row in found["rows"]} == {"decode", "prefill", "chunk"}


def test_no_case_is_started_after_the_limit(tmp_path, monkeypatch):
    seconds = iter(range(0, 1000, 2))
    monkeypatch.setattr("kvbound.cli.kernels.time.monotonic", lambda: next(seconds))
    kvbound("kernels", "--device", "cpu", "--peers", "none", "--time-limit", 5, "--json", tmp_path / "k.json")
    assert [row["kind"] for row in json.loads((tmp_path / "k.json").read_text())["rows"]] == ["decode", "prefill"]


def test_the_dry_run_says_that_it_is_one(tmp_path):
    done = kvbound("kernels", "--device", "cpu", "--peers", "sdpa", "--json", tmp_path / "k.json")
    assert "no numbers of a GPU" in done.stdout
    found = json.loads((tmp_path / "k.json").read_text())
    assert found["dry_run"] is True
    assert {row["device_type"] for row in [*found["bandwidths"], *found["rows"]]} == {"cpu"}
    assert [(row["case"], row["peer"]) for row in found["rows"][:2]] == [
        ("decode 3 x 48", "ours, sdpa"), ("decode 3 x 48", "torch sdpa, dense"),
    ]  # fmt: skip
    assert all({"torch", "python", "date", "device"} <= row.keys() for row in found["rows"])
