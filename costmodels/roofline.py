"""The roofline of a model on a device: no batch is faster than its memory traffic, nor than its arithmetic.

With W the bytes of the weights that a batch reads, k the bytes of KV a token, P_l the numbers in the matrices of the
layers and P_h in that of the logits, H query heads of width D in L layers, over t devices:

    memory    (W + k (decode_kv + prefill_kv + tokens)) / (t B)         KV is read, and written for each new token
    compute   (2 P_l tokens + 2 P_h generated + 4 H D L pairs) / (t F)  pairs of a query and a key that it attends to
    transfer  k swap_out_tokens / (t C),  k swap_in_tokens / (t C)      each device has a link of its own

A decode at context m has m + 1 pairs, a prefill of c tokens after m has c m + c (c + 1) / 2. So in the features of a
cost, pairs = decode_kv + prefill_pairs / 2 + tokens / 2 + decode_requests / 2.

What is left out: `docs/costmodels.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from costmodels.cost_model import CostModel
from costmodels.devices import DEVICES, GIB, Device, get_device
from costmodels.engine_times import launch_seconds, layer_floor
from costmodels.machines import SHARE, kv_capacity, whole_blocks
from costmodels.models import KV, MODELS, SHAPE, WEIGHTS, Model, get_model, model_of_shape, quantized
from costmodels.rounding import Function, rounded
from costmodels.transfers import Transfers, bandwidth_functions, joined
from kvcore.errors import BadInput
from kvcore.instance import Machine
from kvcore.parameters import fraction, read_parameters

NANOSECOND = Fraction(1, 10**9)


@dataclass(frozen=True)
class Efficiency:
    """Fractions of the device's peaks that are reached."""

    bandwidth: Fraction = Fraction(1)
    compute: Fraction = Fraction(1)
    link: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value <= 1:
                raise BadInput(f"{name}={value}: the fraction of a peak is above 0 and at most 1")


def memory_function(model: Model, bandwidth: Fraction, experts_read: int | None = None) -> Function:
    """Return the time of the memory traffic at `bandwidth` bytes a second."""
    token, window = model.kv_bytes() / bandwidth, model.window_bytes / bandwidth
    weights, request = model.read_bytes(experts_read) / bandwidth, window * model.window
    request += 2 * model.state_bytes / bandwidth
    some = {"decode_requests": request, "prefill_requests": request} if request else {}
    return Function({"busy": weights, "decode_kv": token, "prefill_kv": token, "tokens": token + window, **some})


def compute_function(model: Model, flops: Fraction) -> Function:
    """Return the time of the arithmetic at `flops` operations a second."""
    pair = model.pair_operations / flops
    layers = 2 * model.layer_matrices / flops / model.layer_speed
    return Function({
        "tokens": layers + pair / 2 + model.window_operations / flops, "generated": 2 * model.head_matrix / flops,
        "decode_requests": pair / 2, "decode_kv": pair, "prefill_pairs": pair / 2,
    })  # fmt: skip


def roofline_functions(
    model: Model, device: Device, tensor_parallel: int = 1, *, transfers: Transfers = "overlapped",
    efficiency: Efficiency | None = None, experts_read: int | None = None, launch: Fraction = Fraction(0),
    floors: Sequence[Function] = (),
) -> tuple[Function, ...]:  # fmt: skip
    """Return the functions in seconds: memory, compute, and transfers beside them or in both.

    `experts_read` as in `Model.read_bytes`; `launch` seconds are added to the work, no less than any of the `floors`.
    """
    if tensor_parallel < 1 or model.kv_heads % tensor_parallel:
        raise BadInput(f"tp={tensor_parallel}: it has to divide the {model.kv_heads} heads of KV of {model.name}")
    reached = efficiency or Efficiency()
    rooflines = (
        memory_function(model, tensor_parallel * device.bandwidth * reached.bandwidth, experts_read),
        compute_function(model, tensor_parallel * device.flops * reached.compute),
    )
    fixed = Function({"busy": launch} if launch else {})
    work = [function.plus(fixed) for function in (*rooflines, *floors)]
    link = tensor_parallel * device.link * reached.link
    request = model.window_bytes * model.window + model.state_bytes
    return joined(work, bandwidth_functions(model.kv_bytes(), link, request), transfers)


