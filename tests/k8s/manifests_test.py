"""The manifests of deploy/k8s: valid, safe, and of one mind with the plans.

Usage: manifests_test.py [-v]   with the Python of .ci/requirements.txt; the
binaries are looked for in $PLIMSOLL_BUILD (build/release)
"""

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
import unittest

import overlays
import render
import pod_settings
from overlays import BUILD_DIR, TOOLS_DIR, containers, rendered, run, server, settings_of

sys.path.append(str(render.SOURCE_DIR / "tests" / "e2e" / "faults"))

import http2_bounds  # noqa: E402

CRDS_DIR = render.SOURCE_DIR.parent / "shared" / "suites" / "crds"
CACHE_DIR = pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
)
KUBERNETES = "1.37"
# With 10,000 devices and 100,000 leases (docs/measured/planner_scale.md).
PLANNER_HELD_BYTES = 218 << 20
# What ends a worker beside its calls: see base/worker.yaml.
END_SECONDS = 10
CUSTOM_GROUPS = (
    "cert-manager.io",
    "gateway.networking.k8s.io",
    "inference.networking.k8s.io",
    "keda.sh",
    "monitoring.coreos.com",
    "serving.kserve.io",
)
WITHOUT_NAMESPACE = ("Namespace",)
# It watches pods, so it asks the API server.
WITH_TOKEN = ("plimsoll-picker",)


