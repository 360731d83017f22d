"""The language models by name: their shapes, and what follows from a shape (parameters, bytes of KV a token)."""

from __future__ import annotations

from dataclasses import dataclass

from kvbound.errors import BadInput


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

    def kv_bytes(self, size: int = 2) -> int:
        """Return the bytes of KV that a token takes over all layers, at `size` bytes a number: 2 L KV D size."""
        return 2 * self.layers * self.kv_heads * self.head_width * size


TINY = Model("tiny", 2, 64, 4, 2, 16, 128, 256, source="no model: for tests")
LLAMA_1B = Model("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128_256, tied=True, source="Llama-3.2-1B")

MODELS = {model.name: model for model in (TINY, LLAMA_1B)}


def get_model(name: str) -> Model:
    """Return the model of that name, or raise BadInput."""
    if name not in MODELS:
        raise BadInput(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]
