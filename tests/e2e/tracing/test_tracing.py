"""Spans of real servers, as a collector of traces gets them."""

import grpc
import httpx
import pytest

import stubs
from servers import CALL_SECONDS, Front, Gateway, Planner, refused, until
from tracing.collector import Collector
from tracing.traced import MODEL, N_TOKENS, SECRET, generate, new_parent, new_worker

INTERNAL, SERVER, CLIENT = 1, 2, 3
PARTS = ["queue", "prefill", "decode"]


def check_request(spans, operation, service):
    """One request's spans: the server's, and its three parts behind each other."""
    server = [span for span in spans if span.kind == SERVER][-1]
    parts = [span for span in spans if span.kind == INTERNAL]
    assert server.name == f"{operation} {MODEL}"
    assert server.service == service
    assert not server.is_error
    attributes = server.attributes
    assert attributes["gen_ai.operation.name"] == operation
    assert attributes["gen_ai.request.model"] == MODEL
    assert attributes["gen_ai.usage.output_tokens"] == N_TOKENS
    assert attributes["gen_ai.usage.input_tokens"] > 0
    assert attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert [part.name for part in parts] == PARTS
    at = server.begin
    for part in parts:
        assert part.parent == server.id
        assert part.trace == server.trace
        assert at <= part.begin <= part.end <= server.end
        at = part.end
    return server


@pytest.fixture(scope="module")
def collector():
    with Collector() as server:
        yield server


@pytest.fixture(scope="module")
def worker(smollm2, collector):
    with new_worker(collector, "--trace-share=0") as server:
        yield server.await_ready()


@pytest.fixture(scope="module")
def front(smollm2, collector, tmp_path_factory):
    """plimsoll serve with the model under the workers' name."""
    path = tmp_path_factory.mktemp("front") / f"{MODEL}.gguf"
    path.symlink_to(smollm2)
    flags = (f"--otlp-endpoint={collector.url}", "--n-ctx=256", "--threads=1")
    with Front(str(path), *flags) as server:
        yield server


def test_a_call_by_grpc_has_a_span_below_its_callers(worker, collector):
    trace, caller, metadata = new_parent()
    generate(worker, [*metadata, ("x-request-id", "mine-1")])
    spans = collector.of(trace, 4)
    server = check_request(spans, "text_completion", "plimsoll-worker")
    assert server.parent == caller
    assert server.attributes["plimsoll.request_id"] == "mine-1"
    assert {span.state for span in spans} == {"vendor=x,a=1"}
    assert len({span.id for span in spans}) == 4
    assert SECRET.encode() not in collector.raw


def test_a_trace_that_is_not_sampled_has_no_spans(worker, collector):
    trace, _, metadata = new_parent(is_sampled=False)
    generate(worker, metadata)
    # This one comes later, and so it would bring the other one along.
    after, _, metadata = new_parent()
    generate(worker, metadata)
    collector.of(after, 4)
    assert trace not in {span.trace for span in collector.spans()}


def test_a_refused_call_has_a_span_with_the_error(worker, collector):
    trace, _, metadata = new_parent()
    with refused(grpc.StatusCode.NOT_FOUND):
        generate(worker, metadata, model="another")
    (span,) = collector.of(trace, 1)
    assert span.is_error
    assert span.attributes["error.type"] == "NOT_FOUND"


def test_a_bad_header_is_ignored(smollm2, collector):
    with new_worker(collector) as worker:  # each trace that begins is sampled
        worker.await_ready()
        for header in ("00-" + "0" * 32 + "-" + "1" * 16 + "-01", "x" * 4000, "00-1"):
            before = len(collector.spans())
            generate(worker, [("traceparent", header), ("tracestate", "a=1")])

            def found(begin=before):
                return [s for s in collector.spans()[begin:] if s.kind == SERVER]

            # The spans of the load and of the request's parts may come before it.
            server = until(found, 60, "the request's span")[-1]
            assert server.parent == ""
            assert server.state == ""


