"""Rehearses deploy/k8s without a cluster, with the real processes.

Usage: rehearsal.py MANIFESTS.json BIN_FOLDER MODEL_FOLDER

Runs the planner, the workers and the gateways of the rendered overlay as pods
(pod.py), and clients that stream from the pods that are ready: by gRPC from
workers, and over HTTP from gateways. Then it
  1. replaces each worker, as a rolling update does: preStop, SIGTERM, the grace
     period, a new pod of the same name;
  2. replaces each gateway, once a new one is ready;
  3. replaces the planner;
  4. kills a worker and starts its container again.
It fails if in 1 to 3 a stream is lost that the drain promises to keep, or has
another text than it should; if a call is refused; if a pod had to be killed or
needed more memory than its limit; or if a worker's plan is not the manifest's to
the byte. Prints what it measured last. Needs root; where namespaces are not
allowed it says so and skips.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from http_clients import HttpClients
from stream_threads import CALL_SECONDS, LAG_SECONDS, PROMPT, SHORT_TOKENS, StreamThreads

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE_DIR / "tests" / "e2e"))

READY_SECONDS = 120  # a busy machine
N_CLIENTS = 3
# A stream that alone takes this long goes on beyond preStop, and it ends before
# the drain does even if others slow it down.
LONG_SECONDS = 7
MOST_TOKENS = 1900  # the context has 2,048


def skip_reason():
    """Why the rehearsal cannot run here; empty if it can."""
    flags = ("--net", "--uts", "--mount", "--pid", "--fork")
    if os.geteuid() != 0:
        return "it needs root"
    if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode:
        return "namespaces are not allowed here"
    links = "ip link add pods type bridge && ip link add v0 type veth peer v1"
    make = ["unshare", "--net", "sh", "-c", links]
    if subprocess.run(make, capture_output=True).returncode:
        return "this kernel has no bridges or no pairs of network devices"
    return ""


def enter_network():
    """Starts this script again in a network namespace of its own."""
    os.environ["PLIMSOLL_REHEARSAL"] = "1"
    flags = ("--net", "--mount", "--propagation", "private")
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


class Cluster:
    """The pods of an overlay, and the addresses that clients know."""

    def __init__(self, objects, binaries, models, folder):
        self.binaries = binaries
        self.models = models
        self.folder = folder
        kinds = ("Deployment", "StatefulSet")
        servers = {o["metadata"]["name"]: o for o in objects if o["kind"] in kinds}
        self.objects = objects
        self.planner_of = servers["plimsoll-planner"]
        self.worker = servers["plimsoll-worker"]
        self.gateway = servers["plimsoll-gateway"]
        for name, files in pod_settings.config_maps(objects).items():
            for file, text in files.items():
                (self._volume(name) / file).write_text(text)
        self.workers = {}  # by ordinal; a pod that ends is not among them
        self.gateways = []  # as well
        self.planner = None
        self.log = open(folder / "pods.log", "wb")
        self.planner_address = pod.SUBNET[10]
        self.next_address = 20
        self.peaks = []  # bytes, of pods of workers that have ended
        self.lock = threading.Lock()
        self.hosts = open(folder / "hosts", "w+b", buffering=0)
        self._name_services()
        self.is_ending = threading.Event()
        self.names = threading.Thread(target=self._name_for_ever)
        self.names.start()

    def _name_services(self):
        """Tells pods the addresses of Services, as a cluster's DNS does."""
        names = ["127.0.0.1 localhost", f"{self.planner_address} plimsoll-planner"]
        names += [f"{worker.address} plimsoll-worker" for worker in self.endpoints()]
        text = "".join(f"{line}\n" for line in names).encode()
        # A reader sees the old names or the new ones, and never none.
        os.pwrite(self.hosts.fileno(), text, 0)
        self.hosts.truncate(len(text))

    def _name_for_ever(self):
        while not self.is_ending.wait(0.5):
            self._name_services()

    def _volume(self, name):
        path = self.folder / name
        path.mkdir(exist_ok=True)
        os.chmod(path, 0o777)  # a kubelet would set the group
        return path

    def _pod(self, name, controller, address, volumes):
        template = controller["spec"]["template"]
        mounts = template["spec"]["containers"][0].get("volumeMounts", [])
        for volume in template["spec"].get("volumes", []):
            if "configMap" in volume:
                (path,) = [
                    m["mountPath"] for m in mounts if m["name"] == volume["name"]
                ]
                volumes[path] = self._volume(volume["configMap"]["name"])
        told = pod_settings.settings_of(self.objects, controller)
        return pod.Pod(
            name,
            template,
            address,
            hosts=self.folder / "hosts",
            volumes=volumes,
            binaries=self.binaries,
            drain_seconds=float(told["drain-timeout"]),
            log=self.log,
        )

    def start_planner(self):
        """Its Service has one address, whichever pod is behind it."""
        volumes = {"/var/lib/plimsoll": self._volume("journal")}
        self.planner = self._pod(
            "plimsoll-planner", self.planner_of, self.planner_address, volumes
        )

    def start_worker(self, ordinal, state=None):
        """A pod of the StatefulSet, with an address of its own.

        `state` is the volume of a container that has ended, if the pod goes on.
        """
        address = pod.SUBNET[self.next_address]
        self.next_address += 1
        name = f"{self.worker['metadata']['name']}-{ordinal}"
        volumes = {
            "/models": self.models,
            "/var/lib/plimsoll": state or self._volume(f"state-{address}"),
        }
        started = self._pod(name, self.worker, address, volumes)
        started.state = volumes["/var/lib/plimsoll"]
        with self.lock:
            self.workers[ordinal] = started
        return started

    def start_gateway(self):
        """A pod of the gateways' Deployment, with an address of its own."""
        address = pod.SUBNET[self.next_address]
        self.next_address += 1
        name = f"{self.gateway['metadata']['name']}-{address.packed[-1]}"
        started = self._pod(name, self.gateway, address, {})
        with self.lock:
            self.gateways.append(started)
        return started

    def take_gateway(self, gateway):
        """A gateway that ends from now on."""
        with self.lock:
            self.gateways.remove(gateway)
        gateway.check()
        return gateway

    def ready_gateways(self):
        """The gateways that their Service lists."""
        with self.lock:
            return [gateway for gateway in self.gateways if gateway.is_ready]

    def take(self, ordinal):
        """A worker that ends from now on; clients are told of it later."""
        with self.lock:
            taken = self.workers.pop(ordinal)
        self.peaks.append(taken.cgroup.peak_bytes())
        taken.check()
        return taken

    def endpoints(self):
        """The workers that a Service lists."""
        with self.lock:
            return [worker for worker in self.workers.values() if worker.is_ready]

    def plan_bytes(self):
        """What the manifest says of the plan."""
        metadata = self.worker["spec"]["template"]["metadata"]
        return int(metadata["annotations"]["plimsoll.dev/plan-bytes"])

    def close(self):
        for running in (*self.gateways, *self.workers.values(), self.planner):
            if running is not None:
                running.close()
        self.is_ending.set()
        self.names.join()
        self.hosts.close()
        self.log.close()


