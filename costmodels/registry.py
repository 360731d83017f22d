"""The cost models by name: what `--cost` takes, besides rooflines and cost files."""

from __future__ import annotations

from fractions import Fraction

from costmodels.cost_files import as_model, read_cost
from costmodels.cost_model import CostModel
from costmodels.infercept import infercept_6b, infercept_13b
from costmodels.infermax import infermax_7b, infermax_70b
from costmodels.machines import GPT_J_6B, INFERMAX_7B, INFERMAX_70B, VICUNA_13B
from costmodels.roofline import named_roofline
from kvcore.cost import Cost
from kvcore.errors import unknown

NANOSECOND, TENTH_MICROSECOND = Fraction(1, 10**9), Fraction(1, 10**7)
DECODE_STEP = Fraction(1, 40)
SIMULATOR, BENCHMARK = "INFERMAX's released simulator", "InferCept's released benchmark"

COSTS: dict[str, CostModel] = {
    "unit": CostModel(Cost.unit, DECODE_STEP, None, "every batch lasts one tick, 25 ms", "theory"),
    "infermax-7b": CostModel(infermax_7b, NANOSECOND, INFERMAX_7B, "Llama-2-7B on an A100, linear", SIMULATOR),
    "infermax-70b": CostModel(infermax_70b, NANOSECOND, INFERMAX_70B, "Llama-2-70B on four A100, linear", SIMULATOR),
    "infermax-7b-floor": CostModel(
        lambda: infermax_7b(floor=True), NANOSECOND, INFERMAX_7B,
        "Llama-2-7B on an A100, linear above a measured floor", "INFERMAX's simulator; the floor is of Vidur's profile",
    ),
    "infermax-70b-floor": CostModel(
        lambda: infermax_70b(floor=True), NANOSECOND, INFERMAX_70B,
        "Llama-2-70B on four A100, linear above a computed floor",
        "INFERMAX's simulator; the floor is computed, not measured",
    ),
    "infercept-6b": CostModel(
        infercept_6b, TENTH_MICROSECOND, GPT_J_6B, "GPT-J-6B on an A100, swaps beside the work", BENCHMARK
    ),
    "infercept-6b-sync": CostModel(
        lambda: infercept_6b(overlapped=False), TENTH_MICROSECOND, GPT_J_6B, "the same, swaps before the work",
        BENCHMARK,
    ),
    "infercept-13b": CostModel(
        infercept_13b, TENTH_MICROSECOND, VICUNA_13B, "Vicuna-13B on two A100, swaps beside the work", BENCHMARK
    ),
    "infercept-13b-sync": CostModel(
        lambda: infercept_13b(overlapped=False), TENTH_MICROSECOND, VICUNA_13B, "the same, swaps before the work",
        BENCHMARK,
    ),
}  # fmt: skip


def get_cost(name: str) -> CostModel:
    """Return the cost model of that name, a roofline (`roofline:model=..,device=..`), or that of a cost file (.json).

    Parameters of a roofline: `tp=1` devices share the model and its heads of KV; `block=16` tokens; `batch=4096`
    tokens; `host=0` GiB for swapped KV; `transfers=overlapped`, or `sync`, which adds them to the work; `launch=0`
    seconds between batches, or `vllm-0.5`, `vllm-0.6`, `vllm-0.8`, `sglang-0.4`; `weights=bf16|fp8|int4`;
    `kv=bf16|fp8`; `floor=vidur`: layers take what Vidur measured; `windows=keep`: layers with a window keep all KV;
    `bandwidth=1`, `compute=1`, `link=1`: the reached fraction of each peak; `memory=0.9`, the device's share for
    weights and KV; `experts_read`, routed experts of a layer that a batch reads (default: one token's);
    `tick=1/1000000000` seconds. For `model`, also numbers of a config.json under their names there, or `layers`,
    `heads` and `kv_heads`.

    BadInput says what is wrong with the name or with the file.
    """
    if name in COSTS:
        return COSTS[name]
    if name.partition(":")[0] == "roofline":
        return named_roofline(name)
    if name.endswith(".json"):
        return as_model(read_cost(name), name)
    raise unknown("cost model", name, COSTS, "rooflines (roofline:model=..,device=..)", "cost files (.json)")
