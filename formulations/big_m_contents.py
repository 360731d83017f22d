"""Shared contents in the Big-M program, without forgets: a block resident before a batch and at its end has stayed."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.big_m_letters import Letters, Rows

Block = tuple[str, int]


class Contents:
    """`has[i,p,j]`: at the end of batch j request i has p blocks of its path; `there[n,k,j]`: block k of n is resident.

    `begins[i,j]`: a reuse on no KV. Its sources: `stayed`, another's `made` and, where that may swap, its `back`.
    """

    def __init__(self, program: Letters) -> None:
        self.program, instance = program, program.instance
        self.above = {node.id: node.parent for node in instance.contents}
        self.sizes = {node.id: node.blocks for node in instance.contents}
        self.paths = {
            i: [(part.node, k) for part in parts for k in range(1, part.blocks + 1)]
            for i, parts in enumerate(instance.parts) if parts
        }  # fmt: skip
        every, block = list(product(self.paths, program.batches)), instance.machine.block
        self.reuse, self.begins = program.binary("reuse", every), program.binary("begins", every)
        self.stayed = program.binary("stayed", every)
        whole = self.program.letter("whole", every, lambda i, j: len(self.paths[i]), pyo.NonNegativeIntegers)
        self.whole = {ij: block * blocks for ij, blocks in whole.items()}
        self.has = program.binary("has", [(i, p, j) for i, j in every for p in range(1, len(self.paths[i]) + 1)])
        blocks = [(id, k) for id, most in self.sizes.items() for k in range(1, most + 1)]
        self.there = program.binary("there", [(*each, j) for each, j in product(blocks, program.batches)])
        pairs = [(i, o) for i, o in product(self.paths, repeat=2) if i != o and self.common(i, o)]
        both = [(i, o, j) for (i, o), j in product(pairs, program.batches)]
        self.made = program.binary("made", both if instance.machine.same_batch else ())
        self.back = program.binary("back", [ioj for ioj in both if ioj[1] in program.swappable])

    def common(self, i: int, other: int) -> int:
        """Return the tokens that two paths share."""
        return self.program.machine.block * len({*self.paths[i]} & {*self.paths[other]})

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of contents."""
        return [
            self.reuse_with_work, self.whole_blocks, self.reuse_begins, self.reuse_source, self.reuse_stayed,
            self.reuse_made, self.reuse_back, self.path_blocks, self.resident_blocks, self.block_before,
        ]  # fmt: skip

    def private(self, i: int, j: int) -> Any:
        """Return the blocks of its path that request i has."""
        return sum(self.has[i, p, j] for p in range(1, len(self.paths.get(i, ())) + 1))

    def resident(self, j: int) -> Any:
        """Return the resident blocks at the end of batch j."""
        return sum(self.there[id, k, j] for id, most in self.sizes.items() for k in range(1, most + 1))

    def reuse_with_work(self) -> Rows:
        """R12: reuse <= reused <= M reuse, reuse <= w."""
        for (i, j), reuse in self.reuse.items():
            yield reuse <= self.program.reused[i, j]
            yield self.program.reused[i, j] <= self.program.peak(i) * reuse
            yield reuse <= self.program.w[i, j]

    def whole_blocks(self) -> Rows:
        """R12: m' = b whole, within M (1 - reuse)."""
        for (i, j), reuse in self.reuse.items():
            most, m = self.program.peak(i), self.program.resident(i, j)
            yield m - self.whole[i, j] <= most * (1 - reuse)
            yield self.whole[i, j] - m <= most * (1 - reuse)

    def reuse_begins(self) -> Rows:
        """R12: begins <= reuse <= begins + holds."""
        for (i, j), reuse in self.reuse.items():
            yield self.begins[i, j] <= reuse
            yield reuse <= self.begins[i, j] + self.program.holds(i, j)

    def reuse_source(self) -> Rows:
        """R12: reuse <= stayed + sum of made + sum of back."""
        for (i, j), reuse in self.reuse.items():
            others = [other for other in self.paths if other != i]
            yield reuse <= self.stayed[i, j] + sum(self.made[i, o, j] + self.back[i, o, j] for o in others)

    def reuse_stayed(self) -> Rows:
        """R12: m' <= b sum of there[j-1] on the path + M (1 - stayed)."""
        for (i, j), stayed in self.stayed.items():
            before = sum(self.there[(*each, j - 1)] for each in self.paths[i])
            room = self.program.peak(i) * (1 - stayed)
            yield self.program.resident(i, j) <= self.program.machine.block * before + room

    def reuse_made(self) -> Rows:
        """R12: m' of the other < m' <= m' + c of the other, m' <= b times the blocks of both paths, if made."""
        program = self.program
        for (i, other, j), made in self.made.items():
            room = max(program.peak(i), program.peak(other)) * (1 - made)
            yield program.resident(other, j) + made <= program.resident(i, j) + room
            yield program.resident(i, j) <= program.processed(other, j) + room
            yield program.resident(i, j) <= self.common(i, other) + room

    def reuse_back(self) -> Rows:
        """R12: m' <= m of the other after its swap_in, m' <= b times the blocks of both paths, if back."""
        program = self.program
        for (i, other, j), back in self.back.items():
            room = program.peak(i) * (1 - back)
            yield program.resident(i, j) <= program.resident(other, j) - program.reused[other, j] + room
            yield program.resident(i, j) <= self.common(i, other) + room

    def path_blocks(self) -> Rows:
        """R6: has[i,p,j] = 1 exactly if m' + c >= b p."""
        for (i, p, j), has in self.has.items():
            tokens, least = self.program.processed(i, j), self.program.machine.block * p
            yield tokens >= least * has
            yield tokens <= least - 1 + (self.program.peak(i) + 1 - least) * has

    def resident_blocks(self) -> Rows:
        """R12: has <= there[j] <= there[j-1] + sum of has."""
        for (id, k, j), there in self.there.items():
            paths = ((i, path.index((id, k)) + 1) for i, path in self.paths.items() if (id, k) in path)
            held = [self.has[i, p, j] for i, p in paths]
            for has in held:
                yield has <= there
            yield there <= self.there[id, k, j - 1] + sum(held)

    def block_before(self) -> Rows:
        """R12: there of a block <= there of the one before it."""
        for (id, k, j), there in self.there.items():
            if k > 1:
                yield there <= self.there[id, k - 1, j]
            elif (above := self.above[id]) is not None:
                yield there <= self.there[above, self.sizes[above], j]
