"""Runs a container of a manifest as a kubelet does, on this machine.

A pod has its own network, host name, process numbers and read-only root, the
manifest's user and memory limit, no capabilities, and the volumes that it is
given. Needs root, and to be in a network namespace of its own.
"""

import contextlib
import http.client
import ipaddress
import os
import pathlib
import shlex
import socket
import subprocess
import tempfile
import threading
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import pod_settings

SUBNET = ipaddress.ip_network("10.93.0.0/24")
BRIDGE = "pods"
# What a pod's root has of this machine's.
SYSTEM_FOLDERS = ("usr", "bin", "lib", "lib64", "etc", "sys")
# It waits for its network, then becomes the container's process.
SETUP = """
set -eu
hostname "$NAME"
mount -t tmpfs -o mode=755 pod "$ROOT"
cd "$ROOT"
for folder in $SYSTEM_FOLDERS; do
  if [ -L "/$folder" ]; then
    ln -s "$(readlink "/$folder")" "$folder"
  elif [ -d "/$folder" ]; then
    mkdir "$folder" && mount --rbind "/$folder" "$folder"
    mount -o remount,bind,ro "$folder"
  fi
done
mkdir -p opt/bin proc dev
mount --bind "$BIN" opt/bin
mount -t proc proc proc
touch dev/null && mount --bind /dev/null dev/null
mount --bind "$HOSTS" etc/hosts
for volume in $VOLUMES; do
  from=${volume%%=*} to=.${volume#*=}
  mkdir -p "$to" && mount --bind "$from" "$to"
done
mount -o remount,ro "$ROOT"
echo set up
read -r go
if [ -n "$CGROUP" ]; then echo 0 >"$CGROUP/cgroup.procs"; fi
exec chroot . setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups \
  --no-new-privs --bounding-set=-all --inh-caps=-all \
  env -i PATH=/opt/bin:/usr/bin "$@" </dev/null
"""


def run(*command):
    """Runs a command that must succeed."""
    subprocess.run([str(word) for word in command], check=True)


