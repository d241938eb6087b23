"""plimsoll-gateway before real workers with a real model."""

import json
import os
import subprocess
import threading

import anthropic
import httpx
import openai
import pytest
from google.protobuf import json_format

import stubs
from conftest import model_flag
from metrics.test_metrics import metrics_address
from security.test_https import trusting
from security.test_security import (  # noqa: F401  (tls and tokens are fixtures)
    client_flags,
    server_flags,
    tls,
    tokens,
)
from servers import (
    CALL_SECONDS,
    START_SECONDS,
    Front,
    Gateway,
    Planner,
    Worker,
    binary,
    until,
)

MODEL = "smollm2"
N_CTX = 512
QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
# A reply that is long enough to be cut off.
LONG = {**GREEDY, "max_tokens": 400, "ignore_eos": True}
SESSION = "X-Plimsoll-Session"


def new_worker(*flags):
    flags += (model_flag(MODEL), f"--n-ctx={N_CTX}", "--slots=4", "--threads=1")
    return Worker(*flags)


@pytest.fixture(scope="module")
def workers(smollm2):
    with new_worker() as first, new_worker() as second:
        yield first.await_ready(), second.await_ready()


@pytest.fixture(scope="module")
def gateway(workers):
    with Gateway(workers=workers) as server:
        server.await_ready()
        for worker in workers:
            until(lambda w=worker: ready(server, w), what="a worker")
        yield server


@pytest.fixture
def own_workers(smollm2):
    """Two workers that the test may end."""
    with new_worker() as first, new_worker() as second:
        yield first.await_ready(), second.await_ready()


@pytest.fixture
def own(own_workers):
    """A gateway before `own_workers`."""
    with Gateway("--drain-timeout=60", workers=own_workers) as server:
        server.await_ready()
        for worker in own_workers:
            until(lambda w=worker: ready(server, w), what="a worker")
        yield server


@pytest.fixture(scope="module")
def front(smollm2, tmp_path_factory):
    """plimsoll serve with the model under the workers' name."""
    path = tmp_path_factory.mktemp("front") / f"{MODEL}.gguf"
    path.symlink_to(smollm2)
    flags = (f"--n-ctx={N_CTX}", "--slots=4", "--threads=1")
    with Front(str(path), *flags) as server:
        yield server


def of_worker(server, what, worker):
    """A worker's value of a metric."""
    name = f'plimsoll_gateway_worker_{what}{{worker="{worker.address}"}}'
    return server.metrics()[name]


def ready(server, worker):
    return of_worker(server, "ready", worker) == 1


def post(server, path, body, **headers):
    return httpx.post(
        f"{server.url}{path}", json=body, headers=headers, timeout=CALL_SECONDS
    )


def chat(server, body=None, **headers):
    return post(server, "/v1/chat/completions", body or GREEDY, **headers)


def without_ids(reply):
    """What a reply says, apart from what is another each time."""
    found = reply.json()
    for name in ("id", "created", "created_at", "system_fingerprint"):
        found.pop(name, None)
    return found


def events_of(lines):
    """The events of a stream as they come."""
    for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def open_stream(server, body, **headers):
    return httpx.stream(
        "POST", f"{server.url}/v1/chat/completions", json={**body, "stream": True},
        headers=headers, timeout=CALL_SECONDS,
    )


def home_of(server, workers, session):
    """The worker of a session, and the others."""
    before = [of_worker(server, "requests_total", w) for w in workers]
    assert chat(server, {**GREEDY, "max_tokens": 1}, **{SESSION: session}).is_success
    (home,) = [w for w, n in zip(workers, before)
               if of_worker(server, "requests_total", w) > n]
    return home, [w for w in workers if w is not home]


