"""The language models by name: their shapes, and what follows from a shape (parameters, bytes of KV a token)."""

from __future__ import annotations

from dataclasses import dataclass

from kvcore.errors import unknown


@dataclass(frozen=True)
class Model:
    """The shape of a decoder; `gated`: the feed-forward part has a gate (three matrices, not two)."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int
    """Width of the feed-forward part."""
    vocabulary: int
    gated: bool = True
    tied: bool = False
    """The embedding is also the matrix of the logits."""
    source: str = ""
    attention_bias: bool = False
    hidden_bias: bool = False
    head_bias: bool = False
    """Whether the projections of attention, the feed-forward part, and the logits add a bias."""
    norms: int = 2
    """Norms in a layer; one more stands at the end."""
    norm_bias: bool = False
    positions: int = 0
    """Learned embeddings of positions (0: rotary ones, which have no parameters)."""

    def kv_bytes(self, size: int = 2) -> int:
        """Return the bytes of KV that a token takes over all layers, at `size` bytes a number: 2 L KV D size."""
        return 2 * self.layers * self.kv_heads * self.head_width * size

    @property
    def layer_matrices(self) -> int:
        """Numbers in the matrices of all layers: L (d (2 H + 2 KV) D + (3 or 2) d f)."""
        attention = self.width * (2 * self.heads + 2 * self.kv_heads) * self.head_width
        return self.layers * (attention + (3 if self.gated else 2) * self.width * self.hidden)

    @property
    def head_matrix(self) -> int:
        """Numbers in the matrix of the logits: V d."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters: matrices, biases, norms, embeddings."""
        embeddings = (0 if self.tied else self.head_matrix) + self.positions * self.width
        return self.read_parameters + embeddings

    @property
    def read_parameters(self) -> int:
        """The parameters that every batch reads: all but embeddings of which it reads a row a token."""
        norm = self.width * (2 if self.norm_bias else 1)
        norms = (self.layers * self.norms + 1) * norm
        head_bias = self.vocabulary if self.head_bias else 0
        return self.layer_matrices + self.layers * self._layer_biases + self.head_matrix + norms + head_bias

    @property
    def _layer_biases(self) -> int:
        attention = (self.heads + 2 * self.kv_heads) * self.head_width + self.width
        hidden = (2 if self.gated else 1) * self.hidden + self.width
        return attention * self.attention_bias + hidden * self.hidden_bias


TINY = Model("tiny", 2, 64, 4, 2, 16, 128, 256, source="no model: for tests")
SMALL = Model("small", 2, 256, 4, 2, 64, 768, 1024, source="no model: for replays on a CPU")
LLAMA_1B = Model("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128_256, tied=True, source="Llama-3.2-1B")
LLAMA_2_7B = Model("llama-2-7b", 32, 4096, 32, 32, 128, 11_008, 32_000, source="Llama-2-7b")
LLAMA_2_70B = Model("llama-2-70b", 80, 8192, 64, 8, 128, 28_672, 32_000, source="Llama-2-70b")
LLAMA_3_8B = Model("llama-3-8b", 32, 4096, 32, 8, 128, 14_336, 128_256, source="Meta-Llama-3-8B")
LLAMA_3_70B = Model("llama-3-70b", 80, 8192, 64, 8, 128, 28_672, 128_256, source="Meta-Llama-3-70B")
VICUNA_13B = Model("vicuna-13b", 40, 5120, 40, 40, 128, 13_824, 32_000, source="vicuna-13b-v1.3")
GPT_J_6B = Model(
    "gpt-j-6b", 28, 4096, 16, 16, 256, 16_384, 50_400, gated=False, source="gpt-j-6B",
    hidden_bias=True, head_bias=True, norms=1, norm_bias=True,
)  # fmt: skip
OPT_13B = Model(
    "opt-13b", 40, 5120, 40, 40, 128, 20_480, 50_272, gated=False, tied=True, source="opt-13b",
    attention_bias=True, hidden_bias=True, norm_bias=True, positions=2050,
)  # fmt: skip

MODELS = {
    model.name: model
    for model in (
        TINY, SMALL, LLAMA_1B, GPT_J_6B, LLAMA_2_7B, LLAMA_3_8B, OPT_13B, VICUNA_13B, LLAMA_2_70B, LLAMA_3_70B,
    )
}  # fmt: skip
"""By name; the shapes are those of the configuration files of the published weights (`source`)."""


def get_model(name: str) -> Model:
    """Return the model of that name, or raise BadInput."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]
