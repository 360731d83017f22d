"""Small instances on which sharing a prefix decides."""

from kvcore.cost import Cost, CostFunction
from kvcore.instance import Instance, Machine, Node, Request, Segment

Row = tuple[int, str, int]  # arrival, prefix or "", and tokens shared


def serial(name: str, prompt: int, memory: int, *rows: Row) -> Instance:
    """Return requests served one at a time."""
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


def followers(k: int) -> Instance:
    """Return `k` users of a prefix that come late."""
    size = k * k
    late: tuple[Row, ...] = ((size + 2, "prefix", size),) * k
    return serial(f"prefix-followers-{k}", size + 1, size + 1, (0, "prefix", size), (size + 1, "", 0), *late)


# description, prompt, memory, rows
CASES: dict[str, tuple[str, int, int, tuple[Row, ...]]] = {
    "prefix-idles": (
        "an optimum idles for a tick to keep a prefix", 3, 3, ((0, "xy", 2), (3, "", 0), (4, "xy", 2), (5, "xy", 2)),
    ),
    "prefix-lru": (
        "fcfs with LRU has 19, the optimum 12", 3, 3, ((0, "xy", 2), (3, "z", 1), (3, "xy", 2), (5, "z", 1)),
    ),
    "prefix-lpm": (
        "longest prefix first is worse than fcfs", 4, 9, ((2, "a", 1), (4, "bcd", 3), (4, "bcd", 3), (6, "a", 1)),
    ),
    "prefix-order": (
        "who goes first decides which prefix is there later", 4, 4, ((0, "abc", 3), (0, "", 0), (7, "abc", 3)),
    ),
}  # fmt: skip
