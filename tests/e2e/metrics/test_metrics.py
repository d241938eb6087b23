"""Prometheus' metrics of the real binaries, read by a strict parser."""

import http.client
import json
import re

import grpc
import pytest

import stubs
from asks import GREEDY, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Front, Planner, Worker, refused, until

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
PAIR = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SERIES = re.compile(rf"({NAME})(?:\{{({PAIR}(?:,{PAIR})*)\}})? (\S+)")
LISTEN = "--metrics-listen=127.0.0.1:0"
HISTOGRAM_SUFFIXES = ["_bucket", "_sum", "_count"]


def parse(body):
    """The values by series, once every line is as the format wants it."""
    assert body.endswith("\n")
    types, values = {}, {}
    for line in body.splitlines():
        if line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {NAME} \S.*", line), line
            continue
        if line.startswith("# TYPE "):
            match = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line)
            assert match, line
            assert match[1] not in types, line
            types[match[1]] = match[2]
            family = match[1]
            continue
        match = SERIES.fullmatch(line)
        assert match, line
        suffixes = HISTOGRAM_SUFFIXES if types[family] == "histogram" else [""]
        assert match[1] in [family + suffix for suffix in suffixes], line
        key = f"{match[1]}{{{match[2]}}}" if match[2] else match[1]
        assert key not in values, line
        values[key] = float(match[3])
    return values


def scrape(address, method="GET", path="/metrics", **headers):
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(address, timeout=CALL_SECONDS)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


def metrics_of(address):
    """The metrics that an address serves."""
    status, headers, body = scrape(address)
    assert status == 200, body
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(body)


def metrics_address(server):
    """Where a server said on stderr that its metrics are."""
    match = until(
        lambda: re.search(r"metrics are served address=(\S+)", server.log()),
        what="the address of metrics",
    )
    return match[1]


@pytest.fixture
def pair(smollm2):
    """A planner and its worker, both with metrics."""
    with Planner(LISTEN) as planner:
        flags = (f"--planner={planner.address}", "--device-id=host/cpu")
        flags += ("--n-ctx=256", "--slots=2", LISTEN)
        with Worker(model_flag("smollm2"), *flags) as worker:
            yield planner, worker.await_ready()


def test_a_worker_says_what_it_did(pair):
    _, worker = pair
    address = metrics_address(worker)
    before = metrics_of(address)
    assert before["plimsoll_ready"] == 1
    assert before['plimsoll_model_state{model="smollm2",state="ready"}'] == 1
    assert before['plimsoll_generation_tokens_total{model="smollm2"}'] == 0
    options = {"sampling": GREEDY, "max_tokens": 8, "ignore_eos": True}
    request = generate("smollm2", text=text("One, two,"), **options)
    worker.generation.Generate(request, timeout=CALL_SECONDS)
    done = 'plimsoll_requests_total{model="smollm2",result="max_tokens"}'
    until(lambda: metrics_of(address)[done] == 1, what="the request's count")
    after = metrics_of(address)
    assert after.keys() == before.keys()
    assert after['plimsoll_generation_tokens_total{model="smollm2"}'] == 8
    first = after['plimsoll_time_to_first_token_seconds_sum{model="smollm2"}']
    whole = after['plimsoll_request_seconds_sum{model="smollm2"}']
    assert 0 < first < whole
    assert after['vllm:num_requests_running{model_name="smollm2"}'] == 0
    assert 0 <= after['vllm:kv_cache_usage_perc{model_name="smollm2"}'] <= 1
    refusals = 'vllm:admission_rejections_total{model_name="smollm2",reason='
    assert after[refusals + '"queue_full"}'] == 0
    sessions = 'plimsoll_session_kv_bytes{model="smollm2",device="host/cpu"}'
    assert after[sessions] == 0
    opened = worker.sessions.OpenSession(
        stubs.session.OpenSessionRequest(model="smollm2"), timeout=CALL_SECONDS
    ).session
    assert metrics_of(address)[sessions] == opened.reserved_bytes > 0
    worker.sessions.CloseSession(
        stubs.session.CloseSessionRequest(
            model="smollm2", session_id=opened.session_id
        ),
        timeout=CALL_SECONDS,
    )
    planned = after['plimsoll_planned_bytes{device="host/cpu"}']
    measured = after['plimsoll_measured_bytes{device="host/cpu"}']
    ratio = after['plimsoll_plan_error_ratio{device="host/cpu"}']
    assert abs(ratio - (measured / planned - 1)) < 1e-3
    assert worker.model().total_bytes == planned


