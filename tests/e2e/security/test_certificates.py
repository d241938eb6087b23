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


def make_client(tls, name, others=""):
    """Makes a client's certificate of the CA: NAME.pem and NAME-key.pem."""
    key, made, request = (tls / f"{name}{end}" for end in ("-key.pem", ".pem", ".csr"))
    new = ("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key))
    openssl(*new, "-subj", f"/CN={name}", "-out", str(request))
    extensions = tls / "extensions"
    extensions.write_text(
        "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n"
        + (f"subjectAltName={others}\n" if others else ""),
        encoding="utf-8",
    )
    openssl(
        *("x509", "-req", "-in", str(request), "-out", str(made), "-days", "2"),
        *("-CA", str(tls / "ca.pem"), "-CAkey", str(tls / "ca-key.pem")),
        *("-CAcreateserial", "-extfile", str(extensions)),
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
