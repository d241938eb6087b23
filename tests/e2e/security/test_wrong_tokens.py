"""What a wrong token costs its caller, and what it counts."""

import threading
import time
import urllib.error
import urllib.request

import grpc

import stubs
from metrics.test_metrics import LISTEN, metrics_address, metrics_of
from security.test_security import tokens  # noqa: F401 (a fixture)
from servers import CALL_SECONDS, Front, Planner, refused, until

DELAY_SECONDS = 1  # RefusalDelay::kTime
EARLY_SECONDS = 0.05  # timers count milliseconds
WRONG = (("authorization", "Bearer sesame"),)
FAILURES = "plimsoll_auth_failures_total"


def list_devices(planner, metadata=()):
    request = stubs.planner.ListDevicesRequest()
    return planner.stub.ListDevices(request, metadata=metadata, timeout=CALL_SECONDS)


def failures(values):
    """The counts by reason."""
    begin = FAILURES + '{reason="'
    return {k[len(begin) : -2]: n for k, n in values.items() if k.startswith(begin)}


def test_a_wrong_token_waits_and_is_counted(tokens):  # noqa: F811
    with Planner(*tokens.flag(), LISTEN) as planner:
        begin = time.monotonic()
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            list_devices(planner, WRONG)
        assert time.monotonic() - begin >= DELAY_SECONDS - EARLY_SECONDS
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            list_devices(planner)
        with refused(grpc.StatusCode.PERMISSION_DENIED):
            planner.stub.Reserve(
                stubs.planner.ReserveRequest(), metadata=tokens.metadata("v")
            )
        list_devices(planner, tokens.metadata("v"))
        counted = failures(metrics_of(metrics_address(planner)))
    assert counted == {"no_token": 1, "wrong_token": 1, "no_grant": 0, "low_role": 1}


def test_many_guesses_hold_nobody_else_up(tokens):  # noqa: F811
    n_guesses = 100  # one connection may have 128 streams
    with Planner(*tokens.flag()) as planner:
        call = planner.stub.ListDevices
        request = stubs.planner.ListDevicesRequest()
        ends, ended = [], threading.Semaphore(0)

        def end(_):
            ends.append(time.monotonic())
            ended.release()

        begin = time.monotonic()
        for _ in range(n_guesses):
            call.future(request, metadata=WRONG).add_done_callback(end)
        for _ in range(n_guesses):
            assert ended.acquire(timeout=CALL_SECONDS)
        assert min(ends) - begin >= DELAY_SECONDS - EARLY_SECONDS
        # They wait beside one another, not one after the other.
        assert max(ends) - begin < n_guesses * DELAY_SECONDS / 4
        list_devices(planner, tokens.metadata("v"))


def test_a_wrong_token_over_http(smollm2, tokens):  # noqa: F811
    def ask(front, **headers):
        request = urllib.request.Request(front.url + "/metrics", headers=headers)
        return urllib.request.urlopen(request, timeout=CALL_SECONDS)

    with Front(str(smollm2), *tokens.flag(), "--n-ctx=512") as front:
        begin = time.monotonic()
        try:
            ask(front, Authorization="Bearer sesame")
            raise AssertionError("a wrong token was taken")
        except urllib.error.HTTPError as error:
            assert error.code == 401
            refused_id = error.headers["X-Request-Id"]
        assert time.monotonic() - begin >= DELAY_SECONDS - EARLY_SECONDS
        until(lambda: "were refused" in front.log(), what="the line")
        line = next(x for x in front.log().splitlines() if "were refused" in x)
        assert "last_reason=wrong_token" in line
        assert f"request_id={refused_id}" in line
        with ask(front, Authorization=f"Bearer {tokens.of['v']}") as reply:
            page = reply.read().decode()
    assert FAILURES + '{reason="wrong_token"} 1\n' in page
