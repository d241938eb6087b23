"""What a client may do by the names in its certificate."""

import contextlib
import shutil
import subprocess

import grpc
import pytest

import stubs
from command_line import plimsoll
from servers import CALL_SECONDS, Planner, Worker, refused, until

Code = grpc.StatusCode
CONFIRMED = stubs.planner.LEASE_STATE_CONFIRMED
WORKER = "spiffe://plimsoll.test/gpu1"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")


def openssl(*arguments, **fields):
    subprocess.run(
        ["openssl", *arguments], check=True, capture_output=True, timeout=30, **fields
    )


@pytest.fixture
def tls(tmp_path):
    """A folder with a CA and a server's certificate."""
    done = plimsoll("cert", "dev", str(tmp_path))
    assert done.returncode == 0, done.stderr
    return tmp_path


def validity(has_expired):
    """The arguments of `openssl x509` for two days, or for a day that is over."""
    if not has_expired:
        return ("-days", "2")
    asked = subprocess.run(["openssl", "x509", "-help"], capture_output=True)
    if b"-not_after" in asked.stderr:  # OpenSSL 3.4, which refuses -1
        return ("-not_before", "20260101000000Z", "-not_after", "20260102000000Z")
    return ("-days", "-1")


def sign(tls, name, *, usage, others="", has_expired=False):
    """Makes a certificate of the CA: NAME.pem and NAME-key.pem."""
    key, made, request = (tls / f"{name}{end}" for end in ("-key.pem", ".pem", ".csr"))
    new = ("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key))
    openssl(*new, "-subj", f"/CN={name}", "-out", str(request))
    extensions = tls / "extensions"
    extensions.write_text(
        f"basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\n"
        + (f"subjectAltName={others}\n" if others else ""),
        encoding="utf-8",
    )
    openssl(
        *("x509", "-req", "-in", str(request), "-out", str(made)),
        *validity(has_expired),
        *("-CA", str(tls / "ca.pem"), "-CAkey", str(tls / "ca-key.pem")),
        *("-CAcreateserial", "-extfile", str(extensions)),
    )
    return made, key


def make_client(tls, name, others="", *, has_expired=False):
    """Makes a client's certificate; returns the flags that show it."""
    made, key = sign(
        tls, name, usage="clientAuth", others=others, has_expired=has_expired
    )
    return (
        f"--tls-ca={tls / 'ca.pem'}",
        f"--tls-client-cert={made}",
        f"--tls-client-key={key}",
    )


@contextlib.contextmanager
def planner_with(tls, *grants):
    flags = [f"--tls-cert={tls / 'server.pem'}", f"--tls-key={tls / 'server-key.pem'}"]
    flags += [f"--tls-client-ca={tls / 'ca.pem'}", "--lease-ttl=0.5"]
    with Planner(*flags, *(f"--grant={grant}" for grant in grants)) as planner:
        yield planner


@contextlib.contextmanager
def stub_of(planner, tls, name):
    """The planner's stub with a client's certificate."""
    credentials = grpc.ssl_channel_credentials(
        (tls / "ca.pem").read_bytes(),
        (tls / f"{name}-key.pem").read_bytes(),
        (tls / f"{name}.pem").read_bytes(),
    )
    with grpc.secure_channel(planner.address, credentials) as channel:
        yield stubs.PlannerStub(channel)


def test_a_workers_certificate_is_for_its_own_leases(tls, smollm2):
    make_client(tls, "ops")
    make_client(tls, "gpu2", "DNS:gpu2.test")
    flags = make_client(tls, "gpu1", f"URI:{WORKER}")
    grants = (f"uri:{WORKER}=worker", "dns:gpu2.test=worker", "cn:ops=admin")
    with planner_with(tls, *grants) as planner, stub_of(planner, tls, "ops") as ops:
        there = f"--planner=localhost:{planner.address.rpartition(':')[2]}"
        load = (f"--model=smollm2={smollm2}", "--n-ctx=256", "--slots=1")
        with Worker(there, *flags, *load) as worker:
            worker.await_ready()
            (lease,) = ops.ListLeases(stubs.planner.ListLeasesRequest()).leases
            assert lease.holder.startswith(f"uri:{WORKER} ")
            request = stubs.planner.ReleaseRequest(
                lease_id=lease.id, epoch=lease.epoch
            )
            with stub_of(planner, tls, "gpu2") as other:
                with refused(Code.PERMISSION_DENIED):
                    other.Release(request, timeout=CALL_SECONDS)

            def is_renewed():
                (now,) = ops.ListLeases(stubs.planner.ListLeasesRequest()).leases
                # A renewal may be late, and makes good then.
                is_old = now.held_for.ToTimedelta() > now.ttl.ToTimedelta()
                return is_old and now.state == CONFIRMED

            until(is_renewed, what="a life longer than one time to live")

        def is_over():
            return not ops.ListLeases(stubs.planner.ListLeasesRequest()).leases

        until(is_over, what="the end of the lease")


def test_a_certificate_without_a_grant_may_do_nothing(tls):
    flags = make_client(tls, "someone", "DNS:someone.test,URI:spiffe://plimsoll.test")
    with planner_with(tls, f"uri:{WORKER}=worker", "dns:ada.test=viewer") as planner:
        done = plimsoll("devices", "--planner", planner.address, *flags)
        assert done.returncode == 1
        assert b"no --grant" in done.stderr
        flags = make_client(tls, "ada", "DNS:ada.test")
        done = plimsoll("devices", "--planner", planner.address, *flags)
        assert done.returncode == 0, done.stderr


def test_who_shows_an_expired_certificate_is_refused(tls):
    grants = ("cn:late=viewer", "cn:ada=viewer")
    late, ada = make_client(tls, "late", has_expired=True), make_client(tls, "ada")
    with planner_with(tls, *grants) as planner:
        call = ("devices", "--planner", planner.address)
        assert plimsoll(*call, *late).returncode == 1
        done = plimsoll(*call, *ada)
        assert done.returncode == 0, done.stderr


def test_a_server_with_an_expired_certificate_is_not_believed(tls):
    where = "DNS:localhost,IP:127.0.0.1"
    sign(tls, "server", usage="serverAuth", others=where, has_expired=True)
    ada = make_client(tls, "ada")
    with planner_with(tls, "cn:ada=viewer") as planner:
        call = ("devices", "--planner", planner.address, *ada)
        assert plimsoll(*call).returncode == 1
        # A new one counts without a restart.
        sign(tls, "server", usage="serverAuth", others=where)
        until(lambda: plimsoll(*call).returncode == 0, what="the new certificate")


def test_a_certificate_of_another_host_is_not_believed(tls):
    sign(tls, "server", usage="serverAuth", others="DNS:planner.test")
    ada = make_client(tls, "ada")
    with planner_with(tls, "cn:ada=viewer") as planner:
        call = ("devices", "--planner", planner.address, *ada)
        assert plimsoll(*call).returncode == 1
