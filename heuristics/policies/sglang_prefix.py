"""SGLang's scheduler with its radix cache."""

from collections import Counter
from itertools import takewhile
from typing import ClassVar

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.radix_tree import RadixTree, TreeNode
from heuristics.engine.view import View
from heuristics.policies.sglang import SGLang
from kvcore.features import Feature, Takes
from kvcore.instance import LIMIT

Block = tuple[str, int]
SEARCHED = 128  # waiting requests whose prefixes are looked for, or used
REFRESH = 32  # plans from one use of the waiting requests' prefixes to the next
SHORT = 32  # tokens: who finds no more, and shares as many with another that waits, goes last
STEPS = 20  # decodes of those that stay for which a retraction frees memory


class SGLangPrefix(SGLang):
    """As sglang, with a radix cache: an admitted request finds the full blocks of its path in a tree.

    Blocks enter it as a prefill's batch ends, others with their request; retractions free them. The longest unused leaf
    goes, as a whole. With `by_prefix`, up to 128 waiting requests are in order of what they find; one that finds at
    most 32 tokens, and has 32 in common with one before, goes last. Else every 32nd plan with a queue uses the first
    128 prefixes.

    Running time: O(blocks) a batch. Source: SGLang 0.5.23, srt/mem_cache/radix_cache.py.
    """

    name = "sglang-fcfs"
    by_prefix: bool = False
    takes: ClassVar[Takes] = Takes((SGLang.takes.features | {Feature.SHARED}) - {Feature.PRESERVE, Feature.SWAP})

    def start(self, view: View) -> None:
        super().start(view)
        self.tree = RadixTree()
        self.free = LIMIT if view.machine.block_limit is None else view.machine.block_limit
        self.paths: dict[int, list[Block]] = {}
        self.done: dict[int, int] = {}  # of those that run: tokens of KV,
        self.owned: dict[int, int] = {}  # how many of its blocks are the tree's,
        self.nodes: dict[int, TreeNode] = {}  # and the node that it locks
        self.lost: dict[Job, int] = {}  # tokens to be dropped with the next batch
        self.resident: set[Block] = set()  # in the model, when the next batch has ended
        self.plans = 0
        self.before: list[Job] = []  # worked in the latest batch, in order,
        self.prefilled = False  # which prefilled

    def decide(self, view: View, plan: Plan) -> None:
        if view.batch > self._batch:
            self.lost.clear()
        super().decide(view, plan)
        if plan.work:
            self._move(plan)

    def decode_on(self, plan: Plan) -> bool:
        return False

    def steady(self, view: View, plan: Plan) -> int:
        return 1

    # --- the cache ---------------------------------------------------------------------------------------------------

    def path(self, job: Job) -> list[Block]:
        """Return the blocks of a request's path."""
        if job.index not in self.paths:
            self.paths[job.index] = [(part.node, k) for part in job.path for k in range(part.blocks)]
        return self.paths[job.index]

    def observe(self, view: View, plan: Plan) -> None:
        left = {job.index for job in (*view.ended, *view.called)}
        if view.batch > self._batch:
            for job in self.before:
                if job.index in left:
                    self._release(job)
                elif self.prefilled and job is not self.cut:
                    self._enter(job)
            if self.cut in self.before and self.cut is not None:
                self._enter(self.cut)
            self.before = []
        self._batch = view.batch
        self.running = [job for job in self.running if job.index not in left]
        self.lost |= {job: job.device for job in view.called if job.handling == "free"}
        self.full &= not left
        for job in self.coming(view):
            self.queue(job)

    def _enter(self, job: Job) -> None:
        size, path = self.machine.block, self.path(job)
        key = path[: self.done[job.index] // size]
        found, node = self.tree.insert(key)
        prompt = (job.known - self.generated(job)) // size
        if 0 < prompt < len(key):
            self.tree.walk(key[:prompt])
        self.free += max(0, found - self.owned[job.index])
        self.owned[job.index] = len(key)
        node = self.tree.walk(key)[1]
        self.tree.lock(self.nodes[job.index], -1)
        self.tree.lock(node)
        self.nodes[job.index] = node

    def _release(self, job: Job, *, keep: bool = True) -> None:
        if keep:
            self._enter(job)
        self.free += self.machine.blocks(self.done[job.index]) - self.owned[job.index]
        self.tree.lock(self.nodes.pop(job.index), -1)
        del self.done[job.index], self.owned[job.index]

    def _make_room(self, blocks: int) -> bool:
        if blocks > self.free:
            self.free += self.tree.evict(blocks - self.free)
        return blocks <= self.free

    @property
    def rest(self) -> float:
        """Tokens that are not promised."""
        return (self.free + self.tree.evictable) * self.machine.block - self.offset

    # --- a batch -----------------------------------------------------------------------------------------------------

    def step(self, view: View, plan: Plan) -> None:
        plan.limit(prefill_tokens=self.prefill_tokens)
        size = self.machine.block
        self.left = plan.prefill_left - plan.prefill_left % size or plan.prefill_left
        ran = bool(self.running)
        most = min(self.machine.batch_requests or LIMIT, self.machine.batch_tokens or LIMIT, self.max_running_requests)
        self.full &= ran
        if self.cut or (self.waiting and not self.full):
            if not self.cut and len(self.running) >= most:
                self.full = True
            else:
                self._order()
                self.offset = sum(min(self.limit(job), self.longest) * self.share for job in self.running)
                self._prefill(plan, most, ran)
        if plan.work:
            self.prefilled = True
            self.full &= ran and self.cut is None
        elif self.running:
            self._decode(plan)
            self._decoded = view.batch if plan.work else None
            self.prefilled = False

    def _order(self) -> None:
        line, deferred = self.waiting, set[int]()
        if not line:
            return
        if not self.by_prefix or len(line) > SEARCHED:
            if self.plans % REFRESH == 0:
                for job in reversed(line[:SEARCHED]):
                    self.tree.walk(self.path(job)[: job.known // self.machine.block])
            self.plans += 1
            return
        found, others = dict[int, int](), list[Job]()
        for job in line:
            hit = self.tree.walk(self.path(job)[: job.known // self.machine.block])[0] * self.machine.block
            found[job.index] = min(hit, job.known - 1)
            if hit <= SHORT:
                if any(self._common(job, other) >= SHORT for other in others):
                    deferred.add(job.index)
                else:
                    others.append(job)
        line.sort(key=lambda job: LIMIT if job.index in deferred else -found[job.index])

    def _common(self, job: Job, other: Job) -> int:
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.path(job), self.path(other), strict=False))
        )
        return min(same * self.machine.block, job.known, other.known)

    def _prefill(self, plan: Plan, most: int, ran: bool) -> None:
        size, taken = self.machine.block, list[tuple[Job, int]]()
        if (job := self.cut) is not None:
            missing, rest = job.known - self.done[job.index], int(self.rest)
            tokens = min(missing, min(self.left, rest) if rest > 0 else self.left)
            taken.append((job, tokens))
            self._count(job, tokens, missing)
            if tokens == missing:
                self.cut = None
        for job in [*self.waiting]:
            if self.left <= 0 and self.rest > 0:
                break
            if len(self.running) + len(taken) >= most:
                self.full = True
            if self.full:
                break
            found, node = self.tree.walk(self.path(job)[: (job.known - 1) // size])
            self.tree.lock(node)
            missing = job.known - found * size
            needed = missing + min(self.limit(job), self.longest) + size
            tokens = min(missing, self.left)
            if needed >= self.rest and (self.running or taken):
                self.tree.lock(node, -1)
                self.full = bool(taken) or ran
                break
            if tokens < 1:
                self.tree.lock(node, -1)
                break
            self.waiting.remove(job)
            self.nodes[job.index], self.owned[job.index], self.done[job.index] = node, found, found * size
            if found:
                plan.reused[job.id] = found * size
            taken.append((job, tokens))
            self._count(job, tokens, missing)
            if tokens < missing:
                self.cut = job
            if self.rest <= 0:
                self.full = True
                break
            if self.left <= 0:
                break
        self._grow(taken, plan, sum(tokens for _, tokens in taken))
        self.running += [job for job, _ in taken if job is not self.cut]

    def _count(self, job: Job, tokens: int, missing: int) -> None:
        paged = self.machine.blocks(tokens) * self.machine.block
        self.left -= paged
        self.offset += paged + self.machine.block + (self.most(job) if tokens == missing else 0)

    def _grow(self, taken: list[tuple[Job, int]], plan: Plan, tokens: int) -> None:
        size = self.machine.block
        self._make_room(-(-tokens // size) if size == 1 else -(-(tokens + len(taken) * size) // size))
        for job, more in taken:
            before = self.done[job.index]
            self.free -= self.machine.blocks(before + more) - self.machine.blocks(before)
            self.done[job.index] = before + more
            plan.work[job.id] = more
        self.before = [job for job, _ in taken]

    def _decode(self, plan: Plan) -> None:
        size = self.machine.block

        def needed(jobs: list[Job]) -> int:
            return sum(self.done[job.index] % size == 0 for job in jobs)

        order = self.running
        if not self._make_room(needed(order)):
            order = sorted(order, key=lambda job: (-self.generated(job), job.known - job.generated))
            retracted = list[Job]()
            while len(order) > 1 and not (retracted and self._make_room(needed(order))):
                job = order.pop()
                retracted.append(job)
                self.lost[job] = self.done[job.index]
                self._release(job, keep=False)
                self._make_room(-(-len(order) * STEPS // size))
            self.waiting += retracted
            self.running, self.full = order, False
            counted, left = sum(map(self.generated, order)), sum(map(self.limit, order))
            self.ratio = min(1.0, (counted + STEPS * len(order)) / (counted + left + 1))
        else:
            self.lower(1)
        self._grow([(job, 1) for job in order], plan, 0 if size > 1 else len(order))

    def _move(self, plan: Plan) -> None:
        plan.dropped.update((job.id, tokens) for job, tokens in self.lost.items() if tokens)
        here = {block for node in self.tree.nodes() for block in node.key}
        made, size = set[Block](), self.machine.block
        for job in (*self.running, *((self.cut,) if self.cut else ())):
            path, done = self.path(job), self.done[job.index]
            before = (done - plan.work.get(job.id, 0)) // size
            here.update(path[:before])
            made.update(path[before : done // size])
        gone = self.resident - here
        self.resident = (self.resident - gone) | made
        plan.forgotten.update(Counter(node for node, _ in gone))


VARIANTS = (
    SGLangPrefix().called("sglang-lpm", "As sglang-fcfs; who finds most of its prompt goes first", by_prefix=True),
)
