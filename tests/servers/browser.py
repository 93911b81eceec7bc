"""A headless Chromium of our own, told what to do over the DevTools protocol."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from .patience import PATIENCE, eventually
from .redis_server import installed

START = 30.0
"""Seconds that a browser may take until it can be told something."""

Event = dict[str, Any]


class Browser:
    """One page of a Chromium with a fresh profile and without a network but this machine's.

    ``events`` are what it reported since the page was opened, each with its ``method`` and ``params``.
    """

    def __init__(self) -> None:
        self._ending = ExitStack()
        self._directory = tempfile.TemporaryDirectory(prefix="overlimit-browser-", ignore_cleanup_errors=True)
        self._ending.callback(self._directory.cleanup)
        self._process = subprocess.Popen(
            [installed("chromium", package="chromium"), *self._arguments()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._ending.callback(self._end)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[Event] = []
        try:
            self._connection = self._ending.enter_context(connect(self._address(), max_size=None))
            self._session = self._attached()
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.tell(f"{domain}.enable")
        except BaseException:
            self.stop()
            raise

    def _arguments(self) -> list[str]:
        return [
            "--headless",
            "--disable-gpu",
            # It shows pages of the tests alone, and a sandbox is not to be had for root or in a container.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--window-size=1200,1000",
            "--remote-debugging-port=0",
            f"--user-data-dir={self._directory.name}",
            "about:blank",
        ]

    def _address(self) -> str:
        """Return where the browser listens, which it writes down once it does."""
        note = Path(self._directory.name) / "DevToolsActivePort"

        def noted() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"chromium ended at once with status {self._process.returncode}")
            return note.exists() and note.read_text().count("\n") == 1

        eventually(noted, within=START)
        port, path = note.read_text().splitlines()
        return f"ws://127.0.0.1:{port}{path}"

    def _attached(self) -> str:
        targets = self.tell("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        return str(self.tell("Target.attachToTarget", targetId=page, flatten=True)["sessionId"])

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result; what is reported meanwhile goes to ``events``."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": params}
        self._connection.send(json.dumps(command | ({"sessionId": self._session} if self._session else {})))
        while (answer := self._received()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _received(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._connection.recv(timeout=START))
        return answer

    def open(self, url: str) -> None:
        """Forget all events, go to a page and wait until it was loaded."""
        self.events.clear()
        self.tell("Page.navigate", url=url)
        eventually(lambda: self.value("document.readyState") == "complete" and self.of("Page.loadEventFired"))

    def value(self, expression: str) -> Any:
        """Return what an expression gives in the page; a promise is waited for."""
        answer = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that a CSS selector finds."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        box = self.value(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.scrollIntoView(); const {x, y, width, height} = found.getBoundingClientRect();"
            "return {x: x + width / 2, y: y + height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)

    def fill(self, selector: str, text: str) -> None:
        """Put a string in the place of what stands in an input, as if it were typed."""
        self.value(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.focus(); found.select(); })()"
        )
        self.tell("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, which goes to what has the focus."""
        for kind in ("rawKeyDown", "char", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "char" else {}
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def of(self, method: str) -> list[Event]:
        """Return the parameters of all events of one kind, in the order they came."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def complaints(self) -> list[Event]:
        """Return every exception, console error or warning, and failed load that was reported."""
        bad = ("error", "warning")
        logged = [entry for entry in self.of("Log.entryAdded") if entry["entry"]["level"] in bad]
        spoken = [call for call in self.of("Runtime.consoleAPICalled") if call["type"] in bad]
        return [*self.of("Runtime.exceptionThrown"), *logged, *spoken, *self.of("Network.loadingFailed")]

    def stop(self) -> None:
        """End it for good."""
        self._ending.close()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
