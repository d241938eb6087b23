"""Planner and worker start with what the overlays kind-tls and kind-mtls tell them,
and with certificates as cert-manager makes them of their Certificates.

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


class TlsCase(unittest.TestCase):
    """Starts the programs of an overlay, which a class names."""

    overlay = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        issuer = Issuer(self.folder)
        certificates = of_kind(self.overlay, "Certificate")
        for name in ("plimsoll-planner", "plimsoll-worker", "plimsoll-client"):
            issuer.sign(certificates[name], self.folder / name)

    def start(self, name, *words):
        """One of both, with its secrets and without a model."""
        places = {
            "/tls/": f"{self.folder / name}/",
            "/tokens/": f"{self.folder}/",
            "/var/lib/plimsoll/": f"{self.folder}/",
        }
        words += ("--listen=localhost:0", "--admin-listen=localhost:0")
        words += ("--metrics-listen=127.0.0.1:0",)
        program = Program(self.overlay, name, self.folder, places, *words)
        self.addCleanup(program.close)
        return program

    def start_both(self):
        """A planner, and a worker that calls it; returns them and its port."""
        planner = self.start("plimsoll-planner")
        port = overlays.port_of(planner.said(r"listening on (\S+)"))
        leases_at = planner.said(r"administration on (\S+)")
        # It loads nothing, so it is ready.
        words = (f"--planner={leases_at}", "--device-id=host/cpu", "--lazy")
        worker = self.start("plimsoll-worker", *words)
        for program in (planner, worker):
            program.await_probes(program.said(r"metrics are served address=(\S+)"))
        return planner, worker, port

    def certificate(self, name):
        """The flags that show the certificate of a secret."""
        own = self.folder / name
        return ("--tls-ca", own / "ca.crt", "--tls-client-cert", own / "tls.crt",
                "--tls-client-key", own / "tls.key")  # fmt: skip

    def ask(self, *words):
        """Runs the command line; returns the code and what is said."""
        return overlays.run(BUILD_DIR / "bin" / "plimsoll", *words)

    def devices(self, port, *flags):
        """Asks a planner for its devices; returns the code and what is said."""
        return self.ask("--planner", f"localhost:{port}", "devices", *flags)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
class TlsRunTest(TlsCase):
    overlay = "kind-tls"

    def setUp(self):
        super().setUp()
        for name, role in (("worker", "worker"), ("ada", "viewer")):
            new = ("token", "new", "--name", name, "--role", role)
            tokens = ("--tokens", self.folder / "tokens.json")
            token = call(BUILD_DIR / "bin" / "plimsoll", *new, *tokens)
            (self.folder / f"{name}.token").write_text(token.split()[-1])

    def test_the_worker_gets_to_the_planner_and_probes_pass(self):
        _, worker, port = self.start_both()
        tls = ("--tls-ca", self.folder / "plimsoll-client" / "ca.crt")
        cert = self.certificate("plimsoll-client")
        token = ("--token-file", self.folder / "ada.token")
        await_true(
            worker.log.read_text,
            lambda: "host/cpu" in self.devices(port, *cert, *token)[1],
        )
        # Neither a certificate nor a token alone is enough.
        self.assertNotEqual(self.devices(port, *tls, *token)[0], 0)
        self.assertNotEqual(self.devices(port, *cert)[0], 0)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
class CertificateRightsTest(TlsCase):
    overlay = "kind-mtls"

    def test_a_name_gives_the_rights_that_it_needs_and_no_more(self):
        planner, worker, port = self.start_both()
        leases_at = planner.said(r"administration on (\S+)")
        client = self.certificate("plimsoll-client")
        own = self.certificate("plimsoll-worker")
        await_true(
            worker.log.read_text,
            lambda: "host/cpu" in self.devices(port, *client)[1],
        )
        release = ("leases", "release", "0" * 32, "--force", "--reason=a test")
        for who, role in ((client, "user"), (own, "worker")):
            code, said = self.ask("--planner", leases_at, *release, *who)
            self.assertNotEqual(code, 0)
            self.assertIn(f"role {role}", said)
        administration = worker.said(r"administration on (\S+)")
        drain = ("drain", "--address", administration)
        self.assertNotEqual(self.ask(*drain, *client)[0], 0)
        self.assertEqual(self.ask(*drain, *own)[0], 0)


if __name__ == "__main__":
    unittest.main()