class Clients(StreamThreads):
    """They stream from workers."""

    def __init__(self, cluster):
        super().__init__(cluster.endpoints, N_CLIENTS)
        self.expected = {}  # by tokens: the text that every worker must say
        self.n_overdue = 0  # they outlived the drain, which promises nothing then
        self.long_tokens = 0
        self.lost = []
        self.refused = []
        self.may_lose = set()  # addresses of workers that were killed

    def stream(self, worker, n_tokens=SHORT_TOKENS, on_begin=lambda: None):
        """One stream to its end; notes how it ended."""
        request = asks.endless(text=asks.text(PROMPT), max_tokens=n_tokens)
        stub = stubs.GenerationStub(worker.channel)
        text, is_whole, has_begun = "", False, False
        try:
            for part in stub.StreamGenerate(request, timeout=CALL_SECONDS):
                if not has_begun:
                    on_begin()
                has_begun = True
                text += part.text
                is_whole = part.HasField("finish")
        except ValueError:  # the channel to a pod that is gone is closed
            with self.lock:
                if worker.address not in self.may_lose:
                    self.refused.append(f"{worker.name}: it is gone")
            return
        except grpc.RpcError as error:
            with self.lock:
                if worker.address in self.may_lose:
                    return
                if worker.drain_ends and time.monotonic() >= worker.drain_ends:
                    self.n_overdue += 1
                    return
                list_of = self.lost if has_begun else self.refused
                list_of.append(f"{worker.name}: {error.code()} {error.details()}")
            return
        with self.lock:
            expected = self.expected.setdefault(n_tokens, text)
            if is_whole and text == expected:
                self.n_whole += 1
            else:
                self.lost.append(f"{worker.name}: another text: {text!r}")

    def start(self):
        """Times a stream alone, so as to know what a long one is; then begins."""
        begin = time.monotonic()
        self.stream(self.ready_pods()[0])
        rate = SHORT_TOKENS / (time.monotonic() - begin)
        self.long_tokens = min(int(rate * LONG_SECONDS), MOST_TOKENS)
        super().start()

    def check(self, what):
        """Fails if anything was lost so far."""
        with self.lock:
            assert not self.lost, f"{what} lost streams: {self.lost}"
            assert not self.refused, f"{what}: calls were refused: {self.refused}"


