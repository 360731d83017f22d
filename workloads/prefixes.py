"""Small instances on which sharing a prefix decides."""

from kvcore.cost import Cost, CostFunction
from kvcore.instance import Instance, Machine, Node, Request, Segment

Row = tuple[int, str, int]
"""An arrival, a prefix ("": none), and the tokens shared."""


def serial(name: str, prompt: int, memory: int, *rows: Row) -> Instance:
    """Return requests of one output token, served one at a time, a tick a token."""
    shared = {node: max(tokens for _, of, tokens in rows if of == node) for _, node, _ in rows if node}
    requests = tuple(
        Request(
            id=f"R{i}", arrival=arrival, prompt=prompt, segments=(Segment(decode=1),),
            path=(node, tokens) if node else None,
        )
        for i, (arrival, node, tokens) in enumerate(rows, 1)
    )  # fmt: skip
    return Instance(
        name=name, machine=Machine(memory=memory, batch_requests=1, evict=True),
        cost=Cost((CostFunction(tokens=1),)), requests=requests,
        contents=tuple(Node(id=node, parent=None, blocks=tokens) for node, tokens in shared.items()),
    )  # fmt: skip


def idles() -> Instance:
    """Return one of which an optimum idles for a tick to keep a prefix."""
    return serial("prefix-idles", 3, 3, (0, "xy", 2), (3, "", 0), (4, "xy", 2), (5, "xy", 2))


def lru() -> Instance:
    """Return one on which first come, first served with LRU is 19/12 of the optimum."""
    return serial("prefix-lru", 3, 3, (0, "xy", 2), (3, "z", 1), (3, "xy", 2), (5, "z", 1))


def lpm() -> Instance:
    """Return one on which longest prefix first is worse than first come, first served."""
    return serial("prefix-lpm", 4, 9, (2, "a", 1), (4, "bcd", 3), (4, "bcd", 3), (6, "a", 1))


def order() -> Instance:
    """Return one whose optimal makespan needs the right one of two requests last."""
    return serial("prefix-order", 4, 4, (0, "abc", 3), (0, "", 0), (7, "abc", 3))


def followers(k: int) -> Instance:
    """Return a prefix of k * k tokens, another request as it ends, and k of the same prefix a tick later."""
    size = k * k
    late: tuple[Row, ...] = ((size + 2, "prefix", size),) * k
    return serial(f"prefix-followers-{k}", size + 1, size + 1, (0, "prefix", size), (size + 1, "", 0), *late)
