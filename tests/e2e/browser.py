"""Drives headless Chromium over a pair of pipes, by the DevTools protocol."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import tempfile
import time

import pytest

CALL_SECONDS = 30
# Chromium reads messages from the first and writes them to the second.
READ_FD, WRITE_FD = 3, 4
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run",
    "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-extensions", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
)
KEYS = {
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13},
    "Escape": {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
}
SHIFT = 8


def chromium():
    """The path of the browser; skips the test if there is none."""
    for name in (os.environ.get("PLIMSOLL_CHROMIUM"), *NAMES):
        path = name and shutil.which(name)
        if path:
            return path
    pytest.skip("no Chromium; scripts/install_deps.sh --browser installs it")


class Browser:
    """A browser with one page; a context manager."""

    def __init__(self):
        path = chromium()
        self.profile = tempfile.mkdtemp(prefix="plimsoll-chromium-")
        command = [path, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        theirs_in, self.requests = os.pipe()
        self.replies, theirs_out = os.pipe()
        log = os.open(f"{self.profile}/log", os.O_CREAT | os.O_WRONLY)
        moves = [(theirs_in, READ_FD), (theirs_out, WRITE_FD), (log, 1), (log, 2)]
        # Numbers that are none of those that the moves write to.
        high = [os.dup2(old, 100 + n) for n, (old, _) in enumerate(moves)]
        self.pid = os.posix_spawn(
            path, command, os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, old, new)
                          for old, (_, new) in zip(high, moves)],
            setpgroup=0,
        )
        for fd in (theirs_in, theirs_out, log, *high):
            os.close(fd)
        self.waiting = b""
        self.last_id = 0
        self.session = None
        self.events = []  # those that nobody has taken
        self.problems = []  # what the console and the policy say
        self.answers = {}  # canned replies: part of an address -> (type, body)
        self._open_page()

    def _open_page(self):
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Audits", "Network"):
            self.call(f"{domain}.enable")

    # ---- The protocol ----

    def call(self, method, **params):
        """The result of a call."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.requests, data):]
        return self._await_reply(self.last_id, method)

    def _await_reply(self, wanted, method):
        end = time.monotonic() + CALL_SECONDS
        while True:
            message = self._read(end)
            assert message is not None, f"{method} had no reply: {self.log()}"
            if message.get("id") == wanted:
                assert "error" not in message, (method, message["error"])
                return message["result"]

    def _read(self, end):
        """The next message; None if none comes before `end`. Events are kept."""
        while b"\0" not in self.waiting:
            seconds = max(end - time.monotonic(), 0)
            if not select.select([self.replies], [], [], seconds)[0]:
                return None
            data = os.read(self.replies, 1 << 16)
            assert data, f"the browser has ended: {self.log()}"
            self.waiting += data
        line, self.waiting = self.waiting.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self._on_event(message["method"], message["params"])
        return message

    def _on_event(self, name, params):
        if name == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"])
        elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(params["args"])
        elif name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"])
        elif name == "Audits.issueAdded":
            issue = params["issue"]
            if issue["code"] == "ContentSecurityPolicyIssue":
                self.problems.append(issue)
        elif name == "Fetch.requestPaused":
            self.events.append(params)

    def log(self):
        """What the browser wrote."""
        return pathlib.Path(self.profile, "log").read_text(errors="replace")

    # ---- What tests do ----

    def open(self, url, width=1280, height=800):
        """Opens a page and waits until it has loaded."""
        self.resize(width, height)
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def resize(self, width, height, is_phone=False):
        """Sets the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)

    def theme(self, name):
        """Has the page see "light" or "dark" as the user's choice."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def run(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression,
                           awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression, seconds=60):
        """Polls until the expression is true and returns its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(expression)
            if value:
                return value
            assert time.monotonic() < end, (
                f"{expression} did not become true; the page says:\n"
                + self.run("document.body.innerText"))
            self.pump(0.05)

    def pump(self, seconds):
        """Takes events for a while and answers the requests among them."""
        end = time.monotonic() + seconds
        while self._read(end) is not None:
            pass
        while self.events:
            self._answer(self.events.pop(0))

    def can(self, part, body, content_type):
        """Has requests whose address contains `part` answered with `body`."""
        self.answers[part] = (content_type, body)
        patterns = [{"urlPattern": f"*{one}*"} for one in self.answers]
        self.call("Fetch.enable", patterns=patterns)

    def _answer(self, paused):
        url = paused["request"]["url"]
        for part, (content_type, body) in self.answers.items():
            if part in url:
                header = {"name": "Content-Type", "value": content_type}
                self.call("Fetch.fulfillRequest", requestId=paused["requestId"],
                          responseCode=200, responseHeaders=[header],
                          body=base64.b64encode(body.encode()).decode())
                return
        self.call("Fetch.continueRequest", requestId=paused["requestId"])

    def key(self, name, shift=False):
        """Presses a key."""
        modifiers = SHIFT if shift else 0
        text = {"text": "\r"} if name == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", modifiers=modifiers,
                  **KEYS[name], **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers,
                  **KEYS[name])

    def write(self, text):
        """Types a text where the focus is."""
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """Clicks on the middle of an element."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'});"
            " const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1],
                      button="left", clickCount=1)

    def screenshot(self, path):
        """Writes what is shown as a PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    def close(self):
        """Ends the browser and what it started."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.replies)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
