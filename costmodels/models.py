"""The language models of `models.toml`: their shapes, parameters, and bytes of KV a token."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, gcd
from pathlib import Path

from pydantic import TypeAdapter

from kvcore.errors import BadInput, unknown
from kvcore.instance import KvGroup, KvLayout


@dataclass(frozen=True)
class Experts:
    """Feed-forward parts of `width` in a layer: a token goes through `active` of `count`, and through all `shared`."""

    count: int
    active: int
    width: int
    shared: int = 0
    dense_layers: int = 0  # layers that have the one part of `Model.hidden` instead
    bias: bool = False  # whether each matrix of an expert adds one
    router_bias: bool = False
    bits: Fraction = Fraction(16)  # of a number in the matrices of the experts as published


@dataclass(frozen=True)
class Latent:
    """Keys and values as one vector a token (DeepSeek-V2, Section 2.1): `rank` numbers, and `rotary` for all heads."""

    query_rank: int
    rank: int
    rotary: int
    plain: int  # width of a query or a key without its rotary part
    value: int


@dataclass(frozen=True)
class Model:
    """The shape of a decoder; `gated`: the feed-forward part has a gate (three matrices, not two)."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int  # width of the feed-forward part
    vocabulary: int
    gated: bool = True
    tied: bool = False  # the embedding is also the matrix of the logits
    source: str = ""
    attention_bias: bool = False  # whether the projections of attention add a bias
    hidden_bias: bool = False  # whether the feed-forward part does
    head_bias: bool = False  # whether the logits do
    norms: int = 2  # norms in a layer; one more stands at the end
    norm_bias: bool = False
    positions: int = 0  # learned embeddings of positions (0: rotary ones, which have no parameters)
    extras: int = 0  # further numbers in a layer: norms of queries and keys, attention sinks
    experts: Experts | None = None
    latent: Latent | None = None
    windowed: int = 0  # layers that look at the last `window` tokens
    window: int = 0
    states: int = 0  # numbers of all layers that keep states in place of KV
    stateful: int = 0  # those layers
    mixing: int = 0  # numbers in matrices of attention and states beyond those of `layers` with attention
    bits: Fraction = Fraction(16)  # of a number in the matrices of the layers, without experts; all else has 16
    kv_size: int = 2  # bytes of a number of KV
    layer_speed: int = 1  # times the bf16 arithmetic that the matrices of the layers reach
    remark: str = ""  # what else a cost with one size of KV a token and one time to read the weights cannot say of it

    @property
    def note(self) -> str:
        """What such a cost cannot say of it."""
        windows = ["batches count windows as full"] * bool(self.windowed)
        experts = ["a batch reads at least the experts of one token (experts_read=.. for more)"] * bool(self.experts)
        return "; ".join([*filter(None, [self.remark]), *windows, *experts])

    def kv_bytes(self, size: int | None = None) -> int:
        """Return the bytes of KV of a token: 2 L KV D numbers of `size` (or its own) bytes, latent: L (rank + rotary).

        L are the layers with full attention.
        """
        return self.full_layers * self._layer_kv(size)

    def _layer_kv(self, size: int | None = None) -> int:
        numbers = 2 * self.kv_heads * self.head_width if self.latent is None else self.latent.rank + self.latent.rotary
        return numbers * (size or self.kv_size)

    @property
    def full_layers(self) -> int:
        """Layers that look at the whole context."""
        return self.layers - self.windowed - self.stateful

    @property
    def window_bytes(self) -> int:
        """Bytes of KV of a token in all layers with a window."""
        return self.windowed * self._layer_kv()

    @property
    def state_bytes(self) -> int:
        """Bytes of a request's states, in 16 bits."""
        return 2 * self.states

    def layout(self, block: int) -> tuple[int, KvLayout | None]:
        """Return the bytes of a token of memory, and how a request's blocks take it: by windows and states."""
        if not (self.windowed or self.stateful):
            return self.kv_bytes(), None
        part = gcd(self.full_layers, self.windowed)
        groups = [(self.full_layers // part, None), (self.windowed // part, self.window or None)]
        unit = part * self._layer_kv()
        return unit, KvLayout(
            state=-(-self.state_bytes // (unit * block)),
            groups=tuple(KvGroup(weight=weight, window=window) for weight, window in groups if weight),
        )

    @property
    def pair_operations(self) -> int:
        """Operations for a query and a key that it attends to: 4 H D L, with L as for the KV."""
        return self._layer_pair * self.full_layers

    @property
    def window_operations(self) -> int:
        """Operations for a query in all layers with a window, once that is full."""
        return self._layer_pair * self.windowed * self.window

    @property
    def _layer_pair(self) -> int:
        widths = 2 * self.head_width
        if self.latent is not None:
            widths = self.latent.plain + self.latent.rotary + self.latent.value
        return 2 * self.heads * widths

    @property
    def dense_matrices(self) -> int:
        """Numbers in the matrices of all layers without experts: L (d (2 H + 2 KV) D + (3 or 2) d f)."""
        attention = self.width * (2 * self.heads + 2 * self.kv_heads) * self.head_width
        if (latent := self.latent) is not None:
            queries = latent.query_rank * (self.width + self.heads * (latent.plain + latent.rotary))
            keys = self.width * (latent.rank + latent.rotary) + latent.rank * self.heads * (latent.plain + latent.value)
            attention = queries + keys + self.heads * latent.value * self.width
        layers = self.layers if self.experts is None else self.experts.dense_layers
        return self.mixing + self.layers * attention + layers * (3 if self.gated else 2) * self.width * self.hidden

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.layers - self.experts.dense_layers

    def expert_matrices(self, routed: int | None = None) -> int:
        """Numbers in the matrices of the shared experts and of `routed` others (None: those of a token) a layer."""
        if self.experts is None:
            return 0
        count = self.experts.shared + (self.experts.active if routed is None else routed)
        return self.expert_layers * count * 3 * self.width * self.experts.width

    @property
    def layer_matrices(self) -> int:
        """Numbers in the matrices that a token goes through, with the choice of experts."""
        router = 0 if self.experts is None else self.expert_layers * self.width * self.experts.count
        return self.dense_matrices + self.expert_matrices() + router

    @property
    def head_matrix(self) -> int:
        """Numbers in the matrix of the logits: V d."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters: matrices, biases, norms, embeddings, experts."""
        embeddings = (0 if self.tied else self.head_matrix) + self.positions * self.width
        return self._numbers(0 if self.experts is None else self.experts.count) + embeddings

    @property
    def read_parameters(self) -> int:
        """Parameters that every batch reads: not the embeddings that it reads by rows, one a token.

        Of experts those of one token: all tokens of a batch may choose the same.
        """
        return self._numbers(None)

    def _numbers(self, routed: int | None) -> int:
        norms = (self.layers * self.norms + 1) * self.width * (2 if self.norm_bias else 1)
        attention = (self.heads + 2 * self.kv_heads) * self.head_width + self.width
        hidden = (2 if self.gated else 1) * self.hidden + self.width
        biases = self.layers * (attention * self.attention_bias + hidden * self.hidden_bias + self.extras)
        biases += self.vocabulary * self.head_bias
        if (experts := self.experts) is not None:
            count = experts.shared + (experts.active if routed is None else routed)
            each = count * (2 * experts.width + self.width) * experts.bias + experts.count * experts.router_bias
            biases += self.expert_layers * each
        matrices = self.layer_matrices - self.expert_matrices() + self.expert_matrices(routed)
        return matrices + self.head_matrix + norms + biases

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters, as published."""
        return self._bytes(self.parameters, self.expert_matrices(0 if self.experts is None else self.experts.count))

    def read_bytes(self, routed: int | None = None) -> int:
        """Return the bytes of weights that a batch reads, with `routed` experts a layer (None: those of a token).

        BadInput for too few or too many experts.
        """
        if routed is not None and (self.experts is None or not self.experts.active <= routed <= self.experts.count):
            some = "no experts" if self.experts is None else f"{self.experts.active} to {self.experts.count} of them"
            raise BadInput(f"experts_read={routed}: a batch of {self.name} reads {some} a layer")
        return self._bytes(self._numbers(routed), self.expert_matrices(routed))

    def _bytes(self, numbers: int, experts: int) -> int:
        saved = (16 - self.bits) * self.dense_matrices
        if self.experts is not None:
            saved += (16 - self.experts.bits) * experts
        return ceil((16 * numbers - saved) / 8)

    def check_plain(self) -> None:
        """Raise BadInput if the engine's decoder lacks a part of it."""
        parts = {
            "experts": self.experts, "latent KV": self.latent, "windows of attention": self.windowed,
            "states": self.states, "norms of queries and keys": self.extras,
        }  # fmt: skip
        if lacking := [name for name, part in parts.items() if part]:
            raise BadInput(f"{self.name} has {' and '.join(lacking)}, and the engine's decoder has none")
        if not self.gated:
            raise BadInput(f"{self.name} has no gate in its feed-forward part, and the engine's decoder has one")


WEIGHTS = {"bf16": Fraction(16), "fp8": Fraction(8), "int4": Fraction(133, 32)}  # bits; int4: 20 more for 128
KV = {"bf16": 2, "fp8": 1}


def quantized(model: Model, weights: str | None, kv: str | None, fp8: bool) -> Model:
    """Return the model with these weights in its layers, and KV (None: as published).

    `fp8`: the device's FP8 arithmetic is twice as fast. Embeddings, logits, norms and biases keep 16 bits.
    """
    if weights is not None:
        bits = WEIGHTS[weights]
        experts = model.experts and replace(model.experts, bits=bits)
        model = replace(model, bits=bits, experts=experts, layer_speed=2 if fp8 and weights == "fp8" else 1)
    return model if kv is None else replace(model, kv_size=KV[kv])


TABLE = Path(__file__).with_suffix(".toml")
MODELS = {
    name: TypeAdapter(Model).validate_python({"name": name, **row})
    for name, row in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
}
TINY, LLAMA_1B = MODELS["tiny"], MODELS["llama-3.2-1b"]


def get_model(name: str) -> Model:
    """Return the model of that name, or raise BadInput."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]


SHAPE = {
    "layers": "layers", "num_hidden_layers": "layers", "hidden_size": "width",
    "heads": "heads", "num_attention_heads": "heads", "kv_heads": "kv_heads", "num_key_value_heads": "kv_heads",
    "head_dim": "head_width", "intermediate_size": "hidden", "vocab_size": "vocabulary",
    "num_experts": "experts", "num_local_experts": "experts", "n_routed_experts": "experts",
    "num_experts_per_tok": "active", "moe_intermediate_size": "expert_width", "n_shared_experts": "shared",
    "first_k_dense_replace": "dense_layers", "kv_lora_rank": "rank", "q_lora_rank": "query_rank",
    "qk_rope_head_dim": "rotary", "qk_nope_head_dim": "plain", "v_head_dim": "value",
}  # fmt: skip
"""The names of a shape's numbers in config.json, and shorter ones, with ours."""
LATENT = ("query_rank", "rank", "rotary", "plain", "value")


def model_of_shape(source: str, given: Mapping[str, int]) -> Model:
    """Return the model of a shape by the names of SHAPE: gated, without biases, weights in 16 bits.

    By default `kv_heads` is `heads`, `head_dim` hidden_size / heads. BadInput, after `source`, for a number that is
    missing, twice there, or does not fit the others.
    """
    shape: dict[str, int] = {}
    for key, value in given.items():
        if SHAPE[key] in shape:
            before = next(other for other in given if SHAPE[other] == SHAPE[key])
            raise BadInput(f"{source}: {key} says again what {before} says")
        shape[SHAPE[key]] = value
    needed = ["layers", "width", "heads", "vocabulary"]
    needed += ["experts", "active"] if shape.keys() & {"experts", "active", "expert_width", "shared"} else ["hidden"]
    needed += ["hidden"] * bool(shape.get("dense_layers"))
    needed += LATENT if shape.keys() & set(LATENT) else ()
    if missing := [next(key for key in SHAPE if SHAPE[key] == name) for name in needed if not shape.get(name)]:
        raise BadInput(f"{source}: a shape needs {', '.join(missing)}, too")
    heads, width = shape["heads"], shape["width"]
    kv_heads, hidden = shape.get("kv_heads") or heads, shape.get("hidden", 0)
    if heads % kv_heads or ("head_width" not in shape and width % heads):
        raise BadInput(f"{source}: {heads} heads are no multiple of {kv_heads}, or do not divide {width} (head_dim=..)")
    experts = None
    if "experts" in shape:
        dense = shape.get("dense_layers", 0)
        if shape["active"] > shape["experts"] or dense > shape["layers"]:
            raise BadInput(f"{source}: a token goes through more experts, or more layers have none, than there are")
        expert_width = shape.get("expert_width") or hidden
        if not expert_width:
            raise BadInput(f"{source}: a shape needs moe_intermediate_size, too")
        experts = Experts(shape["experts"], shape["active"], expert_width, shape.get("shared", 0), dense)
    latent = Latent(**{name: shape[name] for name in LATENT}) if "rank" in shape else None
    head_width = shape.get("head_width") or width // heads
    return Model(
        f"a model of {shape['layers']} layers", shape["layers"], width, heads, kv_heads, head_width, hidden,
        shape["vocabulary"], source="given as a shape", experts=experts, latent=latent,
    )  # fmt: skip
