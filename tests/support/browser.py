"""A headless Chromium, driven by the DevTools protocol through two pipes: no driver and no package is needed.

The browser is what KVBOUND_BROWSER names, or the first of NAMES that is installed.
"""

import base64
import fcntl
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")


def find_browser() -> str | None:
    """Return the program, or None."""
    return os.environ.get("KVBOUND_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A page of a browser. Whatever it logs, throws and asks of the network is kept."""

    def __init__(self, program: str, profile: Path) -> None:
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        # both far from 3 and 4, where the browser looks for them
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 50) for end in (theirs_in, theirs_out)]
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                     f"--user-data-dir={profile}", "--window-size=1200,900", "about:blank"]  # fmt: skip
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, end, fd) for end, fd in zip(ends, (3, 4), strict=True)]
        self.pid = os.posix_spawn(program, arguments, os.environ, file_actions=[*quiet, *pipes])
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come before it are kept."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._next:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, page: Path) -> None:
        """Load a file from the disk, and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def point(self, selector: str) -> None:
        """Move the mouse to the middle of the first element of that kind, as a person would."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView();"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def press(self, key: str) -> None:
        """Press a key."""
        for what in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=what, key=key)

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def complaints(self) -> list[dict[str, Any]]:
        """Return what the console got, and what was thrown, since the page was opened."""
        return [e for e in self.events if e["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled",
                                                          "Runtime.exceptionThrown")]  # fmt: skip

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the page was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        """End the browser."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self._in)
        os.close(self._out)
