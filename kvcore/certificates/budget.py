"""What a checker may take of work and memory: counted before it begins."""

from __future__ import annotations


class Most:
    """The most of each thing that checkers look at; what is larger is refused."""

    work = 2**39  # nanoseconds of a certificate, about: nine minutes
    memory = 2**32  # bytes at a time
    steps = 10_000_000  # output tokens of an instance
    pieces = 300_000  # of a request, about, on one machine
    price_slots = 2**18  # slots with prices of work
    moves = 4_000_000  # moves and options of requests
    configurations = 4_000_000
    configuration_ticks = 4_000_000_000  # configurations times ticks
    starts = 20_000_000  # sets of starts times ticks, and times kinds
    tries = 1_000_000_000  # starts tried in states, and options in those of `slots`
    layer = 4_000_000  # states of a tick
    held = 2**30  # bytes of the states of a tick, and of those looked at together
    at_once = 2**16  # sets of starts tried at once
    sums = 2**59  # in 64 bits, of slots and of configurations
    window_weight = 2**41  # of windows together, so that 64 bits hold products with parts

    states = 3_000_000  # of `events`
    event_requests, event_segments, event_tokens = 32, 100, 10_000
    labels = 3_000_000  # of `potentials`
    order_requests, order_tokens = 8, 10**6
    potentials = 200
    enumerated = 300_000  # states of `enumeration`
    blocks = 1000  # of contents
    joint_states = 4_000_000  # of `slots`
    slot_requests = 100
    local_states, local_options = 200_000, 2_000_000  # of all requests, by tick
    compared, pairs = 2**31, 2**28  # options and states of a kind; above, no simulation is computed
    slots, rate = 2**16, 2**40  # ticks, and the cost of one
    nodes = 2**15  # of cases, with their prices


class Work:
    """Nanoseconds that each thing takes, about."""

    look = 10_000  # a move or an option of a request
    weight = 1_500  # a weight of a fee
    price_slot = 3_000  # a slot with a price of work, for a request, besides its pieces
    piece = 1_000  # a piece of a slot
    window = 400  # a request in a row of windows
    try_start = 2_000
    held = 200  # a tick of held memory
    tick = 3_000_000  # a tick of a search of starts
    call = 1_500  # a call to numpy, however small its arrays
    label = 60_000  # a label or a state of `events`, with its tries
    joint_state = 20_000
    joint_try = 60
    compare = 6  # two options of a state, or of two states
    value = 10  # an option in a slot, under a vector of prices
    visit = 20_000  # a case, and a branch above it
    sweep = 4  # a state or an option, in a sweep over a graph


class Bytes:
    """Bytes that checkers hold."""

    joint_state = 300
    local_graphs = 2**30
    rows = 2**26  # of values of states at a time


class InvalidCertificate(Exception):
    """A certificate does not prove its claim: why, in one line."""


class Budget:
    """What is left for one certificate, shared by the proofs inside it."""

    def __init__(self, work: int = Most.work, memory: int = Most.memory) -> None:
        self.work, self.memory, self.moves = work, memory, Most.moves

    def spend(self, what: str, work: int, memory: int = 0) -> None:
        """Take steps and bytes, or raise InvalidCertificate that blames `what`."""
        if memory > self.memory:
            raise InvalidCertificate(
                f"{what} would take too much memory to check, about {memory >> 20} MiB of {self.memory >> 20}: "
                "give a smaller proof, or coarsen the instance"
            )
        if work > self.work:
            raise InvalidCertificate(
                f"{what} would take too long to check, about {work // 10**9} s where {self.work // 10**9} are left: "
                "give a smaller proof, or coarsen the instance"
            )
        self.work -= work

    def look(self, amount: int) -> None:
        """Take moves and options of requests, paid for before they are looked at; or raise InvalidCertificate."""
        self.moves -= amount
        if self.moves < 0:
            raise InvalidCertificate(f"requests have too many options: there are more than {Most.moves} moves to try")
        self.spend("the options of requests", Work.look * amount)
