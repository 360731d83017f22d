"""Vidur's profiles of a layer without attention, by tokens, measured on real devices.

Its `mlp.csv` files (Agrawal et al., MLSys 2024) have a row for each number of tokens and of devices that share the
layer, with milliseconds of each operation. The time of a layer is the sum of the medians of norms, projections, rotary
embedding, feed-forward part and addition.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from costmodels.models import MODELS, Model
from kvcore.cost import Features
from kvcore.cost_file import Observation
from kvcore.csv_table import Row, read_csv
from kvcore.errors import BadInput

OPERATIONS = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
TIMES = tuple(f"time_stats.{operation}.median" for operation in OPERATIONS)
SHAPE = ("n_head", "n_kv_head", "n_embd", "n_expanded_embd")
TOKENS, DEVICES = "num_tokens", "num_tensor_parallel_workers"


@dataclass(frozen=True)
class LayerTimes:
    """A layer's times on one device, or on several that share it."""

    shape: tuple[int, int, int, int]  # query heads, heads of KV, width, width of the feed-forward part
    devices: int
    layer: tuple[tuple[int, Fraction], ...]  # tokens and exact seconds of a layer, in the order of the file

    @property
    def model(self) -> Model | None:
        """The model whose layers have this shape, or None."""
        return next((m for m in MODELS.values() if (m.heads, m.kv_heads, m.width, m.hidden) == self.shape), None)

    def observations(self, layers: int = 1) -> list[Observation]:
        """Return the time of `layers` for each number of tokens; labels are by powers of two."""
        return [
            Observation(Features(busy=1, tokens=tokens), float(layers * seconds), f"{1 << tokens.bit_length() - 1}+")
            for tokens, seconds in self.layer
        ]


def read_vidur(source: str | Path, devices: int = 1) -> LayerTimes:
    """Return the profile of layers that `devices` share. BadInput says what is wrong with the file."""
    rows = list(read_csv(source, (*TIMES, *SHAPE, TOKENS, DEVICES)).rows)
    shapes = {tuple(row.whole(column, 1) for column in SHAPE) for row in rows}
    if len(shapes) > 1:
        raise BadInput(f"{source}: it holds {len(shapes)} shapes of layers ({', '.join(SHAPE)}), not one")
    known = sorted({row.whole(DEVICES, 1) for row in rows})
    if devices not in known:
        raise BadInput(f"{source}: no layer is shared by {devices} devices; there are {', '.join(map(str, known))}")
    layer = tuple((row.whole(TOKENS, 1), _seconds(row)) for row in rows if row.whole(DEVICES, 1) == devices)
    heads, kv_heads, width, hidden = shapes.pop()
    return LayerTimes((heads, kv_heads, width, hidden), devices, layer)


def _seconds(row: Row) -> Fraction:
    total = sum((row.seconds(column) for column in TIMES), Fraction(0)) / 1000
    if total == 0:
        row.refuse(TIMES[0], "above 0, or another operation's time")
    return total