def long_stream(clients, worker):
    """A stream that has begun and outlives the preStop hook; its thread."""
    begun = threading.Event()
    thread = threading.Thread(
        target=clients.stream, args=(worker, clients.long_tokens, begun.set)
    )
    thread.start()
    assert begun.wait(CALL_SECONDS), "the long stream did not begin"
    return thread


def check_plans(cluster):
    """Leases and workers' plans are the manifest's to the byte."""
    planner = stubs.PlannerStub(cluster.planner.channel)
    leases = planner.ListLeases(stubs.planner.ListLeasesRequest()).leases
    wanted = [cluster.plan_bytes()] * len(cluster.workers)
    assert [lease.bytes for lease in leases] == wanted, leases
    for worker in cluster.workers.values():
        models = stubs.ModelStub(worker.channel)
        memory = models.GetMemory(stubs.model.GetMemoryRequest())
        assert memory.plan.total_bytes == cluster.plan_bytes(), memory


def roll_workers(cluster, clients, report):
    """Replaces each worker, the last one first."""
    drains, readies = [], []
    for ordinal in sorted(cluster.workers, reverse=True):
        long = long_stream(clients, cluster.workers[ordinal])
        old = cluster.take(ordinal)
        drains.append(old.delete())
        long.join()
        readies.append(cluster.start_worker(ordinal).await_ready(READY_SECONDS))
        clients.check(f"replacing {old.name}")
    report["seconds from SIGTERM to the end"] = drains
    report["seconds from a new pod to ready"] = readies


def roll_gateways(cluster, http_clients, report):
    """Replaces each gateway, as a Deployment does."""
    drains = []
    for old in list(cluster.gateways):
        cluster.start_gateway().await_ready(READY_SECONDS)
        drains.append(cluster.take_gateway(old).delete())
        http_clients.check(f"replacing {old.name}")
    report["seconds from SIGTERM to a gateway's end"] = drains


def replace_planner(cluster, clients, report):
    """As the strategy Recreate: the old one ends first."""
    start = time.monotonic()
    cluster.planner.delete()
    time.sleep(LAG_SECONDS)
    clients.check("a planner that is away")
    cluster.start_planner()
    cluster.planner.await_ready(READY_SECONDS)
    report["seconds without a planner"] = [time.monotonic() - start]


