"""The state of a request during an execution."""

from kvcore.instance import Request
from kvcore.trace import CallTrace, RequestTrace

READY, CALLING, DONE = range(3)


class RequestState:
    """State of one request: S, m, h of the semantics, and its progress.

    `joined` and `ticket` are for `decode_stream.Stream`: in it, changing fields are as at joining until `Stream.leave`.
    """

    __slots__ = ("blocks", "call", "computed", "device", "handling", "host", "joined", "known", "position",
                 "request", "segment", "status", "ticket", "to_generate", "trace", "window")  # fmt: skip

    def __init__(self, position: int, request: Request) -> None:
        self.position = position
        self.request = request
        self.trace = RequestTrace(request)
        self.known = request.prompt  # S
        self.device = 0  # m
        self.host = 0  # h
        self.blocks = 0  # device blocks
        self.computed = 0  # tokens processed at least once
        self.segment = 0
        self.to_generate = request.segments[0].decode  # tokens left to generate in the segment
        self.status = READY  # from its arrival on
        self.call: CallTrace | None = None  # the latest call
        self.handling = ""  # what the instance asks for the latest call
        self.window = False  # between the start of the latest call and the next work
        self.joined = -1  # its first step in the stream; -1: not in it
        self.ticket = -1  # which of all that joined the stream; -1: not in it
