"""The interpreter of this repository, as a process that renders line by line."""

import json
import subprocess


class Engine:
    """Use as a context manager; `render` answers in order."""

    def __init__(self, binary):
        self._process = subprocess.Popen(
            [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def render(self, template, variables, is_tainted=False):
        """Returns {"text": ...} or {"error": ...}; "runs" if is_tainted."""
        line = json.dumps({"template": template, "variables": variables,
                           "is_tainted": is_tainted})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise AssertionError(
                f"the interpreter died of {template!r} with {variables!r}")
        return json.loads(reply)
