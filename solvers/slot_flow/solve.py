"""Prices, better schedules, fixing, and CP-SAT, in turns."""

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from bounds.clock import now
from bounds.slot_solver import OutOfTime, SlotSolver
from bounds.task import Task
from bounds.tuning import Options, option
from heuristics import best_schedule
from kvcore.certificates import Alone
from kvcore.certificates.proof import InvalidCertificate
from kvcore.certificates.slot_graph import Integers, LocalGraphs
from kvcore.certificates.slot_search import SlotSearch
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, scale_of
from kvcore.referee import InvalidSchedule
from kvcore.result import Size, Stop
from kvcore.schedule import Schedule
from solvers import neighbourhoods
from solvers.incumbent import Bounds, Incumbent
from solvers.messages import NEWS, Bound, Done, Found, Send, SolveJob
from solvers.slot_flow.arcs import FlowArcs, arcs_below
from solvers.slot_flow.flow_schedule import schedule_of
from solvers.slot_flow.late import late_segments
from solvers.slot_flow.scope import too_large


@dataclass(frozen=True)
class FlowOptions(Options):
    """Flows over slots: prices, repairs and CP-SAT in turns."""

    effort: float = option(10.0, "seconds of CP-SAT's first turn, by its own count; others are ever longer")


def run(job: SolveJob, send: Send) -> Done:
    """Carry out a job in a worker process; schedules and bounds are sent as they come."""
    import ortools  # noqa: F401 - it may not be there, and then nothing is begun

    return Done(SlotFlow(job, send).run())


class SlotFlow:
    """One solve: the best schedule, its value and the best bound, in units of 1/`unit` of the objective."""

    def __init__(self, job: SolveJob, send: Send) -> None:
        if reason := too_large(job.instance):
            raise BadInput(reason)
        self.job, self.send, self.turns, self.options = job, send, 0, FlowOptions.given()
        self.started = now()
        self.deadline = self.started + job.threads * job.time_limit
        self.unit = scale_of(job.instance.requests, job.objective)
        self.best, self.bounds = Incumbent(job.instance, job.objective), Bounds()
        self.cutoff = 2**62 if job.upper_bound is None else int(job.upper_bound * self.unit)
        self._prove(int(Alone().value(job.instance, job.objective) * self.unit))
        self._hold(job.start or best_schedule(job.instance, job.objective)[1])

    def run(self) -> Stop:
        """Run until the bound meets the best schedule, or time is up."""
        late = late_segments(self.job.instance)
        for instance in [self.job.instance] if late is None else [late, self.job.instance]:
            try:
                self._search(instance)
            except OutOfTime:
                break
            except InvalidCertificate as error:  # too many options, or too large numbers
                if instance is late or late is None:
                    raise BadInput(f"arc-flow: {error}; use events or batch-bigm") from None
                return Stop.MEMORY_LIMIT
        return Stop.PROVED if self.bound >= self.cutoff else Stop.TIME_LIMIT

    # --- what is known -------------------------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether the optimum is proved, or time is up."""
        if NEWS.value is not None:
            self.cutoff = min(self.cutoff, int(NEWS.value * self.unit))
        return self.bound >= self.cutoff or self.time_left == 0

    @property
    def bound(self) -> int:
        """The best bound, in units."""
        return int((self.bounds.value or 0) * self.unit)

    @property
    def time_left(self) -> float:
        """Processor seconds until time is up, for each thread."""
        return max(0.0, self.deadline - now()) / self.job.threads

    def _prove(self, bound: int) -> bool:
        if self.bounds.take(self._value(bound), "solver", self.job.label):
            self.send(Bound(self._value(bound)))
        return self.is_done()

    def _value(self, units: int) -> Value:
        return units if self.unit == 1 else Fraction(units, self.unit)

    def _hold(self, schedule: Schedule) -> None:
        value = self.best.offer(schedule, self.job.label)
        if value is not None and value * self.unit < self.cutoff:
            self.cutoff = int(value * self.unit)
            self.send(Found(schedule, value))

    def _improve(self, seconds: float) -> None:
        instance, objective = self.job.instance, self.job.objective
        if self.is_done() or neighbourhoods.why_not(instance, objective) is not None:
            return
        self.turns, start = self.turns + 1, self.best.schedule
        assert start is not None  # for mypy: it is there from the start
        found = neighbourhoods.improve(
            instance, objective, start, seconds=min(seconds, self.time_left), seed=self.job.seed + self.turns,
            target=self.bound // self.unit,
        )  # fmt: skip
        self._hold(found)

    # --- the flow ------------------------------------------------------------------------------------------------

    def _search(self, instance: Instance) -> None:
        """Search flows of the job's instance, or of one that allows more, in turns with repairs."""
        if self.is_done():
            return
        end, effort, is_over = now() + self.time_left, self.options.effort, False
        local = LocalGraphs(instance, self.job.objective, paced=instance is not self.job.instance)
        solver = SlotSolver(Task(instance, self.job.objective, end, None, end), seed=self.job.seed, local=local)
        solver.root = solver.first_prices(self.cutoff)
        seconds = 0.03 * len(instance.requests) + now() - self.started
        self._improve(min(seconds, 0.1 * self.time_left))
        rounds = 300 if solver.root is None else 15  # from no prices, or from those without a target
        while not is_over and not self.is_done():
            search = self._priced(solver, rounds)
            if not self.is_done():
                is_over = self._solve(search, effort)
            if not is_over:
                self._improve(1.5)  # seconds between two turns of CP-SAT
            effort *= 4

    def _priced(self, solver: SlotSolver, rounds: int) -> SlotSearch:
        search = SlotSearch(solver.local, self.cutoff, solver.options.scale)
        self._prove(min(solver.ascend_root(search, rounds), self.cutoff))
        return search

    def _solve(self, search: SlotSearch, effort: float) -> bool:
        from solvers.slot_flow.program import FlowProgram  # it loads OR-Tools, which may not be there

        table = arcs_below(search, 300_000)  # with more steps left, prices and better schedules go on without CP-SAT
        if table is None:
            return False
        is_late, job = search.local.paced, self.job
        steps = FlowArcs(search, table, every_tick=is_late)
        program = FlowProgram(search, steps, job.instance.machine.batch_tokens if is_late else None)
        self.send(Size(*program.size, 0))

        def found(flow: Integers) -> None:
            with suppress(InvalidSchedule):  # a budget that the graphs do not have, or an eviction that is no batch
                self._hold(schedule_of(job.instance, search, steps, flow))

        def prove(cost: int) -> bool:
            return self._prove(cost - search.local.base())

        return program.solve(self.time_left, effort, job.threads, job.seed, found=found, prove=prove)
