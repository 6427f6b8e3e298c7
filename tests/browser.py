"""A headless Chromium, driven by its DevTools protocol over two pipes: no port is opened and no library is needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of a browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._left, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command's result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path) -> None:
        """Load a file, and wait until it is there."""
        self.call("Page.navigate", url=page.as_uri())
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression in the page is true."""
        for _ in range(400):
            if self.evaluate(f"Boolean({expression})"):
                return
            self.evaluate("new Promise((done) => setTimeout(done, 25))")
        raise AssertionError(f"never true: {expression}")

    def choose(self, selector: str, path: Path) -> None:
        """Choose a file as a person does with the picker."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def screenshot(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        """The whole page as PNG."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile; skips where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium, which is not installed")
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="affiant-chromium-", ignore_cleanup_errors=True) as profile:
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        process = subprocess.Popen(
            ["bash", "-c", shell, program, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(commands)
        os.close(answers)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
