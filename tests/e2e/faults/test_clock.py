"""F21: a time of day that jumps under whole processes."""

import signal
import subprocess
import time

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, START_SECONDS, Planner, Worker, until
from stubs import planner as v1

HOUR = 3_600
# A time to live in which a busy machine comes to its renewals, and two of them.
TTL = 2
LONG_ENOUGH = 2 * TTL
# More than a call has computed before its first message is read.
MANY_POINTS = 1_000_000


def test_the_time_of_day_of_programs_jumps(wall_clock):
    def ahead():
        now = int(subprocess.run(["date", "+%s"], capture_output=True).stdout)
        return round((now - time.time()) / HOUR)

    assert ahead() == 0
    wall_clock(-HOUR)
    assert ahead() == -1
    wall_clock(2 * HOUR)
    assert ahead() == 2


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["back", "ahead"])
def test_f21_a_jump_of_the_time_of_day_disturbs_nobody(smollm2, wall_clock, jump):
    with Planner(f"--lease-ttl={TTL}", f"--recovery-time={TTL}") as planner:
        flags = ("--n-ctx=4096", "--slots=2", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            stream = worker.generation.StreamGenerate(
                endless("smollm2"), timeout=CALL_SECONDS
            )
            next(stream)
            (before,) = planner.leases()
            wall_clock(jump)
            end = time.monotonic() + LONG_ENOUGH
            n_parts = 0
            while time.monotonic() < end:
                next(stream)
                n_parts += 1
                (lease,) = planner.leases()
                assert lease.state == v1.LEASE_STATE_CONFIRMED
                assert (lease.id, lease.epoch) == (before.id, before.epoch)
            assert n_parts > LONG_ENOUGH
            stream.cancel()
            reply = worker.generation.Generate(
                generate(text=text("Once"), sampling=GREEDY, max_tokens=4),
                timeout=CALL_SECONDS,
            )
            assert reply.usage.generated_tokens == 4
            worker.process.send_signal(signal.SIGTERM)
            assert worker.process.wait(START_SECONDS) == 0
        until(lambda: not planner.leases(), what="the release of the lease")
        planner.process.send_signal(signal.SIGTERM)
        assert planner.process.wait(START_SECONDS) == 0


def test_f21_a_call_in_flight_outlives_a_jump_ahead(smollm2, wall_clock):
    request = v1.WhatIfRequest(
        source=v1.ModelSource(model="smollm2"),
        devices=[v1.WhatIfDevice(budget_bytes=1 << 30)],
        n_ctx=[0] * 1000,
        n_slots=list(range(1, 1001)),
    )
    with Planner(model_flag("smollm2")) as planner:
        call = planner.stub.WhatIf(request, timeout=CALL_SECONDS)
        assert next(call).n_points == MANY_POINTS
        wall_clock(HOUR)
        n_points = 0
        while n_points < MANY_POINTS // 2:
            n_points += len(next(call).points)
        call.cancel()


def test_f21_a_drain_ends_in_its_time_beside_a_jump_back(smollm2, wall_clock):
    flags = ("--n-ctx=4096", "--slots=1", "--drain-timeout=2")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        stream = worker.generation.StreamGenerate(endless("smollm2"), timeout=60)
        next(stream)
        worker.process.send_signal(signal.SIGTERM)
        wall_clock(-HOUR)
        with pytest.raises(grpc.RpcError) as error:
            for _ in stream:
                pass
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert worker.process.wait(START_SECONDS) == 0
