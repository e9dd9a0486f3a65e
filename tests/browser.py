"""A headless Chromium driven over a pipe by the DevTools protocol; the standard library is enough for it."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_SECONDS = 60.0


def find_browser() -> str | None:
    """Where a Chromium is; SCALEWISE_CHROMIUM wins."""
    return os.environ.get("SCALEWISE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page; events are kept in the order in which they came."""

    def __init__(self, program: str, profile: Path) -> None:
        own_read, its_write = os.pipe()
        its_read, own_write = os.pipe()
        options = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                   "--disable-dev-shm-usage", "--disable-background-networking", f"--user-data-dir={profile}",
                   "about:blank"]  # fmt: skip
        if os.getuid() == 0:
            options.insert(0, "--no-sandbox")  # Chromium's sandbox refuses root

        # The protocol is spoken on file descriptors 3 and 4; the shell puts the pipes there.
        shell = f'exec "$0" "$@" 3<&{its_read} 4>&{its_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *options],
            pass_fds=(its_read, its_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_read)
        os.close(its_write)
        self.read_end, self.write_end = own_read, own_write
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(one for one in targets if one["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == self.number:
                assert "error" not in got, f"{method}: {got['error']}"
                return dict(got["result"])
            self.events.append(got)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.read_end, 1 << 20)
            assert more, "the browser has gone"
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(line))

    def open(self, url: str) -> None:
        """Waits until the page is complete."""
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits for it to become true."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.run(condition):
            assert time.monotonic() < deadline, f"never became true: {condition}"
            time.sleep(0.02)

    def point_at(self, selector: str, *, click: bool = False) -> None:
        """Scrolls to the middle of an element, moves the mouse there, and clicks if asked."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1]}
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def resize(self, width: int, height: int) -> None:
        """As if the window had this size."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def complaints(self) -> list[str]:
        """Errors on the console, exceptions, and whatever was asked of a network."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(str(params["entry"]["text"]))
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("file:"):
                found.append(f"asked for {params['request']['url']}")
        return found

    def close(self) -> None:
        """Ends the browser that this object started."""
        self.session = None
        try:
            self.ask("Browser.close")
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(10)
        os.close(self.read_end)
        os.close(self.write_end)
