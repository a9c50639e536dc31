"""Drives a headless Chromium over its debugging pipe: open, type, click, read, and take pictures."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.skips import find_chromium

DEADLINE_S = 500.0


class Browser:
    """One tab."""

    def __init__(self, process: subprocess.Popen[bytes], reading: int, writing: int) -> None:
        self.process = process
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._reading, self._writing = reading, writing
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._reading, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"])[:500])
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.errors.append(event["params"]["entry"]["text"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression of the page holds."""
        until = time.monotonic() + DEADLINE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < until, f"{condition} did not come true in {DEADLINE_S} s: {self.text()[:2000]}"
            time.sleep(0.02)

    def settled(self) -> None:
        """Wait until the answer to the form's state stands."""
        self.wait("document.querySelector('#answer')?.getAttribute('aria-busy') === 'false'")

    def text(self, selector: str = "body") -> str:
        return str(self.run(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "/": 191}[key]
        typed = {"Enter": "\r", "/": "/"}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                **({"text": typed} if typed and kind == "keyDown" else {}),
            )  # fmt: skip

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def set(self, name: str, value: str) -> None:
        """Give a field of the form a value, as a user does: the page hears of it."""
        self.run(
            f"(() => {{ const field = document.querySelector('#ask [name={name}]'); field.value = {value!r};"
            "field.dispatchEvent(new Event('input', {bubbles: true}));"
            "field.dispatchEvent(new Event('change', {bubbles: true})); return true; })()"
        )

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Run a headless Chromium until the block ends."""
    program = find_chromium()
    assert program, "a test that opens a page is marked `browser`"
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    words = (
        f'exec "{program}" --headless --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run '
        f'--user-data-dir="{folder / "profile"}" about:blank 3<&{their_in} 4>&{their_out}'
    )
    process = subprocess.Popen(
        ["bash", "-c", words], pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(their_in)
    os.close(their_out)
    try:
        yield Browser(process, our_in, our_out)
    finally:
        process.terminate()
        try:
            process.wait(timeout=100)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(our_in)
        os.close(our_out)
