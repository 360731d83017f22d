"""The semantics as a constraint program (OR-Tools CP-SAT), in integer ticks, written rule by rule.

No code and no linearisation is that of the Pyomo models: conditions are implications, the attention term is a product.
Unused batches are at the end.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kvcore.cost import CostFunction, Features
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance, Request
from kvcore.limits import BUDGETS
from kvcore.metrics import FLOWS, OBJECTIVES, Value, scale_of, weight
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace

try:
    from ortools.sat.python import cp_model
except ImportError as error:  # an optional extra
    cp_model, WHY_NOT = None, str(error)


class _RequestVariables:
    """Variables of one request; index j is the batch, index k the segment.

    `generated[j]`, `ended[k][j]`, `resident[j]`, `host[j]`: before batch j. `device[j]`, `offloaded[j]`: after its
    moves. `known[j]` is S at t_j. `kept[j]`, `back[j]`, `filled[j]`: blocks by part of the path, held after drops and
    swap_outs, after swap_ins, at the end.
    """

    def __init__(self, request: Request, path: tuple[Any, ...]) -> None:
        self.request, self.path = request, path
        self.blocks = sum(part.blocks for part in path)
        self.outputs = [sum(s.decode for s in request.segments[: k + 1]) for k in range(len(request.segments))]
        self.generated: list[Any] = []
        self.ended: list[list[Any]] = [[] for _ in request.segments]
        self.ends_in: list[list[Any]] = [[] for _ in request.segments]
        self.end_time: list[Any] = []
        self.returned: list[list[Any]] = [[] for _ in request.calls]
        self.window: list[list[Any]] = [[] for _ in request.calls]
        self.known: list[Any] = []
        self.resident: list[Any] = []
        self.host: list[Any] = []
        self.device: list[Any] = []
        self.offloaded: list[Any] = []
        self.moved: dict[str, list[Any]] = {"drop": [], "swap_out": [], "swap_in": []}
        self.moves: dict[str, list[Any]] = {"drop": [], "swap_out": [], "swap_in": []}
        self.reused: list[Any] = []
        self.kept: list[list[Any]] = []
        self.back: list[list[Any]] = []
        self.filled: list[list[Any]] = []
        self.tokens: list[Any] = []
        self.works: list[Any] = []
        self.generates: list[Any] = []
        self.decodes: list[Any] = []
        self.first_token: Any = None


class CpSat:
    """At most `batches` batches; `model` is the CP-SAT model, minimised.

    normalized-latency is scaled by the least common multiple of the outputs. `upper_bound`, the value of a known
    schedule, bounds the times.
    """

    name = "cp-sat"
    OBJECTIVES = tuple(OBJECTIVES)

    def __init__(self, instance: Instance, objective: str, batches: int, *, upper_bound: Value | None = None) -> None:
        if cp_model is None:
            raise MissingTool(f"OR-Tools cannot be loaded ({WHY_NOT}); install it with: pip install 'kvbound[cp-sat]'")
        if objective not in self.OBJECTIVES:
            raise BadInput(f"cp-sat has no objective {objective!r}")
        self.instance, self.machine, self.objective_name = instance, instance.machine, objective
        self.batches = range(batches)
        self.scale = scale_of(instance.requests, objective)
        self.model = cp_model.CpModel()
        self.longest_batch = self._longest_batch()
        self.latest = self._latest(upper_bound)
        self.time()
        self.parts = list(map(_RequestVariables, instance.requests, instance.parts))
        for part in self.parts:
            self.progress(part)
            self.calls(part)
            self.moving(part)
            self.working(part)
            self.rule_4_residence(part)
            self.rule_9_handling(part)
            self.rule_5_no_pause(part)
        self.batch_is_not_empty()
        self.contents()
        self.rule_12_forget()
        self.rule_12_reuse()
        self.rule_5_budgets()
        self.rule_5_one_phase()
        self.rule_6_device_memory()
        self.rule_7_host_memory()
        self.duration_is_the_cost()
        self.identical_requests_end_in_order()
        self.objective = self._objective()
        if upper_bound is not None:
            self.model.add(self.objective <= int(upper_bound * self.scale))
        self.model.minimize(self.objective)

    # --- variables -----------------------------------------------------------------------------------------------

    def _latest(self, upper_bound: Value | None) -> int:
        """Every schedule of at most `upper_bound`, or one as good, ends by then."""
        requests = self.instance.requests
        waits = max(r.arrival for r in requests) + sum(r.call_time for r in requests)
        latest = waits + len(self.batches) * self.longest_batch
        if upper_bound is not None:
            last_arrival = max(r.arrival for r in requests)
            limits = {
                "makespan": upper_bound,
                "busy-time": waits + upper_bound,
                "max-flow-time": last_arrival + upper_bound,
                **{name: last_arrival + upper_bound / min(weight(r, name) for r in requests) for name in FLOWS},
            }
            latest = min(latest, int(limits.get(self.objective_name, latest)))
        if latest > 2**60:
            raise BadInput("cp-sat: the times of this instance exceed 60 bits; give it a coarser tick")
        return latest

    def _longest_batch(self) -> int:
        n, peaks = len(self.instance.requests), [r.peak for r in self.instance.requests]
        kv, pairs = sum(peaks), sum(peak * peak for peak in peaks)
        most = Features(1, 1, 1, kv, n, n, n, kv, kv, pairs, kv, kv, n, n)
        return self.instance.cost.duration(most)

    def integer(self, upper: int, lower: int = 0) -> Any:
        """Make an integer variable."""
        return self.model.new_int_var(lower, upper, "")

    def boolean(self) -> Any:
        """Make a 0/1 variable."""
        return self.model.new_bool_var("")

    def holds(self, constraint: Any, negation: Any) -> Any:
        """Return a 0/1 variable: whether `constraint` holds, not `negation`."""
        truth = self.boolean()
        self.model.add(constraint).only_enforce_if(truth)
        self.model.add(negation).only_enforce_if(~truth)
        return truth

    def both(self, *literals: Any) -> Any:
        """Return a 0/1 variable: whether all literals are 1."""
        truth = self.boolean()
        self.model.add_bool_and(*literals).only_enforce_if(truth)
        self.model.add_bool_or(*(~literal for literal in literals), truth)
        return truth

    def product(self, truth: Any, value: Any, upper: int) -> Any:
        """Return a variable equal to `value` if `truth`, else 0."""
        result = self.integer(upper)
        self.model.add(result == value).only_enforce_if(truth)
        self.model.add(result == 0).only_enforce_if(~truth)
        return result

    # --- time ----------------------------------------------------------------------------------------------------

    def time(self) -> None:
        """R1: t_1 >= 0 and t_{j+1} >= t_j + D_j; unused batches come last."""
        self.used = [self.boolean() for _ in self.batches]
        self.start = [self.integer(self.latest) for _ in self.batches]
        self.lasts = [self.integer(self.longest_batch) for _ in self.batches]
        for j in self.batches:
            if j:
                self.model.add(self.start[j] >= self.start[j - 1] + self.lasts[j - 1])
                self.model.add_implication(self.used[j], self.used[j - 1])

    def progress(self, part: _RequestVariables) -> None:
        """generated[j+1] = generated[j] + generates[j]; R11: it is O at the end; the ends of segments follow."""
        request = part.request
        part.generates = [self.boolean() for _ in self.batches]
        part.generated = [0]
        for j in self.batches:
            count = self.integer(request.output)
            self.model.add(count == part.generated[j] + part.generates[j])
            part.generated.append(count)
        self.model.add(part.generated[-1] == request.output)
        for k, outputs in enumerate(part.outputs):
            part.ended[k] = [self.model.new_constant(0)]
            part.ended[k] += [self.holds(g >= outputs, g <= outputs - 1) for g in part.generated[1:]]
            part.end_time.append(self.integer(self.latest))
            for j in self.batches:
                part.ends_in[k].append(self.both(part.ended[k][j + 1], ~part.ended[k][j]))
                self.model.add(part.end_time[k] == self.start[j] + self.lasts[j]).only_enforce_if(part.ends_in[k][j])
        part.first_token = self.integer(self.latest)
        for j in self.batches:
            first = self.boolean()
            self.model.add(part.generated[j] == 0).only_enforce_if(first)
            self.model.add_implication(first, part.generates[j])
            if j:
                some = self.holds(part.generated[j] >= 1, part.generated[j] == 0)
                self.model.add_bool_or(first, some, ~part.generates[j])
            else:
                self.model.add_bool_or(first, ~part.generates[j])
            self.model.add(part.first_token == self.start[j] + self.lasts[j]).only_enforce_if(first)

    def calls(self, part: _RequestVariables) -> None:
        """returned[k,j] = 1 exactly if call k has ended by t_j (R2); S = prompt + generated + returns of those."""
        for k, call in enumerate(part.request.calls):
            for j in self.batches:
                returned = self.boolean()
                back = part.end_time[k] + call.duration
                self.model.add_implication(returned, part.ended[k][j])
                self.model.add(self.start[j] >= back).only_enforce_if(returned)
                self.model.add(self.start[j] <= back - 1).only_enforce_if(part.ended[k][j], ~returned)
                part.returned[k].append(returned)
        for j in self.batches:
            returns = sum(call.returns * part.returned[k][j] for k, call in enumerate(part.request.calls))
            part.known.append(part.request.prompt + part.generated[j] + returns)

    def in_call(self, part: _RequestVariables, k: int, j: int) -> Any:
        """1 while call k runs at t_j."""
        return part.ended[k][j] - part.returned[k][j]

    # --- moves and work ------------------------------------------------------------------------------------------

    def moving(self, part: _RequestVariables) -> None:
        """R10: m' = m - (drop - from_host) - out + back + reuse, h' = h - from_host + out - back.

        Here from_host = min(h, drop). R8 without `partial`: a move that is made takes all that is there.
        """
        most = part.request.peak
        part.resident, part.host = [self.model.new_constant(0)], [self.model.new_constant(0)]
        for j in self.batches:
            drop, out, back = (self.integer(most) for _ in range(3))
            from_host, device, host = self.integer(most), self.integer(most), self.integer(most)
            self.model.add_min_equality(from_host, [part.host[j], drop])
            part.reused.append(self.integer(most) if part.path else 0)
            self.model.add(device == part.resident[j] - (drop - from_host) - out + back + part.reused[j])
            self.model.add(host == part.host[j] - from_host + out - back)
            self.model.add(drop <= part.resident[j] + part.host[j])
            self.model.add(out <= part.resident[j] - (drop - from_host))
            self.model.add(back <= part.host[j] - from_host + out)
            available = {
                "drop": part.resident[j] + part.host[j],
                "swap_out": part.resident[j] - (drop - from_host),
                "swap_in": part.host[j] - from_host + out,
            }
            for kind, amount in (("drop", drop), ("swap_out", out), ("swap_in", back)):
                made = self.holds(amount >= 1, amount == 0)
                self.model.add_implication(made, self.used[j])
                if not self.machine.partial:
                    self.model.add(amount == available[kind]).only_enforce_if(made)
                part.moved[kind].append(amount)
                part.moves[kind].append(made)
            part.device.append(device)
            part.offloaded.append(host)
            part.kept.append(self.on_path(part, part.resident[j] - (drop - from_host) - out))
            part.back.append(self.on_path(part, device - part.reused[j]))
            part.resident.append(self.integer(most))
            part.host.append(host)

    def working(self, part: _RequestVariables) -> None:
        """R2, R3: works means t_j >= arrival, no call, not done, 1 <= c <= S - m' (= without `chunked`).

        A token is generated exactly if c = S - m'. m[j+1] = m' + c, 0 when done. It decodes if m' >= 1 and S - m' = 1.
        """
        last = len(part.request.segments) - 1
        for j in self.batches:
            tokens = self.integer(part.request.peak)
            works = self.holds(tokens >= 1, tokens == 0)
            part.tokens.append(tokens)
            part.works.append(works)
            self.model.add_implication(works, self.used[j])
            self.model.add(self.start[j] >= part.request.arrival).only_enforce_if(works)
            for k in range(last):
                self.model.add(self.in_call(part, k, j) == 0).only_enforce_if(works)
            self.model.add_implication(works, ~part.ended[last][j])
            missing = part.known[j] - part.device[j]
            self.model.add(tokens <= missing).only_enforce_if(works)
            if not self.machine.chunked:
                self.model.add(tokens == missing).only_enforce_if(works)
            generates = part.generates[j]
            self.model.add_implication(generates, works)
            self.model.add(tokens == missing).only_enforce_if(generates)
            self.model.add(tokens <= missing - 1).only_enforce_if(works, ~generates)
            self.model.add(part.resident[j + 1] == part.device[j] + tokens).only_enforce_if(~part.ends_in[last][j])
            self.model.add(part.resident[j + 1] == 0).only_enforce_if(part.ends_in[last][j])
            some = self.holds(part.device[j] >= 1, part.device[j] == 0)
            one = self.holds(missing <= 1, missing >= 2)
            part.decodes.append(self.both(works, some, one))

    def rule_4_residence(self, part: _RequestVariables) -> None:
        """R4: works means h' = 0 (what R9 allows besides is in rule_9_handling)."""
        for j in self.batches:
            self.model.add(part.offloaded[j] == 0).only_enforce_if(part.works[j])

    def rule_9_handling(self, part: _RequestVariables) -> None:
        """R9: a call that started in the batch before orders its move, of all that is there: moved = m.

        R8: drop or swap_out implies a licence (ordered, or the window of a free call) or `evict`, and no running call
        that is not free, unless ordered. R4: the move and work in one batch imply a licence.
        """
        for j in self.batches:
            drops, outs, ins = (part.moves[kind][j] for kind in ("drop", "swap_out", "swap_in"))
            licences: dict[str, list[Any]] = {"drop": [], "swap_out": []}
            for k, call in enumerate(part.request.calls):
                ordered = part.ends_in[k][j - 1] if j else self.model.new_constant(0)
                window = self.boolean()
                if j:
                    open_before = self.both(part.window[k][j - 1], ~part.works[j - 1])
                    self.model.add_max_equality(window, [ordered, open_before])
                else:
                    self.model.add(window == 0)
                part.window[k].append(window)
                running = self.both(part.ended[k][j], ~part.returned[k][j])
                if call.handling == "free":
                    licences["drop"].append(window)
                    licences["swap_out"].append(window)
                    continue
                if call.handling == "discard":
                    licences["drop"].append(ordered)
                    self.model.add(part.moved["drop"][j] == part.resident[j]).only_enforce_if(ordered)
                elif call.handling == "swap":
                    licences["swap_out"].append(ordered)
                    self.model.add(part.moved["swap_out"][j] == part.resident[j]).only_enforce_if(ordered)
                else:
                    self.model.add_implication(running, ~ins)
                for kind, made in (("drop", drops), ("swap_out", outs)):
                    ordered_moves = [ordered] if _ORDERED.get(call.handling) == kind else []
                    self.model.add_bool_or(~made, ~running, *ordered_moves)
            for kind, made in (("drop", drops), ("swap_out", outs)):
                if not self.machine.evict:
                    self.model.add_bool_or(~made, *licences[kind])
                self.model.add_bool_or(~made, ~part.works[j], *licences[kind])

    # --- contents ------------------------------------------------------------------------------------------------

    def on_path(self, part: _RequestVariables, tokens: Any) -> list[Any]:
        """Of each part of a path max(0, min(floor(tokens / b) - blocks before, blocks))."""
        found: list[Any] = []
        if part.path:
            b, most = self.machine.block, part.request.peak // self.machine.block
            full = self.integer(most)
            self.model.add(b * full <= tokens)
            self.model.add(b * full >= tokens - (b - 1))
            for each in part.path:
                above, within = self.integer(most), self.integer(each.blocks)
                self.model.add_max_equality(above, [full - each.before, 0])
                self.model.add_min_equality(within, [above, each.blocks])
                found.append(within)
        return found

    def contents(self) -> None:
        """By node: kept = r - forget, there = max(kept, held after swap_ins), r[j+1] = max(there, held at the end)."""
        nodes = self.instance.contents
        self.resident = [{node.id: self.model.new_constant(0) for node in nodes}]
        self.kept: list[dict[str, Any]] = []
        self.there: list[dict[str, Any]] = []
        for part in self.parts:
            part.filled = [self.on_path(part, part.device[j] + part.tokens[j]) for j in self.batches]
        for j in self.batches:
            for stage in (self.kept, self.there, self.resident):
                stage.append({node.id: self.integer(node.blocks) for node in nodes})
            for node in (node.id for node in nodes):
                kept, there = self.kept[j][node], self.there[j][node]
                self.model.add(kept <= self.resident[j][node])
                self.model.add(kept == self.resident[j][node]).only_enforce_if(~self.used[j])
                self.model.add_max_equality(there, [kept, *self._held(node, "back", j)])
                self.model.add_max_equality(self.resident[j + 1][node], [there, *self._held(node, "filled", j)])

    def _held(self, node: str, stage: str, j: int) -> list[Any]:
        return [
            blocks
            for part in self.parts
            for each, blocks in zip(part.path, getattr(part, stage)[j], strict=True)
            if each.node == node
        ]

    def rule_12_forget(self) -> None:
        """R12: kept >= blocks held after drops and swap_outs; kept >= 1 implies that the parent keeps all it has."""
        sizes = {node.id: node.blocks for node in self.instance.contents}
        for j in self.batches:
            for node in self.instance.contents:
                kept = self.kept[j][node.id]
                for blocks in self._held(node.id, "kept", j):
                    self.model.add(kept >= blocks)
                if node.parent is not None:
                    some = self.holds(kept >= 1, kept == 0)
                    self.model.add(self.kept[j][node.parent] == sizes[node.parent]).only_enforce_if(some)

    def rule_12_reuse(self) -> None:
        """R12: reuse >= 1 implies work, m' = b q, and a source: m' <= b times the blocks of the path that are there.

        With `same_batch` also a worker: its m' < m' <= its m' + c, as far as both paths go.
        """
        # What is below the worker's own m' is there, or has such a source in turn.
        b = self.machine.block
        for part in (part for part in self.parts if part.path):
            for j in self.batches:
                reuses = self.holds(part.reused[j] >= 1, part.reused[j] == 0)
                self.model.add_implication(reuses, part.works[j])
                self.model.add(part.device[j] == b * self.integer(part.blocks)).only_enforce_if(reuses)
                sources = [self.boolean()]
                there = [self.integer(each.blocks) for each in part.path]
                for each, blocks in zip(part.path, there, strict=True):
                    self.model.add(blocks <= self.there[j][each.node])
                self.model.add(part.device[j] <= b * sum(there)).only_enforce_if(sources[0])
                for other in self.parts if self.machine.same_batch else ():
                    both = zip(part.path, other.path, strict=False)
                    common = sum(min(one.blocks, two.blocks) for one, two in both if one.node == two.node)
                    if other is not part and common:
                        sources.append(source := self.boolean())
                        self.model.add(other.device[j] <= part.device[j] - 1).only_enforce_if(source)
                        self.model.add(part.device[j] <= other.device[j] + other.tokens[j]).only_enforce_if(source)
                        self.model.add(part.device[j] <= b * common).only_enforce_if(source)
                self.model.add_bool_or(~reuses, *sources)

    # --- batches -------------------------------------------------------------------------------------------------

    def batch_is_not_empty(self) -> None:
        """R10: used means that some request works, is swapped out or swapped in."""
        for j in self.batches:
            acts = [part.works[j] for part in self.parts]
            acts += [part.moves[kind][j] for part in self.parts for kind in ("swap_out", "swap_in")]
            self.model.add_bool_or(~self.used[j], *acts)

    def rule_5_budgets(self) -> None:
        """R5: sum of c <= C, sum of c in prefills <= P, sum of works <= batch_requests."""
        self.prefills = [[self.both(p.works[j], ~p.decodes[j]) for p in self.parts] for j in self.batches]
        for j in self.batches:
            terms = self._terms(j)
            for limit in BUDGETS:
                if (most := limit.of(self.machine)) is not None:
                    self.model.add(terms[limit.column]() <= most)

    def rule_5_one_phase(self) -> None:
        """R5 without `hybrid`: a decode implies the phase of the batch, a prefill implies the other one."""
        for j in () if self.machine.hybrid else self.batches:
            phase = self.boolean()
            for part, prefill in zip(self.parts, self.prefills[j], strict=True):
                self.model.add_implication(part.decodes[j], phase)
                self.model.add_implication(prefill, ~phase)

    def rule_5_no_pause(self, part: _RequestVariables) -> None:
        """R5 without `pause`: works[j-1] implies works[j], the end of a segment in j-1, or a drop or swap_out in j."""
        if self.machine.pause:
            return
        for j in self.batches[1:]:
            ended = [part.ends_in[k][j - 1] for k in range(len(part.request.segments))]
            evicted = [part.moves["drop"][j], part.moves["swap_out"][j]]
            self.model.add_bool_or(~part.works[j - 1], part.works[j], *ended, *evicted)

    def rule_6_device_memory(self) -> None:
        """R6: sum of (m' + c) <= M, or sum of blocks <= floor(M / b) with b blocks >= m' + c.

        Blocks on paths count once: sum of (blocks - filled) + sum over nodes of r[j+1].
        """
        limit = self.machine.block_limit
        if limit is None:
            return
        for j in self.batches:
            held = [part.device[j] + part.tokens[j] for part in self.parts]
            if self.machine.block > 1:
                blocks = [self.integer(self.machine.blocks(part.request.peak)) for part in self.parts]
                for block, tokens in zip(blocks, held, strict=True):
                    self.model.add(self.machine.block * block >= tokens)
                held = blocks
            private = sum(held) - sum(sum(part.filled[j]) for part in self.parts)
            self.model.add(private + sum(self.resident[j + 1].values()) <= limit)

    def rule_7_host_memory(self) -> None:
        """R7: sum of h' <= H."""
        if self.machine.host_memory is not None:
            for j in self.batches:
                self.model.add(sum(part.offloaded[j] for part in self.parts) <= self.machine.host_memory)

    def duration_is_the_cost(self) -> None:
        """D_j = the largest of 1 and ceil(f/q) over the cost functions."""
        for j in self.batches:
            rounded = [self.used[j]]
            for function in self.instance.cost.functions:
                cost, q = self._cost(function, j), function.divisor
                rounded.append(self.integer(self.longest_batch))
                self.model.add(q * rounded[-1] >= cost)
                self.model.add(q * rounded[-1] <= cost + q - 1)
            self.model.add_max_equality(self.lasts[j], rounded)

    def _terms(self, j: int) -> dict[str, Callable[[], Any]]:
        parts, prefills = self.parts, self.prefills[j]
        return {
            "busy": lambda: self._any([p.works[j] for p in parts]),
            "any_decode": lambda: self._any([p.decodes[j] for p in parts]),
            "any_prefill": lambda: self._any(prefills),
            "tokens": lambda: sum(p.tokens[j] for p in parts),
            "prefill_tokens": lambda: sum(p.tokens[j] - p.decodes[j] for p in parts),  # a decode processes one token
            "requests": lambda: sum(p.works[j] for p in parts),
            "generated": lambda: sum(p.generates[j] for p in parts),
            "decode_requests": lambda: sum(p.decodes[j] for p in parts),
            "prefill_requests": lambda: sum(prefills),
            "decode_kv": lambda: sum(self.product(p.decodes[j], p.device[j], p.request.peak) for p in parts),
            "prefill_kv": lambda: sum(
                self.product(prefill, p.device[j], p.request.peak) for p, prefill in zip(parts, prefills, strict=True)
            ),
            "prefill_pairs": lambda: sum(self._pairs(p, pre, j) for p, pre in zip(parts, prefills, strict=True)),
            "swap_out_tokens": lambda: sum(p.moved["swap_out"][j] for p in parts),
            "swap_in_tokens": lambda: sum(p.moved["swap_in"][j] for p in parts),
            "swap_outs": lambda: sum(p.moves["swap_out"][j] for p in parts),
            "swap_ins": lambda: sum(p.moves["swap_in"][j] for p in parts),
        }

    def _cost(self, function: CostFunction, j: int) -> Any:
        terms = self._terms(j)
        total: Any = sum(getattr(function, name) * term() for name, term in terms.items() if getattr(function, name, 0))
        if function.tokens_above is not None:
            above = self.integer(sum(p.request.peak for p in self.parts))
            self.model.add_max_equality(above, [0, terms["tokens"]() - function.tokens_above.knee])
            total = total + function.tokens_above.coefficient * above
        return total

    def _any(self, literals: list[Any]) -> Any:
        truth = self.boolean()
        self.model.add_max_equality(truth, literals)
        return truth

    def _pairs(self, part: _RequestVariables, prefill: Any, j: int) -> Any:
        most = part.request.peak
        squares = []
        for value in (part.device[j] + part.tokens[j], part.device[j]):
            side = self.product(prefill, value, most)
            squares.append(self.integer(most * most))
            self.model.add_multiplication_equality(squares[-1], [side, side])
        return squares[0] - squares[1]

    def identical_requests_end_in_order(self) -> None:
        """end[i] <= end[i+1] for requests alike in all but their id: any schedule stays valid if they are exchanged."""
        for first, second in zip(self.parts, self.parts[1:], strict=False):
            if first.request.shape == second.request.shape:
                self.model.add(first.end_time[-1] <= second.end_time[-1])

    # --- objective -----------------------------------------------------------------------------------------------

    def _objective(self) -> Any:
        def flow(part: _RequestVariables) -> Any:
            return part.end_time[-1] - part.request.arrival

        if self.objective_name == "busy-time":
            return sum(self.lasts)
        if self.objective_name in ("makespan", "max-flow-time"):
            last = self.integer(self.latest)
            for part in self.parts:
                self.model.add(last >= (part.end_time[-1] if self.objective_name == "makespan" else flow(part)))
            return last
        if self.objective_name == "late-requests":
            return sum(self._late(part, flow(part)) for part in self.parts)
        rates = [int(self.scale * weight(part.request, self.objective_name)) for part in self.parts]
        by_first = self.objective_name == "total-ttft"
        times = ((part.first_token if by_first else part.end_time[-1]) - part.request.arrival for part in self.parts)
        return sum(rate * time for rate, time in zip(rates, times, strict=True))

    def _late(self, part: _RequestVariables, flow: Any) -> Any:
        late = self.boolean()
        taken = (part.first_token - part.request.arrival, flow, part.end_time[-1] - part.first_token)
        for ticks, most in zip(taken, part.request.slo_ticks, strict=True):
            if most is not None:
                self.model.add(ticks <= most).only_enforce_if(~late)
        return late

    def objective_value(self, raw: int) -> Value:
        """Turn a value of the model into the objective's unit."""
        return raw if self.scale == 1 else Fraction(raw, self.scale)

    # --- schedules in and out ------------------------------------------------------------------------------------

    def hint(self, trace: Trace) -> None:
        """Hint at the starts, work and moves of a schedule."""
        for j, batch in enumerate(trace.schedule.batches[: len(self.batches)]):
            self.model.add_hint(self.start[j], batch.start)
            self.model.add_hint(self.used[j], True)
            for part in self.parts:
                id = part.request.id
                self.model.add_hint(part.tokens[j], batch.work.get(id, 0))
                for kind in ("drop", "swap_out", "swap_in"):
                    self.model.add_hint(part.moved[kind][j], getattr(batch, kind).get(id, 0))
                if part.path:
                    self.model.add_hint(part.reused[j], batch.reuse.get(id, 0))
        for j in self.batches[len(trace.schedule.batches) :]:
            self.model.add_hint(self.used[j], False)

    def schedule(self, value: Any) -> Schedule:
        """Return the schedule of a solution, given its `value(variable)`."""
        batches = []
        for j in self.batches:
            if value(self.used[j]):
                moves = {
                    kind: {p.request.id: n for p in self.parts if (n := value(p.moved[kind][j]))}
                    for kind in ("drop", "swap_out", "swap_in")
                }
                moves["reuse"] = {p.request.id: n for p in self.parts if p.path and (n := value(p.reused[j]))}
                gone = {node: value(self.resident[j][node]) - value(kept) for node, kept in self.kept[j].items()}
                moves["forget"] = {node: n for node, n in gone.items() if n}
                work = {p.request.id: n for p in self.parts if (n := value(p.tokens[j]))}
                batches.append(Batch.model_validate({"start": value(self.start[j]), "work": work, **moves}))
        return Schedule(instance_sha256=self.instance.sha256, batches=tuple(batches))


_ORDERED = {"discard": "drop", "swap": "swap_out"}