def test_the_models_are_those_of_the_workers(gateway):
    (model,) = httpx.get(f"{gateway.url}/v1/models").json()["data"]
    assert model["id"] == MODEL
    assert model["state"] == "ready"
    assert model["max_model_len"] == N_CTX
    assert httpx.get(f"{gateway.url}/v1/models/{MODEL}").json()["id"] == MODEL
    assert httpx.get(f"{gateway.url}/v1/models/nothing").status_code == 404
    status = httpx.get(f"{gateway.url}/plimsoll/status").json()
    assert len(status["workers"]) == 2
    assert [m["id"] for m in status["models"]] == [MODEL]


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", GREEDY),
    ("/v1/chat/completions", {**GREEDY, "n": 2, "seed": 7, "temperature": 1}),
    ("/v1/completions", {"model": MODEL, "prompt": ["The sea is", "The sun is"],
                         "temperature": 0, "max_tokens": 12}),
    ("/v1/messages", {"model": MODEL, "messages": QUESTION, "temperature": 0,
                      "max_tokens": 12}),
    ("/tokenize", {"model": MODEL, "prompt": "Salt and water"}),
    ("/tokenize", {"model": MODEL, "messages": QUESTION}),
    ("/detokenize", {"model": MODEL, "tokens": [40, 41, 42]}),
    ("/v1/messages/count_tokens", {"model": MODEL, "messages": QUESTION}),
])
def test_says_what_serve_says(gateway, front, path, body):
    ours, theirs = post(gateway, path, body), post(front, path, body)
    assert ours.status_code == theirs.status_code == 200, ours.text
    ours, theirs = without_ids(ours), without_ids(theirs)
    for found in (ours, theirs):  # one of them may know the prompt already
        usage = found.get("usage", {})
        usage.pop("prompt_tokens_details", None)
        for name in ("input_tokens", "cache_read_input_tokens"):
            usage.pop(name, None)
    assert ours == theirs


def test_log_probabilities_are_those_of_serve(gateway, front):
    asked = {**GREEDY, "logprobs": True, "top_logprobs": 3}
    old = {"model": MODEL, "prompt": "The sea is", "temperature": 0, "max_tokens": 12,
           "logprobs": 3}
    for path, body in (("/v1/chat/completions", asked), ("/v1/completions", old)):
        ours, theirs = post(gateway, path, body), post(front, path, body)
        assert ours.status_code == theirs.status_code == 200, ours.text
        found = ours.json()["choices"][0]["logprobs"]
        assert found == theirs.json()["choices"][0]["logprobs"]
        pieces = [streamed_logprobs(server, path, body) for server in (gateway, front)]
        assert pieces[0] == pieces[1]
        if path.endswith("chat/completions"):
            assert found["content"] == pieces[0]["content"]
            tokens = [token["token"] for token in found["content"]]
            assert all(len(token["top_logprobs"]) == 3 for token in found["content"])
            text = ours.json()["choices"][0]["message"]["content"]
        else:
            assert {name: found[name] for name in pieces[0]} == pieces[0]
            tokens = found["tokens"]
            text = ours.json()["choices"][0]["text"]
        assert "".join(tokens) == text != ""


def streamed_logprobs(server, path, body):
    """The lists of log-probabilities that a stream's parts have, joined."""
    lists = {}
    reply = post(server, path, {**body, "stream": True})
    assert reply.is_success, reply.text
    for event in events_of(reply.text.splitlines()):
        if event == "[DONE]":
            continue
        found = json.loads(event)["choices"][0]["logprobs"] or {}
        for name, values in found.items():
            lists.setdefault(name, []).extend(values or [])
    lists.pop("refusal", None)
    return lists


def test_the_log_probabilities_of_ollama_work(gateway, front):
    body = {"model": MODEL, "messages": QUESTION, "stream": False, "logprobs": True,
            "top_logprobs": 2, "options": {"temperature": 0, "num_predict": 8}}
    found = [post(server, "/api/chat", body).json() for server in (gateway, front)]
    assert found[0]["logprobs"] == found[1]["logprobs"] != []


def test_streams_what_serve_streams(gateway, front):
    texts = []
    for server in (gateway, front):
        with open_stream(server, GREEDY) as reply:
            events = list(events_of(reply.iter_lines()))
        assert events.pop() == "[DONE]"
        deltas = [json.loads(event)["choices"][0] for event in events]
        assert deltas[-1]["finish_reason"] in ("stop", "length")
        texts.append("".join(d["delta"].get("content", "") for d in deltas))
    assert texts[0] == texts[1] != ""


def test_the_clients_of_openai_and_anthropic_work(gateway):
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none",
                           max_retries=0, timeout=CALL_SECONDS)
    whole = client.responses.create(model=MODEL, input="Name three colours.",
                                    temperature=0, max_output_tokens=24)
    assert whole.output_text and whole.store is False
    events = list(client.responses.create(
        model=MODEL, input="Name three colours.", temperature=0,
        max_output_tokens=24, stream=True))
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens
    other = anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0,
                                timeout=CALL_SECONDS)
    with other.messages.stream(model=MODEL, max_tokens=24,
                               messages=QUESTION) as stream:
        message = stream.get_final_message()
    assert message.content[0].text and message.usage.input_tokens > 0


