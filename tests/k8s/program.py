"""The program of a pod, with what its manifest tells it, as a process of this
machine."""

import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

import overlays
import pod_settings

START_SECONDS = 60


def await_true(what, happens):
    """Returns once `happens()`; fails with `what()` if it takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not happens():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


class Program:
    """Runs a server of an overlay.

    `places` has folders of this machine for folders of the pod, both with a slash
    at the end. `words` come after those of the manifest, whose flags of the same
    name are left out; they say where to listen.
    """

    def __init__(self, overlay, name, folder, places, *words):
        (controller,) = [
            c for c in overlays.servers(overlay) if c["metadata"]["name"] == name
        ]
        self.container = overlays.server(controller)
        program = self.container["command"][0]
        environment = {}
        for variable in self.container.get("env", []):
            environment[variable["name"]] = self._placed(variable["value"], places)
        environment["XDG_STATE_HOME"] = str(folder / f"{name}-state")
        command = [str(overlays.BUILD_DIR / "bin" / program)]
        own = {word.partition("=")[0] for word in words}
        for word in pod_settings.words_of(self.container):
            flag, _, value = word.partition("=")
            if flag == "--config":
                spec = overlays.pod_spec(controller)
                objects = overlays.rendered(overlay)
                file = folder / pathlib.Path(value).name
                text = pod_settings.mounted_file(objects, spec, self.container, value)
                file.write_text(self._placed(text, places))
                word = f"--config={file}"
            if flag not in own:
                command.append(self._placed(word, places))
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, *words], env=environment, stdout=log, stderr=log
            )

    def _placed(self, text, places):
        for path, place in places.items():
            text = text.replace(path, place)
        return text

    def said(self, pattern):
        """What the log says, once it says so."""

        def has_said():
            assert self.process.poll() is None, self.log.read_text()
            return re.search(pattern, self.log.read_text())

        await_true(self.log.read_text, has_said)
        return re.search(pattern, self.log.read_text())[1]

    def get(self, address, path, host=None):
        """Status and text of a GET."""
        headers = {"Host": host} if host else {}
        request = urllib.request.Request(f"http://{address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def await_probes(self, address):
        """Waits until every HTTP probe of the manifest passes at this address."""
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = self.container[probe]["httpGet"]["path"]
            await_true(self.log.read_text, lambda: self.get(address, path)[0] == 200)

    def close(self):
        """Ends it by SIGTERM; it must end well."""
        self.process.terminate()
        code = self.process.wait(START_SECONDS)
        assert code == 0, (code, self.log.read_text())
