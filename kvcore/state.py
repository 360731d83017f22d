"""The state of a request during an execution."""

from kvcore.instance import Request
from kvcore.trace import CallTrace, RequestTrace

READY, CALLING, DONE = range(3)


class RequestState:
    """State of one request: S, m, h of the semantics, and its progress.

    `joined` and `ticket` are for `decode_stream.Stream`: in it, changing fields are as at joining until `Stream.leave`.
    """

    __slots__ = ("blocks", "call", "computed", "device", "handling", "host", "joined", "known", "path", "position",
                 "request", "segment", "skipped", "status", "ticket", "to_generate", "trace", "window")  # fmt: skip

    def __init__(self, position: int, request: Request, path: int = 0) -> None:
        self.position = position
        self.request = request
        self.trace = RequestTrace(request)
        self.known = request.prompt  # S
        self.device = 0  # m
        self.host = 0  # h
        self.path = path  # blocks of contents with which its context begins
        self.blocks = 0  # private device blocks: but those of its path
        self.computed = 0  # tokens that were on the device at least once
        self.skipped: list[range] = []  # those that it never processed: it reused them
        self.segment = 0
        self.to_generate = request.segments[0].decode  # tokens left to generate in the segment
        self.status = READY  # from its arrival on
        self.call: CallTrace | None = None  # the latest call
        self.handling = ""  # what the instance asks for the latest call
        self.window = False  # between the start of the latest call and the next work
        self.joined = -1  # its first step in the stream; -1: not in it
        self.ticket = -1  # which of all that joined the stream; -1: not in it

    def skip(self, tokens: int) -> None:
        """Have its next tokens without work."""
        end = self.device + tokens
        if end > self.computed:
            self.skipped.append(range(max(self.device, self.computed), end))
            self.computed = end

    def again(self, tokens: int) -> int:
        """Return how many of its next tokens it processed before, and process them."""
        start, end = self.device, self.device + tokens
        again = max(0, min(end, self.computed) - start)
        self.computed = max(self.computed, end)
        if self.skipped:
            again -= sum(len(range(max(start, gap.start), min(end, gap.stop))) for gap in self.skipped)
            parts = [part for gap in self.skipped for part in
                     (range(gap.start, min(start, gap.stop)), range(max(end, gap.start), gap.stop))]  # fmt: skip
            self.skipped = [part for part in parts if part]
        return again
