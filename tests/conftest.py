"""A shell's background job ignores Ctrl-C: some tests send it to their own process and wait for what it does."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
