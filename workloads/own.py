"""What requests share, and KV that a cache keeps for the request itself."""

from itertools import count

from kvcore.instance import Instance, Node


def own(instance: Instance) -> Instance:
    """Return the instance with all full blocks of each context on its request's path."""
    taken = {node.id for node in instance.contents}
    names = (name for k in count() if (name := f"own-{k}") not in taken)
    ends: dict[str, set[int]] = {node.id: {node.blocks} for node in instance.contents}
    for request in instance.requests:
        if request.path is not None:
            ends[request.path[0]].add(request.path[1])
    nodes: list[Node] = []
    pieces: dict[tuple[str, int], Node] = {}  # of each node, by their ends: paths may branch there now
    for node in instance.contents:
        above = None if node.parent is None else pieces[node.parent, max(ends[node.parent])].id
        start = 0
        for end in sorted(ends[node.id]):
            nodes.append(Node(id=next(names) if start else node.id, parent=above, blocks=end - start))
            pieces[node.id, end], above, start = nodes[-1], nodes[-1].id, end
    requests = []
    for request, parts in zip(instance.requests, instance.parts, strict=True):
        last = None if request.path is None else pieces[request.path]
        rest = request.peak // instance.machine.block - sum(part.blocks for part in parts)
        if rest:
            last = Node(id=next(names), parent=None if last is None else last.id, blocks=rest)
            nodes.append(last)
        requests.append(request.replace(path=None if last is None else (last.id, last.blocks)))
    return instance.replace(contents=tuple(nodes), requests=tuple(requests))


def what_is_shared(instance: Instance) -> str:
    """Say what share of prompt tokens begins an earlier context."""
    seen, shared = dict[str, int](), 0
    for request, parts in zip(instance.requests, instance.parts, strict=True):
        for part in parts:
            shared += min(seen.get(part.node, 0), part.of(request.prompt // instance.machine.block))
            seen[part.node] = max(seen.get(part.node, 0), part.blocks)
    tokens = sum(request.prompt for request in instance.requests)
    return f"{100 * shared * instance.machine.block / tokens:.1f} % of all prompt tokens begin an earlier context, too"