class OverlayTest(unittest.TestCase):
    """Every promise holds in every overlay."""

    def each(self):
        for overlay in overlays.names():
            with self.subTest(overlay):
                yield overlay

    def each_pod(self):
        for overlay in self.each():
            yield from overlays.pods(overlay)

    def each_server(self):
        for overlay in self.each():
            for controller in overlays.servers(overlay):
                yield overlay, controller

    def test_kubernetes_takes_it_strictly(self):
        with tempfile.TemporaryDirectory() as folder:
            for overlay in self.each():
                file = pathlib.Path(folder, f"{overlay}.yaml")
                file.write_text(render.render_text(overlay))
                code, said = run(
                    TOOLS_DIR / "kubernetes-validate",
                    *("--strict", "--kubernetes-version", KUBERNETES, file),
                )
                self.assertEqual(code, 0, said)
                unknown = re.findall(r"schema for kind \S+ with api version (\S+)/", said)
                self.assertLessEqual(set(unknown), set(CUSTOM_GROUPS), said)

    def test_a_misspelt_field_is_found(self):
        text = render.render_text("kind-cpu").replace("readinessProbe", "readynessProbe")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            tool = TOOLS_DIR / "kubernetes-validate"
            code, _ = run(
                tool, "--strict", "--kubernetes-version", KUBERNETES, file.name
            )
        self.assertNotEqual(code, 0)

    @unittest.skipUnless(CRDS_DIR.is_dir(), "there are no schemas of custom resources")
    def test_custom_resources_follow_their_schemas(self):
        n_checked = 0
        for overlay in self.each():
            for item in rendered(overlay):
                group, _, version = item["apiVersion"].rpartition("/")
                if group not in CUSTOM_GROUPS:
                    continue
                schema = CRDS_DIR / f"{group}_{item['kind'].lower()}_{version}.json"
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    render.yaml.safe_dump(item, file)
                    file.flush()
                    tool = TOOLS_DIR / "check-jsonschema"
                    code, said = run(tool, "--schemafile", schema, file.name)
                self.assertEqual(code, 0, said)
                n_checked += 1
        self.assertGreater(n_checked, 0)

    def test_all_of_it_is_in_one_namespace(self):
        for overlay in self.each():
            for item in rendered(overlay):
                if item["kind"] not in WITHOUT_NAMESPACE:
                    self.assertEqual(item["metadata"].get("namespace"), "plimsoll", item)

    def test_pods_are_restricted(self):
        for controller in self.each_pod():
            spec = overlays.pod_spec(controller)
            if controller["metadata"]["name"] not in WITH_TOKEN:
                self.assertFalse(spec["automountServiceAccountToken"])
            self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
            self.assertGreater(spec["securityContext"]["runAsUser"], 0)
            profile = spec["securityContext"]["seccompProfile"]
            self.assertEqual(profile, {"type": "RuntimeDefault"})
            for container in containers(controller):
                context = container["securityContext"]
                self.assertIs(context["readOnlyRootFilesystem"], True)
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            for volume in spec.get("volumes", []):
                self.assertNotIn("hostPath", volume)

    def test_every_mount_has_its_volume(self):
        for controller in self.each_pod():
            volumes = overlays.pod_spec(controller).get("volumes", [])
            claims = controller["spec"].get("volumeClaimTemplates", [])
            names = {v["name"] for v in volumes}
            names |= {c["metadata"]["name"] for c in claims}
            for container in containers(controller):
                for mount in container.get("volumeMounts", []):
                    self.assertIn(mount["name"], names)

    def test_a_workers_next_process_finds_the_file_of_the_last_one(self):
        n_workers = 0
        for overlay in self.each():
            for controller in overlays.servers(overlay):
                container = server(controller)
                if container["command"][0] != "plimsoll-worker":
                    continue
                n_workers += 1
                path = pathlib.Path(settings_of(overlay, controller)["holder-file"])
                (mount,) = [
                    m
                    for m in container["volumeMounts"]
                    if m["mountPath"] == str(path.parent)
                ]
                self.assertFalse(mount.get("readOnly", False))
                volumes = overlays.pod_spec(controller)["volumes"]
                (volume,) = [v for v in volumes if v["name"] == mount["name"]]
                self.assertIn("emptyDir", volume)
        self.assertGreater(n_workers, 0)

    def test_every_account_exists_and_has_no_token(self):
        for overlay in self.each():
            accounts = overlays.of_kind(overlay, "ServiceAccount")
            for controller in overlays.pods(overlay):
                name = overlays.pod_spec(controller).get("serviceAccountName")
                if name is not None and name not in WITH_TOKEN:
                    self.assertFalse(accounts[name]["automountServiceAccountToken"])

    def test_memory_is_asked_for_as_it_is_limited(self):
        """What loads a model has a higher limit: frames that no honest client sends
        take memory that no plan asks for."""
        for controller in self.each_pod():
            for container in containers(controller):
                resources = container["resources"]
                asked, limit = (pod_settings.bytes_of(resources[kind]["memory"])
                                for kind in ("requests", "limits"))
                is_planned = container["name"] in ("worker", "main")
                more = http2_bounds.MAX_GROWTH_BYTES if is_planned else 0
                self.assertEqual(limit, asked + more, container["name"])
                self.assertIn("cpu", resources["requests"])

    def test_a_planner_has_room_for_what_hostile_frames_may_take(self):
        least = PLANNER_HELD_BYTES + http2_bounds.MAX_GROWTH_BYTES
        n_planners = 0
        for _, controller in self.each_server():
            container = server(controller)
            if container["command"][0] == "plimsoll-planner":
                limit = pod_settings.bytes_of(container["resources"]["limits"]["memory"])
                self.assertGreaterEqual(limit, least)
                n_planners += 1
        self.assertGreater(n_planners, 0)

    def test_probes_ask_where_they_are_answered(self):
        for overlay, controller in self.each_server():
            container = server(controller)
            told = settings_of(overlay, controller)
            port = overlays.port_of(told["listen"])
            self.assertIn(port, [p["containerPort"] for p in container["ports"]])
            has_tls = "tls-cert" in told
            if container["command"][0] == "plimsoll":
                scheme = "HTTPS" if has_tls else "HTTP"
                self.check_http_probes(container, port, scheme, alive="/livez")
            elif has_tls:  # and the kubelet's gRPC probes speak none
                metrics = overlays.port_of(told["metrics-listen"])
                self.check_http_probes(container, metrics, "HTTP", "/livez")
            else:
                self.check_grpc_probes(container, port)

    def check_grpc_probes(self, container, port):
        """Readiness is health "", and the rest is `liveness`."""
        for probe, service in (
            ("startupProbe", "liveness"),
            ("livenessProbe", "liveness"),
            ("readinessProbe", ""),
        ):
            wanted = {"port": port, "service": service}
            self.assertEqual(container[probe]["grpc"], wanted)

    def check_http_probes(self, container, port, scheme, alive):
        """Readiness is /health, and the rest is a path that is always answered."""
        named = {p["name"]: p["containerPort"] for p in container["ports"]}
        for probe, path in (
            ("startupProbe", alive),
            ("livenessProbe", alive),
            ("readinessProbe", "/health"),
        ):
            self.assertNotIn("grpc", container[probe])
            asked = {"scheme": "HTTP", **container[probe]["httpGet"]}
            asked["port"] = named.get(asked["port"], asked["port"])
            wanted = {"port": port, "path": path, "scheme": scheme}
            self.assertEqual(asked, wanted)

    def test_only_the_pod_itself_changes_a_worker(self):
        n_workers = 0
        for overlay, controller in self.each_server():
            container = server(controller)
            if container["command"][0] != "plimsoll-worker":
                continue
            n_workers += 1
            address = settings_of(overlay, controller)["admin-listen"]
            self.assertTrue(address.startswith("127.0.0.1:"), address)
            port = overlays.port_of(address)
            self.assertNotIn(port, [p["containerPort"] for p in container["ports"]])
        self.assertGreater(n_workers, 0)

    def test_metrics_are_scraped_where_they_are_served(self):
        n_scraped = 0
        for overlay in self.each():
            for monitor in overlays.of_kind(overlay, "PodMonitor").values():
                n_scraped += 1
                self.check_monitor(overlay, monitor)
        self.assertGreater(n_scraped, 0)

    def check_monitor(self, overlay, monitor):
        """All servers have the monitor's port and label, and a policy opens it."""
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        policy = overlays.of_kind(overlay, "NetworkPolicy")["plimsoll-metrics"]
        opened = [port["port"] for port in policy["spec"]["ingress"][0]["ports"]]
        self.assertEqual(opened, [endpoint["port"]])
        for controller in overlays.servers(overlay):
            template = controller["spec"]["template"]
            for selector in (monitor["spec"]["selector"], policy["spec"]["podSelector"]):
                wanted = selector["matchLabels"].items()
                self.assertLessEqual(wanted, template["metadata"]["labels"].items())
            served = overlays.port_of(settings_of(overlay, controller)["metrics-listen"])
            port = overlays.port_named(server(controller), endpoint["port"])
            self.assertEqual(port, served)

    def test_the_grace_period_fits_the_drain(self):
        for overlay, controller in self.each_server():
            spec = overlays.pod_spec(controller)
            hook = server(controller).get("lifecycle", {}).get("preStop", {})
            seconds = hook.get("sleep", {}).get("seconds", 0) + END_SECONDS
            seconds += int(settings_of(overlay, controller)["drain-timeout"])
            self.assertEqual(spec["terminationGracePeriodSeconds"], seconds)

    def test_addresses_lead_to_services_that_exist(self):
        for overlay, controller in self.each_server():
            services = overlays.of_kind(overlay, "Service")
            told = settings_of(overlay, controller)
            labels = controller["spec"]["template"]["metadata"]["labels"]
            name = controller["spec"].get("serviceName", controller["metadata"]["name"])
            if name in services:  # KServe makes one by itself
                spec = services[name]["spec"]
                self.assertLessEqual(spec["selector"].items(), labels.items())
                listens = [overlays.port_of(told["listen"])]
                is_planner = controller["metadata"]["name"] == "plimsoll-planner"
                if is_planner:  # it serves leases to other pods
                    listens.append(overlays.port_of(told["admin-listen"]))
                self.assertEqual([p["port"] for p in spec["ports"]], listens)
            if "planner" in told:
                name, _, port = told["planner"].partition(":")
                ports = services[name]["spec"]["ports"]
                self.assertIn(int(port), [p["port"] for p in ports])

    def test_a_claim_of_a_pod_has_a_template_and_a_container(self):
        for overlay in self.each():
            templates = {
                o["metadata"]["name"]
                for o in rendered(overlay)
                if o["kind"] == "ResourceClaimTemplate"
            }
            used = set()
            for controller in overlays.pods(overlay):
                spec = overlays.pod_spec(controller)
                claims = spec.get("resourceClaims", [])
                used |= {claim["resourceClaimTemplateName"] for claim in claims}
                resources = spec["containers"][0]["resources"]
                self.assertEqual(
                    [claim["name"] for claim in claims],
                    [claim["name"] for claim in resources.get("claims", [])],
                )
            self.assertEqual(used, templates)


