"""The schedulers of vLLM V1, SGLang and TensorRT-LLM a second time: from their published rules, slow and literal.

They share nothing with `heuristics`: the second referee carries out their batches, and every step counts the memory
anew. A request that calls comes back as a new one, at the end of the queue; its KV is lost. Machines have blocks, C
(`batch_tokens`) and `batch_requests`; P is C, and calls are `free`.
"""

from fractions import Fraction

from kvcore import Batch, Instance
from tests.support.second_referee import Life, World

Step = tuple[int, dict[str, int], dict[str, int]]
"""Start, work and drops of a batch."""


class Engine:
    """The requests that wait and run, by id; a subclass decides what a step computes, and whom it preempts."""

    def __init__(self, instance: Instance) -> None:
        self.world = World(instance)
        self.machine = instance.machine
        self.tokens = 10**9 if self.machine.batch_tokens is None else self.machine.batch_tokens
        self.requests = 10**9 if self.machine.batch_requests is None else self.machine.batch_requests
        self.block = self.machine.block
        self.blocks_in_all = self.machine.memory // self.block
        self.queue: list[str] = []
        self.running: list[str] = []
        self.away: list[str] = list(self.world.lives)
        self.joined: list[str] = []  # in order of (latest) arrival
        self.lost: dict[str, int] = {}  # tokens of KV that are gone since the last batch
        self.preemptions = 0

    def run(self) -> list[Step]:
        steps: list[Step] = []
        while any(life.completion is None for life in self.world.lives.values()):
            self.observe()
            before = self.preemptions
            work = self.decide()
            if work:
                drops = {id: tokens for id, tokens in self.lost.items() if self.life(id).device}
                batch = Batch(start=self.world.tick, work=work, drop=drops)
                broken = self.world.broken(batch)
                assert broken is None, broken
                steps.append((batch.start, work, drops))
                self.lost = {}
                before_it = {id: self.life(id).segment for id in self.in_order() if id in work}
                self.world.run(batch)
                for id, segment in before_it.items():
                    if self.life(id).completion is not None or self.life(id).segment > segment:
                        self.leave(id)
            elif self.preemptions == before:
                self.idle()
        return steps

    def in_order(self) -> list[str]:
        """Those that run, as the engine goes through them after a step."""
        return list(self.running)

    def observe(self) -> None:
        """Those that have come or come back, in order of time; of one tick, the new ones first."""
        self.world.idle_until(self.world.tick)
        here = [id for id in self.away if self.life(id).status(self.world.tick) == "ready"]
        for id in sorted(here, key=self.turn):
            self.join(id)

    def turn(self, id: str) -> tuple[int, bool]:
        return self.came(id), len(self.life(id).calls) > 0

    def came(self, id: str) -> int:
        """When it arrives, or comes back."""
        calls = self.life(id).calls
        return calls[-1].end if calls else self.life(id).request.arrival

    def join(self, id: str) -> None:
        self.away.remove(id)
        self.joined = [other for other in self.joined if other != id] + [id]
        self.queue.append(id)

    def leave(self, id: str) -> None:
        """It is done, or in a call: it comes back as a new one."""
        self.running.remove(id)
        self.away += [] if self.life(id).completion is not None else [id]
        self.away.sort(key=list(self.world.lives).index)
        self.lose(id)

    def idle(self) -> None:
        self.world.idle_until(min(map(self.came, self.away)))

    def free(self, id: str) -> None:
        """Preempt a request: what it has computed is lost, its output is kept."""
        self.running.remove(id)
        self.lose(id)
        self.preemptions += 1

    def lose(self, id: str) -> None:
        if self.computed(id):
            self.lost[id] = self.life(id).device

    def may_work(self, id: str) -> bool:
        """R4: what a batch drops, it does not compute (but for what a call leaves behind)."""
        return id not in self.lost or self.life(id).is_free_to_evict()

    # --- what a request has, and needs ---------------------------------------------------------------------------

    def life(self, id: str) -> Life:
        return self.world.lives[id]

    def known(self, id: str) -> int:
        return self.life(id).known

    def computed(self, id: str) -> int:
        return self.life(id).device - self.lost.get(id, 0)

    def owed(self, id: str) -> int:
        return self.known(id) - self.computed(id)

    def out(self, id: str) -> int:
        """Tokens generated since it joined as a new request."""
        return self.life(id).out

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block)

    def blocks_left(self, work: dict[str, int]) -> int:
        """Blocks that are free beside what all hold and what the step computes so far."""
        held = {id: self.computed(id) + work.get(id, 0) for id in self.world.lives}
        return self.blocks_in_all - sum(self.blocks(tokens) for tokens in held.values())

    def growth(self, id: str, tokens: int) -> int:
        return self.blocks(self.computed(id) + tokens) - self.blocks(self.computed(id))

    def limit(self, id: str) -> int:
        """Tokens that it may generate in all: its limit or 4,096, as far as memory has room beside its prompt."""
        limit = self.life(id).request.max_new
        room = self.blocks_in_all * self.block - (self.known(id) - self.out(id))
        return min(4096 if limit is None else limit, room)

    def decide(self) -> dict[str, int]:
        raise NotImplementedError