def roofline(
    model: Model, device: Device, tensor_parallel: int = 1, *, block: int = 16, host_memory: int = 0,
    batch_tokens: int = 4096, transfers: Transfers = "overlapped", efficiency: Efficiency | None = None,
    share: Fraction = SHARE, tick: Fraction = NANOSECOND, experts_read: int | None = None,
    launch: Fraction = Fraction(0), floors: Sequence[Function] = (), windows: bool = True,
) -> CostModel:  # fmt: skip
    """Return the roofline as a cost model, with the machine: M is what the weights leave of a share of the memory.

    `host_memory` is in bytes. Without `windows`, layers keep all KV. BadInput if the weights do not fit.
    """
    functions = roofline_functions(
        model, device, tensor_parallel, transfers=transfers, efficiency=efficiency, experts_read=experts_read,
        launch=launch, floors=floors,
    )  # fmt: skip
    layout = model.layout(block)[1] if windows or model.states else None
    where = device.name if tensor_parallel == 1 else f"{tensor_parallel} x {device.name}"
    machine = Machine(
        memory=kv_capacity(
            model, device.memory, block, devices=tensor_parallel, share=share, where=where, windows=windows
        ),
        block=block, host_memory=whole_blocks(host_memory, model, block, windows), batch_tokens=batch_tokens,
        evict=True, partial=layout is None, layout=layout,
    )  # fmt: skip
    cost = rounded(functions, tick)
    what = f"roofline of {model.name} on {where}" + (f"; {model.note}" if model.note else "")
    return CostModel(lambda: cost.cost, tick, machine, what, device.source, cost.error, "" if launch else FREE)


FREE = "batches cost no time of their own: it cannot rank chunk sizes, nor policies by their batches (launch=..)"
WHOLE = {"tp": 1, "block": 16, "host": 0, "batch": 4096}  # devices; tokens a block; GiB of host memory; tokens a batch
FRACTIONS = {"bandwidth": "1", "compute": "1", "link": "1", "memory": "0.9", "tick": "1/1000000000"}
"""Parts of the peaks reached, the share of the memory for weights and KV, seconds of a tick."""
NAMED = {
    "transfers": ("overlapped", "sync"),
    "weights": tuple(WEIGHTS),
    "kv": tuple(KV),
    "floor": ("vidur",),
    "windows": ("trim", "keep"),
}
KNOWN = ("model", "device", *WHOLE, *FRACTIONS, "launch", "experts_read", *NAMED, *SHAPE)
USAGE = f"roofline:model=NAME,device=NAME and any of {', '.join(KNOWN[2:])}"


def named_roofline(name: str) -> CostModel:
    """Return a roofline by its name, `roofline:model=..,device=..`, or with a shape (`models.SHAPE`) for a model."""
    given = read_parameters(name, KNOWN, USAGE, whole=False)
    shape = {key: _whole(name, key, text, 0) for key, text in given.items() if key in SHAPE}
    if shape and "model" in given:
        raise BadInput(f"{name}: model={given['model']} has a shape; leave it out, or {', '.join(shape)}")
    tables = (("model", MODELS), ("device", DEVICES))
    for key, table in tables[1:] if shape else tables:
        if key not in given:
            raise BadInput(f"{name}: name the {key} ({key}=..), one of {', '.join(table)}")
    counts = {key: _whole(name, key, given.get(key), default) for key, default in WHOLE.items()}
    parts = {key: fraction(f"{name}: {key}", given.get(key, default)) for key, default in FRACTIONS.items()}
    for key, choices in NAMED.items():
        if given.get(key, choices[0]) not in choices:
            raise BadInput(f"{name}: {key} is {' or '.join(choices)}, not {given[key]!r}")
    if parts["memory"] > 1:
        raise BadInput(f"{name}: memory is the share for weights and KV, at most 1")
    experts_read = _whole(name, "experts_read", given.get("experts_read"), 0) or None
    model, device = model_of_shape(name, shape) if shape else get_model(given["model"]), get_device(given["device"])
    floors = [layer_floor(name, model, device.name, counts["tp"])] if "floor" in given else []
    model = quantized(model, given.get("weights"), given.get("kv"), device.fp8)
    return roofline(
        model, device, counts["tp"], experts_read=experts_read,
        block=counts["block"], host_memory=counts["host"] * GIB, batch_tokens=counts["batch"],
        transfers="sync" if given.get("transfers") == "sync" else "overlapped",
        efficiency=Efficiency(parts["bandwidth"], parts["compute"], parts["link"]),
        share=parts["memory"], tick=parts["tick"], launch=launch_seconds(name, given.get("launch", "0")), floors=floors,
        windows=given.get("windows") != "keep",
    )  # fmt: skip


def _whole(name: str, key: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    least = 0 if key in ("host", "n_shared_experts", "first_k_dense_replace") else 1
    if not (text.isdecimal() and len(text) <= 9 and int(text) >= least):
        raise BadInput(f"{name}: {key}={text} is no whole number from {least} on")
    return int(text)