@unittest.skipUnless(shutil.which("curl"), "there is no curl")
class FetchTest(unittest.TestCase):
    """The init container of components/model-pvc, run in a folder."""

    def fetch(self, folder, url, sha256):
        """Runs its script with the folder as /models; returns its exit code."""
        controller = overlays.of_kind("single-gpu", "StatefulSet")["plimsoll-worker"]
        *shell, script = containers(controller)[0]["command"]
        script = script.replace("/models/", f"{folder}/").replace("--retry 5", "")
        settings = {"MODEL_FILE": "m.gguf", "MODEL_URL": url, "MODEL_SHA256": sha256}
        code, _ = run(*shell, script, env={**os.environ, **settings})
        return code

    def test_it_keeps_the_file_that_was_meant_and_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            source, file = pathlib.Path(folder, "source"), pathlib.Path(folder, "m.gguf")
            source.write_text("a model")
            sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
            self.assertNotEqual(self.fetch(folder, source.as_uri(), "0" * 64), 0)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [source])
            self.assertEqual(self.fetch(folder, source.as_uri(), sha256), 0)
            self.assertEqual(file.read_text(), "a model")
            source.unlink()  # it is there already, so nothing is fetched
            self.assertEqual(self.fetch(folder, source.as_uri(), sha256), 0)


