"""Planner and worker start with what the overlay kind-tls tells them, and with
certificates as cert-manager makes them of its Certificates.

Usage: tls_test.py [-v]   with the Python of .ci/requirements.txt; the binaries are
looked for in $PLIMSOLL_BUILD (build/release). Needs openssl
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import overlays
from overlays import BUILD_DIR, of_kind, server

OVERLAY = "kind-tls"
START_SECONDS = 60
EXTENDED = {"server auth": "serverAuth", "client auth": "clientAuth"}


def call(*command):
    """What a command that must succeed prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def make_key(path):
    call("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-out", path)  # fmt: skip


class Issuer:
    """A CA that signs what a Certificate of cert-manager asks for."""

    def __init__(self, folder):
        self.key, self.cert = folder / "ca.key", folder / "ca.crt"
        make_key(self.key)
        call("openssl", "req", "-x509", "-new", "-key", self.key, "-subj",
             "/CN=plimsoll-ca", "-days", "2", "-out", self.cert)  # fmt: skip

    def sign(self, certificate, folder):
        """The files of the secret of a Certificate, as a pod has them."""
        spec = certificate["spec"]
        folder.mkdir()
        make_key(folder / "tls.key")
        lines = ["keyUsage = critical, digitalSignature"]
        usages = [EXTENDED[u] for u in spec["usages"] if u in EXTENDED]
        lines.append(f"extendedKeyUsage = {', '.join(usages)}")
        if "dnsNames" in spec:
            names = ", ".join(f"DNS:{name}" for name in spec["dnsNames"])
            lines.append(f"subjectAltName = critical, {names}")
        (folder / "extensions").write_text("\n".join(lines) + "\n")
        subject = f"/CN={spec['commonName']}" if "commonName" in spec else "/"
        call("openssl", "req", "-new", "-key", folder / "tls.key", "-subj", subject,
             "-out", folder / "request")  # fmt: skip
        call("openssl", "x509", "-req", "-in", folder / "request", "-CA", self.cert,
             "-CAkey", self.key, "-CAcreateserial", "-days", "1", "-extfile",
             folder / "extensions", "-out", folder / "tls.crt")  # fmt: skip
        shutil.copyfile(self.cert, folder / "ca.crt")


class Program:
    """The program of a pod, with its settings, on this machine's loopback."""

    def __init__(self, name, folder, *flags):
        kind = "Deployment" if "planner" in name else "StatefulSet"
        self.container = server(of_kind(OVERLAY, kind)[name])
        environment = {"XDG_STATE_HOME": str(folder / f"{name}-state")}
        places = {"/tls/": f"{folder / name}/", "/tokens/": f"{folder}/"}
        for variable in self.container["env"]:
            if variable["name"] != "XDG_STATE_HOME":
                value = variable["value"]
                for path, place in places.items():
                    value = value.replace(path, place)
                environment[variable["name"]] = value
        command = [BUILD_DIR / "bin" / self.container["command"][0], *flags]
        command += ["--listen=localhost:0", "--metrics-listen=127.0.0.1:0"]
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], env=environment, stdout=log, stderr=log
            )

    def said(self, pattern):
        """What the log says, once it says so."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            text = self.log.read_text()
            match = re.search(pattern, text)
            if match:
                return match[1]
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(text)
            time.sleep(0.05)

    def port(self):
        return overlays.port_of(self.said(r"listening on (\S+)"))

    def passes(self, probe):
        """Whether an HTTP probe of the manifest passes, asked of the process."""
        address = self.said(r"metrics are served address=(\S+)")
        path = self.container[probe]["httpGet"]["path"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
                return reply.status == 200
        except urllib.error.HTTPError:
            return False

    def await_pass(self, probe):
        deadline = time.monotonic() + START_SECONDS
        while not self.passes(probe):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def close(self):
        self.process.terminate()
        code = self.process.wait(START_SECONDS)
        assert code == 0, (code, self.log.read_text())


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
class TlsRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        issuer = Issuer(self.folder)
        certificates = of_kind(OVERLAY, "Certificate")
        for name in ("plimsoll-planner", "plimsoll-worker", "plimsoll-client"):
            issuer.sign(certificates[name], self.folder / name)
        for name, role in (("worker", "worker"), ("ada", "viewer")):
            new = ("token", "new", "--name", name, "--role", role)
            tokens = ("--tokens", self.folder / "tokens.json")
            token = call(BUILD_DIR / "bin" / "plimsoll", *new, *tokens)
            (self.folder / f"{name}.token").write_text(token.split()[-1])

    def start(self, name, *flags):
        program = Program(name, self.folder, *flags)
        self.addCleanup(program.close)
        return program

    def devices(self, port, *flags):
        """Asks a planner for its devices; returns the code and what is said."""
        address = ("--planner", f"localhost:{port}")
        return overlays.run(BUILD_DIR / "bin" / "plimsoll", *address, "devices", *flags)

    def test_the_worker_gets_to_the_planner_and_probes_pass(self):
        planner = self.start("plimsoll-planner")
        port = planner.port()
        flags = (f"--planner=localhost:{port}", "--device-id=host/cpu", "--threads=1")
        worker = self.start("plimsoll-worker", *flags)
        for program in (planner, worker):
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                program.await_pass(probe)
        own = self.folder / "plimsoll-client"
        tls = ("--tls-ca", own / "ca.crt")
        cert = ("--tls-client-cert", own / "tls.crt", "--tls-client-key", own / "tls.key")
        token = ("--token-file", self.folder / "ada.token")
        deadline = time.monotonic() + START_SECONDS
        while "host/cpu" not in self.devices(port, *tls, *cert, *token)[1]:
            self.assertLess(time.monotonic(), deadline, worker.log.read_text())
            time.sleep(0.2)
        # Neither a certificate nor a token alone is enough.
        self.assertNotEqual(self.devices(port, *tls, *token)[0], 0)
        self.assertNotEqual(self.devices(port, *tls, *cert)[0], 0)


if __name__ == "__main__":
    unittest.main()