def crash_worker(cluster, clients, report):
    """Kills a worker. Its streams are lost; its bytes must come back."""
    killed = cluster.take(0)
    with clients.lock:
        clients.may_lose.add(killed.address)
    killed.kill()
    again = cluster.start_worker(0, killed.state)
    report["seconds from a kill to ready"] = [again.await_ready(READY_SECONDS)]


def start_gateways(cluster, report):
    n_gateways = cluster.gateway["spec"]["replicas"]
    first = [cluster.start_gateway() for _ in range(n_gateways)]
    report["seconds until the first gateways are ready"] = [
        gateway.await_ready(READY_SECONDS) for gateway in first
    ]


def rehearse(cluster, clients, http_clients):
    """The whole play; returns what was measured."""
    report = {}
    cluster.start_planner()
    n_workers = cluster.worker["spec"]["replicas"]
    first = [cluster.start_worker(ordinal) for ordinal in range(n_workers)]
    report["seconds until the first pods are ready"] = [
        worker.await_ready(READY_SECONDS) for worker in first
    ]
    check_plans(cluster)
    start_gateways(cluster, report)
    clients.start()
    http_clients.start()
    roll_workers(cluster, clients, report)
    http_clients.check("replacing workers")
    check_plans(cluster)
    roll_gateways(cluster, http_clients, report)
    replace_planner(cluster, clients, report)
    http_clients.check("a planner that is away")
    with http_clients.lock:
        http_clients.may_break = True
    crash_worker(cluster, clients, report)
    clients.stop()
    http_clients.stop()
    clients.check("the rehearsal")
    http_clients.check("the rehearsal")
    check_plans(cluster)
    for gateway in list(cluster.gateways):
        cluster.take_gateway(gateway).delete()
    for ordinal in sorted(cluster.workers):
        cluster.take(ordinal).delete()
    leases = stubs.PlannerStub(cluster.planner.channel).ListLeases(
        stubs.planner.ListLeasesRequest()
    )
    assert not leases.leases, f"leases were not released: {leases}"
    return report


def print_report(cluster, clients, http_clients, report):
    container = cluster.worker["spec"]["template"]["spec"]["containers"][0]
    limit_bytes = pod_settings.bytes_of(container["resources"]["limits"]["memory"])
    for what, values in report.items():
        print(f"{what}: " + ", ".join(f"{value:.1f}" for value in values))
    peaks = [peak for peak in cluster.peaks if peak is not None]
    if peaks:
        print(f"memory of a pod: at most {max(peaks):,} of {limit_bytes:,} bytes")
    else:
        print("memory of a pod: not limited, as no cgroup can be made here")
    print(
        f"{clients.n_whole} streams whole, and {http_clients.n_whole} over HTTP, none "
        f"refused, none lost; {clients.n_overdue} outlived the drain, and "
        f"{http_clients.n_broken} over HTTP had a worker that was killed"
    )


def main():
    reason = skip_reason()
    if reason:
        print(f"SKIPPED: {reason}")
        return
    if "PLIMSOLL_REHEARSAL" not in os.environ:
        enter_network()
    objects = json.loads(pathlib.Path(sys.argv[1]).read_text())
    binaries, models = (pathlib.Path(path).resolve() for path in sys.argv[2:4])
    pod.make_bridge()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.chmod(folder, 0o755)
        cluster = Cluster(objects, binaries, models, folder)
        stack.callback(cluster.close)
        clients = Clients(cluster)
        stack.callback(clients.stop)
        http_clients = HttpClients(cluster.ready_gateways)
        stack.callback(http_clients.stop)
        try:
            report = rehearse(cluster, clients, http_clients)
        except BaseException:
            sys.stderr.write((folder / "pods.log").read_text(errors="replace"))
            raise
        print_report(cluster, clients, http_clients, report)


if __name__ == "__main__":
    if "PLIMSOLL_REHEARSAL" in os.environ or not skip_reason():
        import asks
        import grpc
        import pod
        import pod_settings
        import stubs
    main()