class PlanTest(unittest.TestCase):
    """model.yaml of an overlay is what `plimsoll plan -o k8s` writes."""

    def test_the_overlays_have_the_bytes_of_their_plans(self):
        plimsoll = BUILD_DIR / "bin" / "plimsoll"
        self.assertTrue(plimsoll.is_file(), f"build {plimsoll}")
        n_compared = 0
        for overlay in overlays.names():
            folder = render.OVERLAYS_DIR / overlay
            if not (folder / "model.yaml").is_file():
                continue
            with self.subTest(overlay):
                text = (folder / "kustomization.yaml").read_text()
                words = shlex.split(re.search(r"#   plimsoll (plan .*)\n", text)[1])
                if not (CACHE_DIR / "plimsoll" / "models" / words[1]).is_file():
                    self.skipTest(f"{words[1]}: scripts/fetch_model.sh gets it")
                code, said = run(plimsoll, *words)
                self.assertEqual(code, 0, said)
                if "is the first document" in text:
                    said = said.split("---\n")[0]
                self.assertEqual((folder / "model.yaml").read_text(), said)
                n_compared += 1
        self.assertGreater(n_compared, 0)

    def test_programs_take_the_settings_of_the_manifests(self):
        for overlay in overlays.names():
            for controller in overlays.servers(overlay):
                with self.subTest(overlay, pod=controller["metadata"]["name"]):
                    wanted = settings_of(overlay, controller)
                    said = self.print_config(overlay, controller)
                    read = {key: str(value) for key, value in said.items()}
                    self.assertLessEqual(set(wanted), set(read))
                    for key, value in wanted.items():
                        if not isinstance(said[key], list):
                            self.assertEqual(read[key].lower(), value.lower(), key)

    def print_config(self, overlay, controller):
        """The settings that the program itself says would count."""
        spec, container = overlays.pod_spec(controller), server(controller)
        program = container["command"][0]
        variables = {v["name"]: v["value"] for v in container.get("env", [])}
        words = pod_settings.words_of(container)
        with tempfile.TemporaryDirectory() as folder:
            for i, word in enumerate(words):
                if word.startswith("--config="):
                    path = word.partition("=")[2]
                    file = pathlib.Path(folder, pathlib.Path(path).name)
                    objects = rendered(overlay)
                    file.write_text(pod_settings.mounted_file(objects, spec, container, path))
                    words[i] = f"--config={file}"
            code, said = run(
                BUILD_DIR / "bin" / program, *words, "--print-config", env=variables
            )
        self.assertEqual(code, 0, said)
        return tomllib.loads(said)[pod_settings.SECTIONS[program]]


if __name__ == "__main__":
    unittest.main()