class VllmV1(Engine):
    """One list, one budget of tokens; the last of the list is preempted, and goes to the front of the queue."""

    def __init__(
        self,
        instance: Instance,
        *,
        gate: bool = True,
        priority: bool = False,
        ends_step: bool = False,
    ) -> None:
        super().__init__(instance)
        self.gate, self.priority, self.ends_step = gate, priority, ends_step

    def rank(self, id: str) -> tuple[int, int]:
        """Smaller goes first."""
        return (-self.life(id).request.weight if self.priority else 0, self.joined.index(id))

    def decide(self) -> dict[str, int]:
        work: dict[str, int] = {}
        budget = self.tokens
        preempted = failed = False
        position = 0  # 0.33 goes on after one that preempts itself; first come first served, none is left then
        while position < len(self.running) and not failed:
            id = self.running[position]
            tokens = min(self.owed(id), budget)
            if tokens == 0:
                position += 1
                continue
            while self.growth(id, tokens) > self.blocks_left(work):
                victim = max(self.running, key=self.rank) if self.priority else self.running[-1]
                position -= self.running.index(victim) < position
                budget += work.pop(victim, 0)
                self.free(victim)
                self.queue.insert(0, victim)
                preempted = True
                if victim == id:
                    break
            if id in self.running:
                work[id] = tokens
                budget -= tokens
                position += 1
            else:
                failed = self.ends_step
        if self.priority:
            self.queue.sort(key=self.rank)
        while self.queue and not preempted and budget and len(self.running) < self.requests:
            id = self.queue[0]
            tokens = min(self.owed(id), budget)
            needed = self.growth(id, self.owed(id) if self.gate else tokens)
            if needed > self.blocks_left(work) or not self.may_work(id):
                break
            self.running.append(self.queue.pop(0))
            work[id] = tokens
            budget -= tokens
        return work


