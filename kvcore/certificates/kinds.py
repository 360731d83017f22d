"""Every kind of proof that a file may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kvcore.certificates.alone import Alone
from kvcore.certificates.configurations import Configurations
from kvcore.certificates.events import Events
from kvcore.certificates.fresh import Fresh
from kvcore.certificates.late_windows import LateWindows
from kvcore.certificates.prices import Prices
from kvcore.certificates.shares import Shares
from kvcore.certificates.slots import Slots
from kvcore.certificates.speed import Speed
from kvcore.certificates.tail import LateTail
from kvcore.certificates.tree import Tree

AnyProof = Annotated[
    Alone | Configurations | Events | Fresh | LateWindows | Prices | Shares | Slots | Speed | LateTail | Tree,
    Field(discriminator="kind"),
]
"""Every kind of proof."""
