"""A real headless Chromium, driven over a pipe:

DevTools' JSON on file descriptors 3 and 4, a NUL after each message.
"""

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import runs

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TIMEOUT = 60  # seconds for an answer


class Browser:
    """A page in its own window. Records its console messages, errors and network requests."""

    def __init__(self, folder: Path):
        ends = [
            fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (*os.pipe(), *os.pipe())
        ]  # clear of 3 and 4
        theirs, self._write, self._read, their_write = ends
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
        ]
        flags += [
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
        ]

        def connect() -> None:
            os.dup2(theirs, 3)
            os.dup2(their_write, 4)

        with (folder / "chromium.log").open("w") as log:
            self.process = subprocess.Popen(
                [PROGRAM, *flags, f"--user-data-dir={folder / 'profile'}", "about:blank"],
                stdout=log,
                stderr=log,
                preexec_fn=connect,
                pass_fds=(3, 4),
            )
        runs.STARTED.append(self.process)
        os.close(theirs)
        os.close(their_write)
        self._buffer, self._numbers, self._session = b"", itertools.count(1), {}
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {
            "sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
        }
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params):
        """Call a DevTools method and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self) -> dict:
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], TIMEOUT)[0], "Chromium does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, "Chromium has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(params, ensure_ascii=False)[:2000])

    def resize(self, width: int, height: int, touch: bool = False) -> None:
        size = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 2 if touch else 1,
            "mobile": touch,
        }
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def prefer(self, theme: str) -> None:
        """theme: light or dark."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression: str):
        """Evaluate an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        until = time.monotonic() + TIMEOUT
        while not self.run(expression):
            assert time.monotonic() < until, f"{expression} has not come true"
            time.sleep(0.02)

    def point(self, x: float, y: float, click: bool = False) -> None:
        """Move the mouse, and optionally click."""
        for kind in ["mouseMoved", *["mousePressed", "mouseReleased"] * click]:
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def press(self, key: str, code: int = 0) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def tap(self, x: float, y: float) -> None:
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def click(self, selector: str) -> None:
        """Click the centre of an element, which must not be covered."""
        find = f"document.querySelector({json.dumps(selector)})"
        centre = "[box.x + box.width / 2, box.y + box.height / 2]"
        box = f"(() => {{ const box = {find}.getBoundingClientRect(); return {centre} }})()"
        self.run(f"{find}.scrollIntoView({{block: 'nearest'}})")
        x, y = self.run(box)
        assert self.run(f"{find}.contains(document.elementFromPoint({x}, {y}))"), (
            f"{selector} is covered"
        )
        self.point(x, y, click=True)

    def close(self) -> None:
        self._session = {}
        self.call("Browser.close")
        self.process.wait(TIMEOUT)
        os.close(self._write)
        os.close(self._read)
