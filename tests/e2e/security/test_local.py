"""Unix sockets: the user of the calling process says what it may do."""

import os
import pathlib
import shutil
import socket
import stat
import subprocess
import tempfile

import grpc
import pytest

import stubs
from command_line import parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, refused, until

Code = grpc.StatusCode
# Users and a group that nobody has.
VIEWER, USER, WORKER, STRANGER, GROUP = 52101, 52102, 52103, 52104, 52150

NOBODY = 65534  # in a user namespace everybody from outside of it

as_others = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root runs commands as other users",
)


@pytest.fixture
def folder():
    """A folder that every user may look into, and only this one may write to."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def run_as(uid, *arguments, groups=""):
    """A run of the command as another user."""
    more = f"--groups={groups}" if groups else "--clear-groups"
    user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", more]
    return subprocess.run(
        [*user, binary("plimsoll"), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )


def at_socket(path):
    return f"--listen=unix:{path}"


def release(stub):
    """Releases a lease that there is not."""
    request = stubs.planner.ReleaseRequest(lease_id="none")
    stub.Release(request, timeout=CALL_SECONDS)


def test_the_servers_own_user_may_do_everything(folder):
    path = folder / "planner"
    with Planner(at_socket(path)) as planner:
        assert planner.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert planner.serving("liveness")
        with refused(Code.NOT_FOUND):
            release(planner.stub)
        parsed(plimsoll("devices", "--planner", planner.address, "-o", "json"))
        report = plimsoll("doctor", "--planner", planner.address, "-o", "json")
        assert f"unix:{path} answers" in report.stdout.decode()
        planner.terminate()
        assert planner.process.wait(timeout=CALL_SECONDS) == 0
    assert not path.exists()


def test_a_worker_reaches_its_planner_by_a_socket(folder, smollm2):
    with Planner(at_socket(folder / "planner")) as planner:
        flags = (f"--planner={planner.address}", "--n-ctx=256", "--slots=1")
        listen = at_socket(folder / "worker")
        with Worker(listen, model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            assert [lease.purpose for lease in planner.leases()] == ["smollm2"]
            done = plimsoll(
                *("generate", "--address", worker.address, "--prompt", "The sea"),
                *("--max-tokens", "4", "-o", "json"),
            )
            parsed(done)
        until(lambda: not planner.leases(), what="the end of the lease")


@as_others
def test_each_user_may_do_what_its_grant_says(folder):
    flags = (
        "--socket-mode=0666",
        f"--grant=uid:{VIEWER}=viewer",
        f"--grant=gid:{GROUP}=user:team-a",
    )
    with Planner(at_socket(folder / "planner"), *flags) as planner:
        look = ("devices", "--planner", planner.address)
        ask = ("plan", "--planner", planner.address, "a.gguf", "--device-memory=1GiB")
        refusal = b"may not call /plimsoll.v1.PlannerService"

        assert run_as(VIEWER, *look).returncode == 0
        assert run_as(STRANGER, *look, groups=f"1,{GROUP}").returncode == 0
        nobody = run_as(STRANGER, *look)
        assert nobody.returncode == 1
        assert b"no --grant" in nobody.stderr

        # The planner does not know the model, which users may hear of.
        asked = run_as(STRANGER, *ask, groups=str(GROUP))
        assert refusal not in asked.stderr, asked.stderr
        assert refusal in run_as(VIEWER, *ask).stderr
        until(lambda: "calls were refused" in planner.log(), what="the line")

        until(lambda: planner.serving("liveness"))


@as_others
def test_a_user_has_the_tenant_of_its_grant(folder, smollm2):
    flags = ("--socket-mode=0666", f"--grant=uid:{USER}=user:team-a")
    flags += ("--n-ctx=256", "--slots=1", "--log-requests")
    listen = at_socket(folder / "worker")
    with Worker(listen, model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        there = ("--address", worker.address)
        call = (*there, "generate", "--prompt=The sea", "--max-tokens=4")
        assert run_as(USER, *call).returncode == 0
        until(lambda: "tenant=team-a" in worker.log(), what="the tenant")
        assert run_as(USER, "drain", *there).returncode == 1
        assert run_as(STRANGER, *call).returncode == 1


@as_others
def test_a_worker_may_run_as_another_user(folder):
    flags = ("--socket-mode=0666", f"--grant=uid:{WORKER}=worker")
    with Planner(at_socket(folder / "planner"), *flags) as planner:
        state = folder / "state"
        state.mkdir()
        os.chown(state, WORKER, WORKER)
        command = ["setpriv", f"--reuid={WORKER}", f"--regid={WORKER}"]
        command += ["--clear-groups", binary("plimsoll-worker")]
        command += ["--listen=127.0.0.1:0", f"--planner={planner.address}"]
        worker = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "XDG_STATE_HOME": str(state)},
        )
        try:
            until(planner.devices, what="the worker's device")
        finally:
            worker.kill()
            worker.wait(timeout=CALL_SECONDS)


@as_others
def test_nobody_may_do_nothing_even_where_the_server_is_nobody(folder):
    own = folder / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    setup = f'set -- setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"'
    listen = at_socket(own / "planner")
    with Planner(listen, "--socket-mode=0666", setup=setup) as planner:
        look = ("devices", "--planner", planner.address)
        assert plimsoll(*look).returncode == 0, "root may"
        assert b"no --grant" in run_as(NOBODY, *look).stderr


@as_others
def test_the_mode_of_the_socket_keeps_others_out(folder):
    with Planner(at_socket(folder / "planner")) as planner:
        done = run_as(STRANGER, "devices", "--planner", planner.address)
        assert done.returncode == 1
        assert b"Permission denied" in done.stderr


def test_a_socket_that_was_left_behind_is_replaced(folder):
    path = folder / "planner"
    with Planner(at_socket(path)) as planner:
        planner.kill()
    assert path.is_socket()
    with Planner(at_socket(path), first=False) as planner:
        assert planner.serving("liveness")


def fails_to_listen(*flags):
    """Starts a planner that is to end at once; returns its code and its words."""
    done = subprocess.run(
        [binary("plimsoll-planner"), *flags],
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def test_nobody_loses_its_socket(folder):
    path = folder / "planner"
    with Planner(at_socket(path)) as planner:
        code, words = fails_to_listen(at_socket(path))
        assert code == 1 and "another server listens" in words
        assert planner.serving("liveness")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        code, words = fails_to_listen(at_socket(path))
        assert code == 1 and "somebody may listen" in words
    path.unlink()
    path.write_text("kept", encoding="utf-8")
    code, words = fails_to_listen(at_socket(path))
    assert code == 2 and "no socket" in words
    assert path.read_text(encoding="utf-8") == "kept"


def test_mistakes_end_the_start(folder):
    path = folder / "planner"
    for flags, words in (
        (("--listen=unix:planner",), "whole path"),
        ((f"--listen=unix:{folder}/{'a' * 108}",), "at most 107 bytes"),
        ((at_socket(folder / "absent" / "s"),), "cannot be used for a socket"),
        ((at_socket(path), "--socket-mode=1000"), "octal"),
        ((at_socket(path), "--socket-mode=0668"), "octal"),
        ((at_socket(path), "--grant=uid:1=king"), "no role"),
        ((at_socket(path), "--grant=uid:1=user"), "a user has one"),
        ((at_socket(path), "--grant=cn:a=viewer"), "needs --tls-client-ca"),
        (("--grant=uid:1=viewer",), "needs --listen unix:/PATH"),
        (("--metrics-listen=unix:/a",), "HOST:PORT"),
    ):
        code, said = fails_to_listen(*flags)
        assert code == 2 and words in said, (flags, said)
    os.chmod(folder, 0o777)
    code, said = fails_to_listen(at_socket(path))
    assert code == 2 and "chmod go-w" in said


def test_grants_stand_in_the_file_of_settings(folder):
    config = folder / "plimsoll.toml"
    config.write_text(
        f"[planner]\nlisten = 'unix:{folder}/planner'\nsocket-mode = '0600'\n"
        f"grant = ['uid:{os.geteuid()}=viewer', 'gid:{GROUP}=admin']\n",
        encoding="utf-8",
    )
    printed = subprocess.run(
        [binary("plimsoll-planner"), f"--config={config}", "--print-config"],
        capture_output=True,
        timeout=CALL_SECONDS,
        check=True,
    ).stdout.decode()
    assert f'"gid:{GROUP}=admin"]' in printed
    with Planner(f"--config={config}", at_socket(folder / "planner")) as planner:
        assert stat.S_IMODE((folder / "planner").stat().st_mode) == 0o600
        assert list(planner.devices()) == []
        with refused(Code.PERMISSION_DENIED):
            release(planner.stub)