def test_a_request_by_http_has_the_same_spans(front, collector):
    for is_streamed in (False, True):
        trace, caller, metadata = new_parent()
        reply = httpx.post(
            f"{front.url}/v1/chat/completions",
            headers=dict(metadata),
            json={
                "model": MODEL,
                "messages": [{"role": "user", "content": SECRET}],
                "max_tokens": N_TOKENS,
                "stream": is_streamed,
                "ignore_eos": True,
            },
            timeout=CALL_SECONDS,
        )
        assert reply.status_code == 200
        spans = collector.of(trace, 4)
        server = check_request(spans, "chat", "plimsoll-serve")
        assert server.parent == caller
        request_id = reply.headers["x-request-id"]
        assert server.attributes["plimsoll.request_id"] == request_id
    assert SECRET.encode() not in collector.raw


def test_a_gateways_worker_is_in_its_trace(worker, collector):
    with Gateway(f"--otlp-endpoint={collector.url}", workers=[worker]) as gateway:
        gateway.await_ready()
        trace, caller, metadata = new_parent()
        chat(gateway, metadata)
        spans = collector.of(trace, 6)
    by_service = {(span.service, span.kind): span for span in spans}
    front = by_service["plimsoll-gateway", SERVER]
    call = by_service["plimsoll-gateway", CLIENT]
    assert front.parent == caller
    assert call.parent == front.id
    assert call.attributes["server.address"] == worker.address
    assert front.attributes["gen_ai.usage.output_tokens"] == N_TOKENS
    assert front.begin <= call.begin <= call.end <= front.end + 10**9
    own = [span for span in spans if span.service == "plimsoll-worker"]
    assert check_request(own, "chat", "plimsoll-worker").parent == call.id


def test_a_gateway_without_spans_passes_the_trace_on(worker, collector):
    with Gateway(workers=[worker]) as gateway:
        gateway.await_ready()
        trace, caller, metadata = new_parent()
        chat(gateway, metadata)
        spans = collector.of(trace, 4)
    assert check_request(spans, "chat", "plimsoll-worker").parent == caller


def test_a_tab_in_a_tracestate_comes_to_no_worker(worker, collector):
    # gRPC ends a process that sends one.
    with Gateway(workers=[worker]) as gateway:
        gateway.await_ready()
        trace, _, metadata = new_parent()
        chat(gateway, [metadata[0], ("tracestate", "a=1,\tb=2")])
        assert {span.state for span in collector.of(trace, 4)} == {"a=1,b=2"}
        assert gateway.process.poll() is None


def chat(gateway, metadata):
    reply = httpx.post(
        f"{gateway.url}/v1/chat/completions",
        headers=dict(metadata),
        json={
            "model": MODEL,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": N_TOKENS,
            "ignore_eos": True,
        },
        timeout=CALL_SECONDS,
    )
    assert reply.status_code == 200


def test_a_load_and_its_leases_are_in_one_trace(smollm2):
    with Collector() as collector:
        endpoint = f"--otlp-endpoint={collector.url}"
        with Planner(endpoint) as planner:
            flags = ("--lazy", f"--planner={planner.address}")
            with new_worker(collector, *flags) as worker:
                trace, caller, metadata = new_parent()
                request = stubs.model.LoadModelRequest(model=MODEL)
                list(worker.models.LoadModel(request, metadata=metadata))
                spans = collector.of(trace, 5)
    (load,) = [span for span in spans if span.name == "load"]
    assert load.parent == caller
    assert load.attributes["plimsoll.model"] == MODEL
    assert load.attributes["plimsoll.plan_bytes"] > 0
    for method in ("Reserve", "Confirm"):
        name = f"plimsoll.v1.PlannerService/{method}"
        call, answer = [span for span in spans if span.name == name]
        assert (call.kind, answer.kind) == (CLIENT, SERVER)
        assert call.parent == load.id
        assert answer.parent == call.id
        assert answer.service == "plimsoll-planner"
        assert load.begin <= call.begin <= answer.begin
        assert answer.end <= call.end <= load.end