def make_bridge():
    """Makes the network that all pods are on; we are its first host."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{SUBNET[1]}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


class MemoryCgroup:
    """A cgroup with a limit, of version 1 or 2; none where we may make none."""

    def __init__(self, name, limit_bytes):
        self.folder = None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            is_v2 = controllers == ""
            if not is_v2 and "memory" not in controllers.split(","):
                continue
            mount = pathlib.Path("/sys/fs/cgroup", "" if is_v2 else "memory")
            parent = mount / path.lstrip("/")
            limit = "memory.max" if is_v2 else "memory.limit_in_bytes"
            # The root cgroup has no such file; it has no limit either.
            if is_v2 and not (parent / "cgroup.controllers").is_file():
                continue
            self.peak_file = "memory.peak" if is_v2 else "memory.max_usage_in_bytes"
            try:
                self.folder = parent / f"plimsoll-{os.getpid()}-{name}"
                self.folder.mkdir()
                (self.folder / limit).write_text(str(limit_bytes))
                return
            except OSError:
                self.close()

    def peak_bytes(self):
        """The most that was used, page cache included; None if unknown."""
        file = self.folder and self.folder / self.peak_file
        return int(file.read_text()) if file and file.is_file() else None

    def oom_kills(self):
        """How often the kernel killed a process for its memory."""
        for name in ("memory.events", "memory.oom_control"):
            file = self.folder and self.folder / name
            if file and file.is_file():
                words = dict(line.split() for line in file.read_text().splitlines())
                return int(words["oom_kill"])
        return 0

    def close(self):
        if self.folder is not None and self.folder.is_dir():
            self.folder.rmdir()
        self.folder = None


class Pod:
    """One container of a pod's manifest, with what its kubelet does to it."""

    def __init__(
        self, name, template, address, *, hosts, volumes, binaries, drain_seconds, log
    ):
        self.name = name
        self.address = address
        self.spec = template["spec"]
        self.container = self.spec["containers"][0]
        limit = self.container["resources"]["limits"]["memory"]
        self.limit_bytes = pod_settings.bytes_of(limit)
        self.cgroup = MemoryCgroup(name, self.limit_bytes)
        self.is_ready = False
        self.failure = None  # why its container had to be killed
        self.drain_seconds = drain_seconds
        self.drain_ends = None  # when it may end the calls that are left
        self.log = log
        self._start(hosts, volumes, binaries)
        self.port = self.container["ports"][0]["containerPort"]
        self.channel = grpc.insecure_channel(f"{address}:{self.port}")
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self._is_ending = threading.Event()
        self._kubelet = threading.Thread(target=self._probe_for_ever, daemon=True)
        self._kubelet.start()

    def _start(self, hosts, volumes, binaries):
        self.root = tempfile.mkdtemp(prefix="pod-")
        words = [f"{v['name']}={v['value']}" for v in self.container.get("env", [])]
        words += self.container["command"] + self.container.get("args", [])
        environment = {
            **os.environ,
            "NAME": self.name,
            "ROOT": self.root,
            "BIN": str(binaries),
            "HOSTS": str(hosts),
            "VOLUMES": " ".join(f"{at}={to}" for to, at in volumes.items()),
            "SYSTEM_FOLDERS": " ".join(SYSTEM_FOLDERS),
            "CGROUP": str(self.cgroup.folder or ""),
            "USER_ID": str(self.spec["securityContext"]["runAsUser"]),
        }
        unshare = "unshare --net --uts --mount --propagation private --pid --fork"
        self.process = subprocess.Popen(
            [*shlex.split(unshare), "sh", "-c", SETUP, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
        )
        line = self.process.stdout.readline()
        assert line == b"set up\n", f"{self.name} says {line!r}"
        number, at = self.address.packed[-1], self.process.pid
        # An address keeps its hardware address, so that no neighbour's table is
        # out of date when another pod has it.
        run(
            *("ip", "link", "add", f"veth{number}", "type", "veth", "peer", "eth0"),
            *("address", f"02:00:00:00:00:{number:02x}", "netns", at),
        )
        run("ip", "link", "set", f"veth{number}", "master", BRIDGE, "up")
        inside = ("nsenter", "-t", at, "-n", "ip")
        run(*inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def _passes(self, probe):
        """Whether a probe of the manifest passes."""
        seconds = probe.get("timeoutSeconds", 1)
        try:
            if "grpc" in probe:
                return self._says_serving(probe["grpc"]["service"], seconds)
            if "httpGet" in probe:
                return self._says_ok(probe["httpGet"]["path"], seconds)
            socket.create_connection((str(self.address), self.port), seconds).close()
            return True
        except (OSError, grpc.RpcError, http.client.HTTPException):
            return False

    def _says_serving(self, service, seconds):
        """A probe by the health protocol of gRPC."""
        request = health_pb2.HealthCheckRequest(service=service)
        reply = self.health.Check(request, timeout=seconds)
        return reply.status == health_pb2.HealthCheckResponse.SERVING

    def _says_ok(self, path, seconds):
        connection = http.client.HTTPConnection(str(self.address), self.port, seconds)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().status < 400

    def _has_started(self, probe):
        """Waits until the startup probe passes; False if it does not, or if the pod ends."""
        for _ in range(probe["failureThreshold"]):
            if self._passes(probe):
                return True
            if self._is_ending.wait(probe["periodSeconds"]):
                return False
        self.failure = "the startup probe failed"
        return False

    def _probe_for_ever(self):
        startup = self.container.get("startupProbe")
        if startup and not self._has_started(startup):
            return
        failures = {"readinessProbe": 0, "livenessProbe": 0}
        due = dict.fromkeys(failures, 0.0)
        while not self._is_ending.wait(0.1):
            for name in failures:
                probe = self.container[name]
                if time.monotonic() < due[name]:
                    continue
                due[name] = time.monotonic() + probe["periodSeconds"]
                has_passed = self._passes(probe)
                failures[name] = 0 if has_passed else failures[name] + 1
                has_failed = failures[name] >= probe.get("failureThreshold", 3)
                if name == "readinessProbe":
                    self.is_ready = has_passed or self.is_ready and not has_failed
                elif has_failed:
                    self.failure = "the liveness probe failed"
                    return

    def pid(self):
        """The number of its process here."""
        at = self.process.pid
        children = pathlib.Path(f"/proc/{at}/task/{at}/children").read_text()
        return int(children.split()[0])

    def await_ready(self, seconds):
        """Waits until it is ready; returns the seconds that it took."""
        start = time.monotonic()
        while not self.is_ready:
            assert self.process.poll() is None, f"{self.name} has ended"
            assert self.failure is None, f"{self.name}: {self.failure}"
            took = time.monotonic() - start
            assert took < seconds, f"{self.name} was not ready in {seconds} s"
            time.sleep(0.05)
        return time.monotonic() - start

    def check(self):
        """Fails if the kernel or its kubelet had to kill it."""
        assert self.cgroup.oom_kills() == 0
        assert self.failure is None, self.failure

    def delete(self):
        """Ends it as a kubelet does: preStop, SIGTERM, the rest of the grace period.

        Returns the seconds that it took after SIGTERM. Fails if it had to be
        killed or ended with an error.
        """
        start = time.monotonic()
        grace = self.spec["terminationGracePeriodSeconds"]
        hook = self.container.get("lifecycle", {}).get("preStop")
        if hook:
            time.sleep(hook["sleep"]["seconds"])
        signalled = time.monotonic()
        self.drain_ends = signalled + self.drain_seconds
        os.kill(self.pid(), 15)
        try:
            code = self.process.wait(grace - (signalled - start))
        except subprocess.TimeoutExpired:
            self.close()
            raise AssertionError(f"{self.name} outlived its grace period") from None
        took = time.monotonic() - signalled
        self.close()
        assert code == 0, f"{self.name} ended with {code}"
        return took

    def kill(self):
        """Ends it with SIGKILL, as the kernel does for lack of memory."""
        self.close()

    def close(self):
        """Ends it, if it still runs, and frees what it had."""
        self._is_ending.set()
        self.is_ready = False
        if self.process.poll() is None:
            os.kill(self.pid(), 9)
            self.process.wait()
        self._kubelet.join()
        self.channel.close()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()
        self.cgroup.close()
        os.rmdir(self.root)
