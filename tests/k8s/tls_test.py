"""Planner and worker start with what the overlay kind-tls tells them, and with
certificates as cert-manager makes them of its Certificates.

Usage: tls_test.py [-v]   with the Python of .ci/requirements.txt; the binaries are
looked for in $PLIMSOLL_BUILD (build/release). Needs openssl
"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import overlays
from overlays import BUILD_DIR, of_kind
from program import Program, await_true

OVERLAY = "kind-tls"
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

    def start(self, name, *words):
        """One of both, with its secrets and without a model."""
        places = {
            "/tls/": f"{self.folder / name}/",
            "/tokens/": f"{self.folder}/",
            "/var/lib/plimsoll/": f"{self.folder}/",
        }
        words += ("--listen=localhost:0", "--metrics-listen=127.0.0.1:0")
        program = Program(OVERLAY, name, self.folder, places, *words)
        self.addCleanup(program.close)
        return program

    def devices(self, port, *flags):
        """Asks a planner for its devices; returns the code and what is said."""
        address = ("--planner", f"localhost:{port}")
        return overlays.run(BUILD_DIR / "bin" / "plimsoll", *address, "devices", *flags)

    def test_the_worker_gets_to_the_planner_and_probes_pass(self):
        planner = self.start("plimsoll-planner")
        port = overlays.port_of(planner.said(r"listening on (\S+)"))
        # It loads nothing, so it is ready.
        words = (f"--planner=localhost:{port}", "--device-id=host/cpu", "--lazy")
        words += ("--admin-listen=localhost:0",)
        worker = self.start("plimsoll-worker", *words)
        for program in (planner, worker):
            program.await_probes(program.said(r"metrics are served address=(\S+)"))
        own = self.folder / "plimsoll-client"
        tls = ("--tls-ca", own / "ca.crt")
        cert = ("--tls-client-cert", own / "tls.crt", "--tls-client-key", own / "tls.key")
        token = ("--token-file", self.folder / "ada.token")
        await_true(
            worker.log.read_text,
            lambda: "host/cpu" in self.devices(port, *tls, *cert, *token)[1],
        )
        # Neither a certificate nor a token alone is enough.
        self.assertNotEqual(self.devices(port, *tls, *token)[0], 0)
        self.assertNotEqual(self.devices(port, *tls, *cert)[0], 0)


if __name__ == "__main__":
    unittest.main()