def test_the_client_of_ollama_finds_its_paths(gateway):
    body = {"model": MODEL, "messages": QUESTION, "stream": False,
            "options": {"temperature": 0, "num_predict": 8}}
    reply = post(gateway, "/api/chat", body).json()
    assert reply["message"]["content"] and reply["done"]
    (model,) = httpx.get(f"{gateway.url}/api/tags").json()["models"]
    assert model["name"] == MODEL
    loaded = post(gateway, "/api/generate", {"model": MODEL, "stream": False})
    assert loaded.json()["done_reason"] == "load"


@pytest.mark.parametrize("path, body, status, word", [
    ("/v1/chat/completions", {**GREEDY, "model": "nothing"}, 404, "workers have"),
    ("/v1/chat/completions", {**GREEDY, "temperature": -1}, 400, "temperature"),
    ("/v1/chat/completions", {**GREEDY, "messages": [
        {"role": "user", "content": "sea " * 600}]}, 400, str(N_CTX)),
    ("/v1/responses", {"model": MODEL, "input": "x", "store": True}, 400, "store"),
    ("/v1/responses", {"model": MODEL, "input": "x", "previous_response_id": "y"},
     400, "previous_response_id"),
    ("/tokenize", {"model": "nothing", "prompt": "x"}, 404, "workers have"),
    ("/api/generate", {"model": MODEL, "keep_alive": 0}, 400, "keep_alive"),
])
def test_errors_have_the_form_of_the_dialect(gateway, path, body, status, word):
    reply = post(gateway, path, body)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert word in (error if isinstance(error, str) else error["message"])


def test_a_prompt_that_is_too_long_has_openais_code(gateway):
    body = {**GREEDY, "messages": [{"role": "user", "content": "sea " * 600}]}
    assert chat(gateway, body).json()["error"]["code"] == "context_length_exceeded"


QUERY = "/plimsoll.v1.PlannerService"


def test_a_planner_answers_its_queries_over_http(gateway, front):
    def ask(server, method, body):
        return httpx.post(f"{server.url}{QUERY}/{method}", json=body,
                          timeout=CALL_SECONDS)

    device = ask(front, "ListDevices", {}).json()["devices"][0]["profile"]
    body = {"source": {"model": MODEL}, "profile": device,
            "budget_bytes": str(1 << 30), "options": {"n_ctx": 1024, "n_slots": 3}}
    expected = ask(front, "Plan", body).json()
    assert expected["plan"]["fits"]
    with Planner(model_flag(MODEL)) as planner:
        request = json_format.ParseDict(body, stubs.planner.PlanRequest())
        said = planner.stub.Plan(request, timeout=CALL_SECONDS)
        flags = (f"--planner={planner.address}", "--worker=127.0.0.1:1")
        with Gateway(*flags) as own_gateway:
            reply = ask(own_gateway, "Plan", body)
            assert reply.status_code == 200, reply.text
            assert reply.json() == expected
            assert json_format.ParseDict(
                reply.json(), stubs.planner.PlanResponse()) == said
            absent = ask(own_gateway, "Plan", {**body, "source": {"model": "x"}})
            assert (absent.status_code, absent.json()["error"]["code"]) == (
                404, "model_not_found")
    without = ask(gateway, "Plan", body)
    assert without.status_code == 404
    assert "--planner" in without.text


def test_a_session_stays_where_it_is(gateway, workers):
    homes = {}
    # Half of all sessions belong to each worker, whose ports decide which ones.
    for i in range(40):
        home, others = home_of(gateway, workers, f"session-{i}")
        homes[home.address] = i
        before = of_worker(gateway, "requests_total", others[0])
        for _ in range(3):
            reply = chat(gateway, {**GREEDY, "max_tokens": 1},
                         **{SESSION: f"session-{i}"})
            assert reply.is_success
        assert of_worker(gateway, "requests_total", others[0]) == before
        if i >= 7 and len(homes) == 2:
            break
    assert len(homes) == 2, "forty sessions, and all on one worker"