def test_a_planner_says_what_is_held(pair):
    planner, worker = pair
    address = metrics_address(planner)
    held = worker.model().total_bytes
    values = metrics_of(address)
    assert values["plimsoll_planner_ready"] == 1
    assert values["plimsoll_planner_recovery_seconds"] == 0
    confirmed = '{device="host/cpu",state="confirmed"}'
    assert values[f"plimsoll_leases{confirmed}"] == 1
    assert values[f"plimsoll_lease_bytes{confirmed}"] == held
    assert values['plimsoll_device_healthy{device="host/cpu"}'] == 1
    granted = 'plimsoll_reserves_total{decision="granted",reason=""}'
    assert values[granted] == 1
    request = stubs.planner.ReserveRequest(
        request_id="too much", device_id="host/cpu", holder="test", bytes=1 << 60
    )
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MEMORY_BUDGET_EXCEEDED"):
        planner.stub.Reserve(request, timeout=CALL_SECONDS)
    values = metrics_of(address)
    reason = 'decision="refused",reason="memory_budget_exceeded"'
    assert values[f"plimsoll_reserves_total{{{reason}}}"] == 1
    assert values[granted] == 1


def test_health_is_there_for_probes_that_speak_no_grpc(pair):
    planner, worker = pair
    for server in pair:
        status, _, body = scrape(metrics_address(server), path="/health")
        assert (status, body) == (200, '{"status":"ok"}')
    worker.admin.Drain(stubs.admin.DrainRequest(), timeout=CALL_SECONDS)
    status, _, body = scrape(metrics_address(worker), path="/health")
    assert (status, body) == (503, '{"status":"not ready"}')
    # Which is no reason to end it.
    assert scrape(metrics_address(worker))[0] == 200
    assert scrape(metrics_address(planner), path="/health")[0] == 200


def test_the_listener_has_nothing_else(pair):
    planner, worker = pair
    for server in pair:
        address = metrics_address(server)
        status, headers, body = scrape(address, "HEAD")
        assert (status, body) == (200, "")
        assert int(headers["Content-Length"]) > 0
        assert scrape(address, path="/")[0] == 404
        assert scrape(address, "POST")[0] == 405
        # A page of a browser could give this address a name of its own.
        assert scrape(address, Host="evil.example")[0] == 403
    assert metrics_address(planner) != planner.address
    assert metrics_address(worker) != worker.address


def test_without_the_flag_there_is_no_listener(lazy_worker, planner):
    assert "metrics" not in lazy_worker.log()
    assert "metrics" not in planner.log()


def test_serve_has_them_on_its_address(smollm2):
    with Front(str(smollm2), "--n-ctx=256", "--slots=2") as front:
        values = metrics_of(front.address)
    assert values["plimsoll_ready"] == 1
    assert values['plimsoll_slots{model="SmolLM2-135M-Instruct.Q4_1"}'] == 2


def test_without_preemption_a_request_reserves_pages(smollm2):
    flags = ("--n-ctx=256", "--slots=2", "--preemption=off")
    name = 'plimsoll_kv_pages_reserved{model="SmolLM2-135M-Instruct.Q4_1"}'
    with Front(str(smollm2), *flags) as front:
        assert metrics_of(front.address)[name] == 0
        connection = http.client.HTTPConnection(front.address, timeout=CALL_SECONDS)
        body = {"prompt": "One, two,", "max_tokens": 200, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        reply = connection.getresponse()
        assert reply.readline().startswith(b"data: ")
        # 4 pages of 64 tokens have the prompt and 199 tokens of the reply.
        assert metrics_of(front.address)[name] == 4
        connection.close()
        until(lambda: metrics_of(front.address)[name] == 0, what="free pages")
