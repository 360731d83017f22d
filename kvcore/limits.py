"""Limits of a batch: the rules R5 to R7 as a table for the referee, programs, searches and policies."""

from typing import Any, NamedTuple

from kvcore.instance import Machine


class Use(NamedTuple):
    """Resources that a batch, or a request in it, takes."""

    blocks: int
    host: int
    tokens: int
    prefill_tokens: int
    requests: int
    decode_requests: int
    prefill_requests: int


class Limit(NamedTuple):
    """The most that a batch takes of a resource."""

    name: str  # name of its prices in certificates
    rule: int
    key: str  # of the machine
    column: str  # of a `Use`
    says: str  # the error above the limit; `held` are the tokens of `used` blocks

    @property
    def words(self) -> str:
        """The resource in words."""
        return self.column.replace("_", " ")

    def of(self, machine: Machine) -> int | None:
        """Return a machine's limit (None: none)."""
        limit: int | None = getattr(machine, self.key)
        return limit

    def exceeded(self, machine: Machine, used: int) -> str:
        """Return the error of a batch that takes too much."""
        return self.says.format(used=used, held=used * machine.block, machine=machine)


LIMITS = (
    Limit("device", 6, "block_limit", "blocks",
          "the requests occupy {used} blocks of {machine.block} = {held}, memory is {machine.memory}"),
    Limit("host", 7, "host_memory", "host", "the host holds {used} tokens, host_memory is {machine.host_memory}"),
    Limit("tokens", 5, "batch_tokens", "tokens",
          "it processes {used} tokens, batch_tokens is {machine.batch_tokens}"),
    Limit("prefill_tokens", 5, "prefill_tokens", "prefill_tokens",
          "it prefills {used} tokens, prefill_tokens is {machine.prefill_tokens}"),
    Limit("requests", 5, "batch_requests", "requests",
          "{used} requests work in it, batch_requests is {machine.batch_requests}"),
)  # fmt: skip
BUDGETS = tuple(limit for limit in LIMITS if limit.rule == 5)
SHARED = len(LIMITS)
DEVICE, HOST, TOKENS = range(3)
"""Places in `LIMITS`."""


def limits_of(machine: Machine, unlimited: float) -> list[float]:
    """Return the machine's `LIMITS`, or `unlimited`."""
    return [unlimited if (most := limit.of(machine)) is None else most for limit in LIMITS]


def use_of(tokens: Any, decodes: Any, prefills: Any, blocks: Any = 0, host: Any = 0) -> Use:
    """Return the use of a batch; each of its decodes processes one token."""
    return Use(blocks, host, tokens, tokens - decodes, decodes + prefills, decodes, prefills)