class SGLang(Engine):
    """Prefills alone, admitted by what those that run may yet generate; the shortest output is retracted."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.requests = min(self.requests, self.tokens)
        self.ratio = 0.7
        self.full = False
        self.cut: str | None = None  # the one whose prompt is not complete

    def leave(self, id: str) -> None:
        super().leave(id)
        self.full = False

    def limit(self, id: str) -> int:
        """A page and a token less than the memory has beside the pages of the prompt."""
        limit, prompt = self.life(id).request.max_new, self.known(id) - self.out(id)
        return min(4096 if limit is None else limit, (self.blocks_in_all - self.blocks(prompt) - 1) * self.block - 1)

    def left(self, id: str) -> int:
        """What it may still generate."""
        return min(max(1, self.limit(id) - self.out(id)), 4096)

    def decide(self) -> dict[str, int]:
        if not self.queue and not self.running:
            self.ratio = 0.7
        return self.prefill() or self.decode()

    def prefill(self) -> dict[str, int]:
        work: dict[str, int] = {}
        available = self.blocks_left({}) * self.block
        offset = sum([self.ratio * self.left(id) for id in self.running if id != self.cut])
        chunk = min(8192, self.tokens) // self.block * self.block
        if self.cut is not None:
            id = self.cut
            rest = int(available - offset)
            tokens, whole = self.shortened(self.owed(id), min(chunk, rest) if rest > 0 else chunk)
            work[id] = tokens
            chunk -= self.paged(tokens)
            offset += self.paged(tokens) + self.block + (min(self.limit(id), 4096) if whole else 0)
            self.cut = None if whole else id
        nobody_ran = all(id in work for id in self.running)
        while self.queue and not self.full and len(self.running) < self.requests:
            if not chunk and offset < available:  # a spent budget comes before the memory
                break
            id = self.queue[0]
            needed = self.owed(id) + self.left(id) + self.block
            if needed >= available - offset and (self.running or work):  # else it would never be admitted
                self.full = True
                break
            tokens, whole = self.shortened(self.owed(id), chunk)
            if tokens == 0 or not self.may_work(id):
                break
            self.running.append(self.queue.pop(0))
            work[id] = tokens
            chunk -= self.paged(tokens)
            offset += self.paged(tokens) + self.block + (min(self.limit(id), 4096) if whole else 0)
            self.cut = None if whole else id
            self.full = offset >= available
            if not chunk or self.cut:
                break
        if work and (nobody_ran or self.cut):
            self.full = False  # the flag is that of the running batch, and is lost with an empty one; a cut clears it
        return work

    def paged(self, tokens: int) -> int:
        """Tokens, rounded up to pages."""
        return self.blocks(tokens) * self.block

    def shortened(self, tokens: int, chunk: int) -> tuple[int, bool]:
        """Tokens of a prefill that fit into the chunk, and whether it is whole."""
        return min(tokens, chunk), tokens <= chunk

    def decode(self) -> dict[str, int]:
        retracted = False
        while sum(self.growth(id, 1) for id in self.running) > self.blocks_left({}):
            shortest = min(self.out(id) for id in self.running)
            some = [id for id in self.running if self.out(id) == shortest]
            longest = max(self.known(id) for id in some)
            victim = [id for id in some if self.known(id) == longest][-1]
            self.free(victim)
            self.queue.append(victim)
            retracted, self.full = True, False
        if retracted:
            generated = sum(self.out(id) + 20 for id in self.running)
            self.ratio = min(1.0, generated / (sum(self.limit(id) for id in self.running) + 1))
            self.running.sort(key=lambda id: (-self.out(id), self.known(id) - self.out(id)))
        elif self.running:
            self.ratio = max(self.ratio - (0.7 - 0.7 * 0.14) / 600, 0.7 * 0.14)
        return dict.fromkeys(self.running, 1)


class TensorRtLlm(Engine):
    """One list in order of arrival: memory decides who takes part, then tokens are given out, decodes first."""

    def __init__(self, instance: Instance, *, utilize: bool) -> None:
        super().__init__(instance)
        self.utilize = utilize
        self.prompt: dict[str, int] = {}  # of those that have started: what they prefill, all of which has its blocks

    def in_order(self) -> list[str]:
        return [id for id in self.queue if id in self.running]

    def leave(self, id: str) -> None:
        super().leave(id)
        self.queue.remove(id)

    def free(self, id: str) -> None:
        super().free(id)
        del self.prompt[id]

    def decide(self) -> dict[str, int]:
        self.prompt = {id: self.prompt[id] for id in self.running}
        members = self.walk() if self.utilize else self.reserve()
        decoding = [id for id in members if id in self.running and self.computed(id) >= self.prompt[id]]
        work = dict.fromkeys(decoding[: min(self.requests, self.tokens)], 1)
        left = self.tokens - len(work)
        for id in members:
            if id in decoding or len(work) == self.requests or not self.may_work(id):
                continue
            tokens = min(self.owed(id), left)
            tokens = tokens if tokens == self.owed(id) else tokens // self.block * self.block
            if tokens:
                if id not in self.running:
                    self.running.append(id)
                    self.prompt[id] = self.known(id)
                work[id] = tokens
                left -= tokens
        return work

    def reserve(self) -> list[str]:
        """GUARANTEED_NO_EVICT: those that have started, and others in order while prompt and limit have room."""
        members = [id for id in self.queue if id in self.running]
        left = self.blocks_in_all - sum(self.whole(id) for id in members)
        for id in [id for id in self.queue if id not in self.running]:
            if self.whole(id) > left or len(members) >= self.requests:
                break
            left -= self.whole(id)
            members.append(id)
        return sorted(members, key=self.queue.index)

    def whole(self, id: str) -> int:
        return self.blocks(self.known(id) - self.out(id) + self.limit(id))

    def walk(self) -> list[str]:
        """MAX_UTILIZATION: the list in order; where blocks or places lack, the last started from there on pauses."""
        end = len(self.queue)
        members: list[str] = []
        position = taken = 0
        while position < end:
            id = self.queue[position]
            held = sum(self.blocks(max(self.prompt[other], self.computed(other))) for other in self.running)
            if id not in self.running:
                needed = self.blocks(self.known(id))
            elif self.computed(id) < self.prompt[id]:
                needed = 0
            else:
                needed = self.growth(id, 1)
            if held + taken + needed <= self.blocks_in_all and len(members) < self.requests:
                taken += needed
                members.append(id)
                position += 1
                continue
            started = [k for k in range(position, end) if self.queue[k] in self.running]
            if not started:
                break
            end = started[-1]
            self.free(self.queue[end])
        return members


class Whole(Engine):
    """Blocks for the whole prompt from the first chunk on; a decode needs a free one, unless it is alone.

    Without eviction (`ef`) a request has its blocks up to its end from its start on.
    """

    def __init__(self, instance: Instance, *, ef: bool = False) -> None:
        super().__init__(instance)
        self.ef = ef
        self.allocated: dict[str, int] = {}

    def at_first(self, id: str) -> int:
        """Blocks that it needs to start: for all that it knows; with `ef` for all but the last that it ever will."""
        request = self.life(id).request
        returned = sum(segment.call.returns for segment in request.segments if segment.call)
        in_all = request.prompt + returned + sum(segment.decode for segment in request.segments)
        return self.blocks(in_all - 1 if self.ef else self.known(id))

    def place(self, id: str) -> tuple[int, int]:
        return self.life(id).request.arrival, list(self.world.lives).index(id)

    def free_blocks(self) -> int:
        return self.blocks_in_all - sum(self.allocated[id] for id in self.running)

    def decides(self, id: str) -> bool:
        """Whether its next work is a decode (of one token, as the model has it)."""
        return self.owed(id) == 1 and self.computed(id) > 0

    def more(self, id: str) -> int:
        """Blocks that its next token takes."""
        return max(0, self.blocks(self.computed(id) + 1) - self.allocated[id])

    def lacks(self, id: str) -> bool:
        return not self.ef and self.free_blocks() < (self.more(id) if len(self.running) == 1 else 1)


class Vllm(Whole):
    """New prompts, whole and alone, while they fit; else decodes in order of arrival, and the last comer is preempted.

    What is preempted goes to the front of the queue. The prompts of a batch are at most C tokens together, with
    `padded` (Vidur) each as long as the longest.
    """

    def __init__(self, instance: Instance, *, ef: bool = False, padded: bool = False) -> None:
        super().__init__(instance, ef=ef)
        self.padded = padded

    def turn(self, id: str) -> tuple[int, bool]:
        """What has come back is seen at the next step."""
        life = self.life(id)
        return self.world.tick if life.calls else life.request.arrival, False

    def decide(self) -> dict[str, int]:
        work: dict[str, int] = {}
        while self.queue:
            id = self.queue[0]
            prompts = [*work.values(), self.known(id)]
            tokens = len(prompts) * max(prompts) if self.padded else sum(prompts)
            if self.at_first(id) > self.free_blocks() or tokens > self.tokens:
                break
            self.running.append(self.queue.pop(0))
            self.allocated[id] = self.at_first(id)
            work[id] = self.known(id)
        line = [] if work else sorted(self.running, key=self.place)
        while line:
            id = line.pop(0)
            while self.lacks(id):
                victim = line.pop() if line else id
                self.free(victim)
                self.queue.insert(0, victim)
                if victim == id:
                    break
            else:
                self.allocated[id] += self.more(id)
                work[id] = 1
        return work


class SarathiServe(Whole):
    """Decodes in order of arrival, cut prefills, then new ones: chunks of what the decodes leave of 512 tokens."""

    def decide(self) -> dict[str, int]:
        work: dict[str, int] = {}
        gone: list[str] = []
        line, cut = sorted(self.running, key=self.place), []
        while line:
            id = line.pop(0)
            if not self.decides(id):
                cut.append(id)
                continue
            while len(work) < min(self.tokens, self.requests) and self.lacks(id):
                gone.append(line.pop() if line else id)
                self.free(gone[-1])
                if gone[-1] == id:
                    break
            if id in self.running and len(work) < min(self.tokens, self.requests):
                self.allocated[id] += self.more(id)
                work[id] = 1
        left = min(512, self.tokens) - len(work)
        self.queue = sorted([*gone, *self.queue], key=self.place)
        for id in cut:
            if left > 0 and len(work) < self.requests:
                work[id] = min(self.owed(id), left)
                left -= work[id]
        while self.queue and left > 0 and len(work) < self.requests:
            id = self.queue[0]
            if id in gone or self.at_first(id) > self.free_blocks():
                break
            self.queue.pop(0)
            self.running.append(id)
            self.allocated[id] = self.at_first(id)
            work[id] = min(self.owed(id), left)
            left -= work[id]
        return work


class Slai(Whole):
    """SLAI: due decodes, the cut prefill, the shortest prompts, other decodes; 512 tokens, blocks for whole prompts."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.seconds = instance.tick_seconds
        self.due: dict[str, Fraction] = {}
        self.durations: list[int] = []
        self.began: int | None = None
        self.worked: dict[str, int] = {}

    def decide(self) -> dict[str, int]:
        now = self.world.tick
        if self.began is not None:
            self.durations.append(now - self.began)
            early = (
                10 if Fraction(self.blocks_in_all - self.free_blocks(), self.blocks_in_all) >= Fraction(96, 100) else 5
            )
            for id in self.worked:
                if id in self.running and self.decides(id):
                    slo = self.life(id).request.slo
                    wait = slo.tpot if slo is not None and slo.tpot is not None else Fraction(1, 10) / self.seconds
                    self.due[id] = now + wait - early * Fraction(sum(self.durations), len(self.durations))
            self.began = None
        work: dict[str, int] = {}
        gone: list[str] = []
        budget = min(512, self.tokens)
        line = sorted(filter(self.decides, self.running), key=lambda id: (-(-self.due[id] // 1), self.place(id)))
        budget = self.decode([id for id in line if self.due[id] <= now], budget, work, gone)
        for id in [id for id in self.running if not self.decides(id) and id not in work]:
            if budget:
                work[id] = min(self.owed(id), budget)
                budget -= work[id]
        self.queue.sort(key=self.known)
        while self.queue and budget and len(self.running) < self.requests:
            id = self.queue[0]
            if id in gone or self.blocks(self.known(id)) > self.free_blocks():
                break
            self.queue.pop(0)
            self.running.append(id)
            self.allocated[id] = self.blocks(self.known(id))
            work[id] = min(self.owed(id), budget)
            budget -= work[id]
        self.decode([id for id in line if self.due[id] > now], budget, work, gone)
        if work:
            self.began, self.worked = now, work
        return work

    def decode(self, line: list[str], budget: int, work: dict[str, int], gone: list[str]) -> int:
        for id in line:
            if not budget:
                break
            while self.lacks(id):
                cut = [other for other in self.running if not self.decides(other) and other not in work]
                victim = cut[-1] if cut else id
                self.free(victim)
                self.queue.insert(0, victim)
                gone.append(victim)
                if victim == id:
                    break
            else:
                self.allocated[id] += self.more(id)
                work[id] = 1
                budget -= 1
        return budget
