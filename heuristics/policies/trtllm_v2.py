"""TensorRT-LLM's scheduler for the second KV cache manager: suspends to the host."""

from bisect import insort
from collections.abc import Sequence
from heapq import merge
from typing import ClassVar

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting
from heuristics.engine.view import View
from heuristics.policies.trtllm import TensorRtLlm
from kvcore.instance import LIMIT


class TensorRtLlmV2(TensorRtLlm):
    """Generating requests in order of arrival, each with its next block; then prompts, each with a chunk.

    Where a generating request lacks memory, the last started behind it is suspended, and the list is cut there; if
    there is none, itself, and those behind it wait. Suspended KV goes to the host, as a whole; where that is full, it
    is dropped and computed again. A prompt that lacks memory for its chunk is skipped; without a host, the last started
    that does not work loses its KV for it, and no further prompt is taken. None starts or comes back while more than
    `max_util_for_resume` of the blocks are held. Chunks end at a block, unless they end the prompt.

    Where nothing could work, the last started give way to the first prompt.

    Where calls swap by order and the host is full, it drops suspended KV, that of the last first.

    Not run beside the engine, which differs: suspended KV leaves the device only as its memory is needed; a full host
    drops what was suspended before. Not modelled: block reuse, drafts, disks, transfers that take several batches.

    Running time: O(n) a batch, n present.
    Source: TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/scheduler/scheduler_v2.py (00746ef); 0.95 is llm_args' default.
    """

    name = "trtllm-v2"
    rule = "First come first served, decodes first; the last started is suspended to the host; calls discard"
    source = "TensorRT-LLM, _torch/pyexecutor/scheduler/scheduler_v2.py (00746ef)"
    needs: tuple[str, ...] = (*TensorRtLlm.needs, "evict")
    max_util_for_resume: float = 0.95
    settings: ClassVar[dict[str, Setting]] = {
        "max_util_for_resume": Setting("share of the blocks held above which none starts or comes back", most=1)
    }

    def decide(self, view: View, plan: Plan) -> None:
        self.step(view, plan)
        while plan.free_host is not None and plan.free_host < 0:
            present = (*self.running, *self.waiting)
            suspended = [job for job in present if job.host and job.id not in plan.swapped_out]
            if not suspended:
                return
            last = max(suspended, key=self.place)
            plan.drop(last)
            if last in self.running:
                self.running.remove(last)
                insort(self.waiting, last, key=self.place)

    def step(self, view: View, plan: Plan) -> None:
        """Decide but for what calls swap by order."""
        if self.goes_on(view, plan):
            return
        self.free, self.suspended = self.room(plan), list[Job]()
        decodes, prompts = self.generate(plan)
        chunks = self.prefill(prompts, decodes, plan)
        if not (decodes or chunks):
            return
        for job in self.suspended:
            if job.device <= (job.device if plan.free_host is None else plan.free_host):
                plan.swap_out(job)
            else:
                self.preempt(job, plan)
                insort(self.waiting, job, key=self.place)
        if not plan.decode_on(decodes):
            chunks = dict.fromkeys(decodes, 1) | chunks
        for job, tokens in chunks.items():
            if not self.may_join(job, plan):  # another has taken the KV that its call preserved
                continue
            if job.index not in self.started:
                self.waiting.remove(job)
                self.running.append(job)
                self.prompts[job.index] = job.known
            self.take(job, min(tokens, job.missing), plan)

    def generate(self, plan: Plan) -> tuple[list[Job], list[Job]]:
        """Return who decodes, and the prompts before the end of the list."""
        decodes, prompts = list[Job](), list[Job]()
        line = [*merge(self.running, self.waiting, key=self.place)]
        while line and len(decodes) < min(plan.requests_left, plan.tokens_left):
            job = line.pop(0)
            if not self.generates(job):
                prompts.append(job)
                continue
            while not self.fits(job, 1) and (victims := self.active(line)):
                self.suspend(victims[-1])
                del line[line.index(victims[-1]) :]
            if not self.fits(job, 1):
                if job.device:
                    self.suspend(job)
                break
            self.free -= self.lacks(job, 1)
            decodes.append(job)
        return decodes, prompts

    def prefill(self, prompts: Sequence[Job], decodes: Sequence[Job], plan: Plan) -> dict[Job, int]:
        """Return the chunks of prompts."""
        chunks, left = dict[Job, int](), min(plan.tokens_left - len(decodes), plan.prefill_left)
        for job in prompts:
            if not left or len(decodes) + len(chunks) == plan.requests_left:
                break
            tokens = self.chunk(job, left, plan)
            if tokens and self.fits(job, tokens):
                self.free -= self.lacks(job, tokens)
                left -= tokens
                chunks[job] = tokens
            elif tokens and self.machine.host_memory == 0 and (decodes or chunks):
                idle = [other for other in self.active(self.running) if other not in (job, *decodes, *chunks)]
                if idle:
                    self.suspend(idle[-1])
                    break
        first = next((job for job in prompts if self.chunk(job, left, plan)), None)
        if first and not (chunks or decodes):
            tokens, idle = self.chunk(first, left, plan), [job for job in self.active(self.running) if job is not first]
            while idle and self.lacks(first, tokens) > self.free:
                self.suspend(idle.pop())
            chunks |= {first: tokens} if self.lacks(first, tokens) <= self.free else {}
        return chunks

    def chunk(self, job: Job, left: int, plan: Plan) -> int:
        """Return the next chunk of a prompt that `left` tokens allow."""
        tokens = min(job.missing, left) if self.may_join(job, plan) else 0
        whole = tokens == job.missing or self.machine.block > (self.machine.prefill_limit or LIMIT)
        return tokens if whole else tokens - tokens % self.machine.block

    def active(self, jobs: Sequence[Job]) -> list[Job]:
        """Return those that have started, hold KV on the device and are not suspended."""
        return [job for job in jobs if job.device and job.index in self.started and job not in self.suspended]

    def suspend(self, job: Job) -> None:
        """Count its blocks as free."""
        self.suspended.append(job)
        self.free += job.blocks

    def lacks(self, job: Job, tokens: int) -> int:
        """Return the blocks that it lacks; KV that its call preserved counts as free."""
        return job.growth(tokens) + (job.blocks if job.index in self.kept else 0)

    def fits(self, job: Job, tokens: int) -> bool:
        """Whether there is memory for it, and for it to start or come back."""
        limit = self.machine.block_limit
        resumes = limit is None or job.device > 0 or limit - self.free <= self.max_util_for_resume * limit
        return resumes and self.lacks(job, tokens) <= self.free