def test_prompts_that_begin_alike_share_work(gateway):
    system = {"role": "system", "content": "You are a pilot on the sea. " * 12}
    cached = []
    for word in ("one", "two", "three", "four"):
        body = {**GREEDY, "max_tokens": 1,
                "messages": [system, {"role": "user", "content": word}]}
        usage = chat(gateway, body).json()["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert all(n > 0 for n in cached[1:]), cached


def test_an_id_and_a_stream_can_be_followed(gateway):
    reply = chat(gateway, **{"X-Request-Id": "mine"})
    assert reply.headers["x-request-id"] == "mine"
    assert reply.json()["id"] == "chatcmpl-mine"


def test_hosts_and_origins_are_checked(gateway):
    for name, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
        assert chat(gateway, **{name: value}).status_code == 403


def test_a_client_that_goes_away_ends_its_reply(gateway, workers):
    with open_stream(gateway, LONG) as reply:
        next(events_of(reply.iter_lines()))
    until(lambda: all(of_worker(gateway, "in_flight", w) == 0 for w in workers),
          what="the end of the reply")
    left = 'plimsoll_gateway_replies_total{result="left"}'
    until(lambda: gateway.metrics()[left] >= 1, what="the count")


def test_a_begun_stream_ends_with_an_error_and_the_rest_goes_on(own, own_workers):
    home, (other,) = home_of(own, own_workers, "s")
    with open_stream(own, LONG, **{SESSION: "s"}) as reply:
        events = events_of(reply.iter_lines())
        assert "choices" in json.loads(next(events))
        home.kill()
        last = list(events)[-1]
    assert "gone" in json.loads(last)["error"]["message"]
    assert own.metrics()["plimsoll_gateway_broken_replies_total"] == 1
    for _ in range(3):
        assert chat(own, **{SESSION: "s"}).is_success
    # The gateway looks at its workers twice a second.
    until(lambda: not ready(own, home), what="the loss of the worker")
    assert ready(own, other)
    assert own.word() == (200, "ok")


def test_replies_that_have_not_begun_go_on_elsewhere(own, own_workers):
    replies = []
    # To make clients of their own takes as long as the first replies do.
    client = httpx.Client(base_url=own.url, timeout=CALL_SECONDS)

    def ask(i):
        # Half of them ask for a whole reply, of which a client has nothing yet.
        body = {**LONG, "max_tokens": 60, "stream": i % 2 == 1}
        reply = client.post("/v1/chat/completions", json=body)
        replies.append((i, reply))  # the least bytes in flight decide

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    until(lambda: all(of_worker(own, "in_flight", w) > 4 for w in own_workers),
          what="load on both workers")
    own_workers[0].kill()
    for thread in threads:
        thread.join()
    client.close()
    assert len(replies) == 16
    metrics = own.metrics()
    broken = [i for i, reply in replies
              if not reply.is_success or '"error"' in reply.text]
    # Only streams that had begun may have broken, four at most: the slots.
    assert all(i % 2 == 1 for i in broken), broken
    assert len(broken) <= 4
    assert metrics["plimsoll_gateway_retries_total"] >= 1
    assert of_worker(own, "gone_total", own_workers[0]) >= 1


def test_a_worker_that_drains_gets_nothing_new(own, own_workers):
    home, (other,) = home_of(own, own_workers, "s")
    with open_stream(own, {**LONG, "max_tokens": 100}, **{SESSION: "s"}) as reply:
        events = events_of(reply.iter_lines())
        next(events)
        home.terminate()
        for _ in range(4):
            assert chat(own, **{SESSION: "s"}).is_success
        assert list(events)[-1] == "[DONE]"
    assert own.metrics()["plimsoll_gateway_broken_replies_total"] == 0


def test_a_gateway_drains(own):
    with open_stream(own, LONG) as reply:
        events = events_of(reply.iter_lines())
        next(events)
        own.terminate()
        until(lambda: own.word() == (503, "draining"), what="draining")
        assert chat(own).status_code == 503
        assert list(events)[-1] == "[DONE]"
    assert own.process.wait(timeout=START_SECONDS) == 0


def test_without_a_worker_nothing_is_ready(smollm2):
    flags = (model_flag(MODEL), f"--n-ctx={N_CTX}", "--slots=2")
    with Worker(*flags) as worker, Gateway(workers=(worker,)) as server:
        server.await_ready()
        worker.kill()
        until(lambda: server.word() == (503, "loading"), what="a worker's loss")
        reply = chat(server)
        assert reply.status_code == 503
        assert reply.headers["retry-after"] == "1"
        with Worker(f"--listen={worker.address}", *flags):
            server.await_ready()  # by itself
            assert chat(server).is_success


def test_a_name_has_any_number_of_workers(workers):
    port = workers[0].address.rpartition(":")[2]
    with Gateway(f"--workers=dns:///localhost:{port}") as server:
        server.await_ready()
        assert chat(server).is_success
        assert of_worker(server, "requests_total", workers[0]) == 1


def test_tokens_and_roles_hold(workers, tokens):  # noqa: F811
    with Gateway(*tokens.flag(), workers=workers) as server:
        server.await_ready()
        assert chat(server).status_code == 401

        def of(name):
            return {"Authorization": f"Bearer {tokens.of[name]}"}

        assert chat(server, **of("v")).status_code == 403
        models = httpx.get(f"{server.url}/v1/models", headers=of("v"))
        assert models.is_success
        assert chat(server, **of("u")).is_success


def test_a_workers_tenant_is_that_of_the_gateways_token(
    smollm2, tokens, tmp_path  # noqa: F811
):
    quotas = tmp_path / "quotas.json"
    quotas.write_text(json.dumps({"tenants": {"team-a": {"max_tokens": 5}}}))
    worker = new_worker(*tokens.flag(), f"--quotas={quotas}")
    with worker, Gateway(*tokens.flag(), f"--token-file={secret(tokens, 'a')}",
                         workers=(worker,)) as server:
        server.await_ready()
        reply = chat(server, Authorization=f"Bearer {tokens.of['u']}")
        assert reply.status_code == 400
        assert "quota is 5" in reply.json()["error"]["message"]
        assert chat(server, Authorization=f"Bearer {tokens.of['a']}").is_success


def test_a_workers_receipts_name_the_tenant_that_asked_the_gateway(
    smollm2, tokens, tmp_path  # noqa: F811
):
    file = tmp_path / "usage.jsonl"
    worker = new_worker(*tokens.flag(), f"--usage-file={file}",
                        "--metrics-listen=127.0.0.1:0")
    with worker, Gateway(*tokens.flag(), f"--token-file={secret(tokens, 'a')}",
                         workers=(worker,)) as server:
        server.await_ready()
        reply = chat(server, {**GREEDY, "max_tokens": 5},
                     Authorization=f"Bearer {tokens.of['u']}",
                     **{"X-Request-Id": "asked-1"})
        usage = reply.json()["usage"]
        until(lambda: file.read_text().endswith("\n"), what="the receipt")
        scrape = httpx.get(f"http://{metrics_address(worker)}/metrics").text
        assert "\nplimsoll_receipts_lost_total 0\n" in scrape
    (receipt,) = map(json.loads, file.read_text().splitlines())
    assert receipt["tenant"] == "team-a" and receipt["request"] == "asked-1"
    assert receipt["generated_tokens"] == usage["completion_tokens"] > 0
    assert (receipt["prompt_tokens"] + receipt["cached_tokens"]
            == usage["prompt_tokens"])


def secret(tokens, name):  # noqa: F811
    path = tokens.file.with_name(f"{name}.token")
    path.write_text(tokens.of[name])
    return str(path)


def test_both_sides_speak_tls(smollm2, tls, tokens):  # noqa: F811
    worker = new_worker(*server_flags(tls, asks=True))
    worker_flags = client_flags(tls, shows=True)
    with worker, Gateway(*worker_flags, *server_flags(tls), *tokens.flag(),
                         "--metrics-listen=127.0.0.1:0", workers=(worker,)) as server:
        url = f"https://{server.address}"
        with httpx.Client(verify=trusting(tls), timeout=CALL_SECONDS,
                          headers={"Authorization": f"Bearer {tokens.of['u']}"}) as client:
            until(lambda: client.get(f"{url}/health").is_success, 60, "readiness")
            reply = client.post(f"{url}/v1/chat/completions", json=GREEDY)
        assert reply.is_success, reply.text
        metrics = httpx.get(f"http://{metrics_address(server)}/metrics").text
        assert "plimsoll_gateway_ready 1" in metrics


@pytest.mark.parametrize("flags", [
    ("--worker=127.0.0.1:1", "--listen=0.0.0.0:0"),  # nobody is asked who calls
    (),                                              # no worker
    ("--worker=somewhere",),
    ("--worker=127.0.0.1:1", "--tokens=/nonexistent"),
])
def test_flags_that_make_no_sense_end_the_start(flags):
    environment = {name: value for name, value in os.environ.items()
                   if name != "PLIMSOLL_TOKEN"}
    done = subprocess.run([binary("plimsoll-gateway"), *flags], timeout=START_SECONDS,
                          capture_output=True, check=False, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr and not done.stdout
