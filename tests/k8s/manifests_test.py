"""The manifests of deploy/k8s: valid, safe, and of one mind with the plans.

Usage: manifests_test.py [-v]   with the Python of .ci/requirements.txt; the
binaries are looked for in $PLIMSOLL_BUILD (build/release)
"""

import functools
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import render

BUILD_DIR = pathlib.Path(
    os.environ.get("PLIMSOLL_BUILD", render.SOURCE_DIR / "build" / "release")
)
CRDS_DIR = render.SOURCE_DIR.parent / "shared" / "suites" / "crds"
CACHE_DIR = pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
)
KUBERNETES = "1.37"
TOOLS_DIR = pathlib.Path(sys.executable).parent
# What ends a worker beside its calls: see base/worker.yaml.
END_SECONDS = 10
CUSTOM_GROUPS = ("gateway.networking.k8s.io", "monitoring.coreos.com")
WITHOUT_NAMESPACE = ("Namespace",)

rendered = functools.lru_cache(maxsize=None)(render.render)


def pods(overlay):
    """The controllers of an overlay that have pods."""
    kinds = ("Deployment", "StatefulSet")
    return [o for o in rendered(overlay) if o["kind"] in kinds]


def containers(controller):
    """All containers of a controller's pods, with those that run first."""
    spec = controller["spec"]["template"]["spec"]
    return spec.get("initContainers", []) + spec["containers"]


def flag(container, name):
    """The value of a flag of the container's command; None without it."""
    for word in container["command"] + container.get("args", []):
        if word.startswith(f"{name}="):
            return word.split("=", 1)[1]
    return None


def run(*command, **options):
    """Runs a command; returns its code and all that it says."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


class OverlayTest(unittest.TestCase):
    """Every promise holds in every overlay."""

    def each(self):
        for overlay in render.overlay_names():
            with self.subTest(overlay):
                yield overlay

    def each_pod(self):
        for overlay in self.each():
            for controller in pods(overlay):
                yield controller

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
            spec = controller["spec"]["template"]["spec"]
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
            for volume in spec["volumes"]:
                self.assertNotIn("hostPath", volume)

    def test_every_mount_has_its_volume(self):
        for controller in self.each_pod():
            volumes = controller["spec"]["template"]["spec"]["volumes"]
            claims = controller["spec"].get("volumeClaimTemplates", [])
            names = {v["name"] for v in volumes}
            names |= {c["metadata"]["name"] for c in claims}
            for container in containers(controller):
                for mount in container["volumeMounts"]:
                    self.assertIn(mount["name"], names)

    def test_every_account_exists_and_has_no_token(self):
        for overlay in self.each():
            accounts = {
                o["metadata"]["name"]: o
                for o in rendered(overlay)
                if o["kind"] == "ServiceAccount"
            }
            for controller in pods(overlay):
                name = controller["spec"]["template"]["spec"]["serviceAccountName"]
                self.assertFalse(accounts[name]["automountServiceAccountToken"])

    def test_memory_is_asked_for_as_it_is_limited(self):
        for controller in self.each_pod():
            for container in containers(controller):
                resources = container["resources"]
                self.assertEqual(
                    resources["requests"]["memory"], resources["limits"]["memory"]
                )
                self.assertIn("cpu", resources["requests"])

    def test_probes_ask_named_services_on_the_port_that_is_listened_on(self):
        wanted = {
            "startupProbe": "liveness",
            "livenessProbe": "liveness",
            "readinessProbe": "",
        }
        for controller in self.each_pod():
            for container in controller["spec"]["template"]["spec"]["containers"]:
                port = int(flag(container, "--listen").rpartition(":")[2])
                self.assertEqual(container["ports"][0]["containerPort"], port)
                for probe, service in wanted.items():
                    grpc = container[probe]["grpc"]
                    self.assertEqual(grpc, {"port": port, "service": service})

    def test_metrics_are_scraped_where_they_are_served(self):
        items = rendered("fleet")
        (monitor,) = [o for o in items if o["kind"] == "PodMonitor"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (policy,) = [o for o in items if o["metadata"]["name"] == "plimsoll-metrics"]
        opened = [port["port"] for port in policy["spec"]["ingress"][0]["ports"]]
        self.assertEqual(opened, [endpoint["port"]])
        for controller in pods("fleet"):
            template = controller["spec"]["template"]
            for selector in (monitor["spec"]["selector"], policy["spec"]["podSelector"]):
                wanted = selector["matchLabels"].items()
                self.assertLessEqual(wanted, template["metadata"]["labels"].items())
            container = template["spec"]["containers"][0]
            ports = {p["name"]: p["containerPort"] for p in container["ports"]}
            served = flag(container, "--metrics-listen").rpartition(":")[2]
            self.assertEqual(ports[endpoint["port"]], int(served))

    def test_the_grace_period_fits_the_drain(self):
        for controller in self.each_pod():
            spec = controller["spec"]["template"]["spec"]
            container = spec["containers"][0]
            hook = container.get("lifecycle", {}).get("preStop", {})
            seconds = hook.get("sleep", {}).get("seconds", 0) + END_SECONDS
            seconds += int(flag(container, "--drain-timeout"))
            self.assertEqual(spec["terminationGracePeriodSeconds"], seconds)

    def test_addresses_lead_to_services_that_exist(self):
        for overlay in self.each():
            services = {
                o["metadata"]["name"]: o["spec"]
                for o in rendered(overlay)
                if o["kind"] == "Service"
            }
            for controller in pods(overlay):
                labels = controller["spec"]["template"]["metadata"]["labels"]
                container = controller["spec"]["template"]["spec"]["containers"][0]
                planner = flag(container, "--planner")
                if planner is None:
                    name, port = controller["metadata"]["name"], 7070
                else:
                    name, _, port = planner.partition(":")
                    own = services[controller["spec"]["serviceName"]]
                    self.assertLessEqual(own["selector"].items(), labels.items())
                self.assertEqual(services[name]["ports"][0]["port"], int(port))

    def test_a_claim_of_a_pod_has_a_template_and_a_container(self):
        for overlay in self.each():
            templates = {
                o["metadata"]["name"]
                for o in rendered(overlay)
                if o["kind"] == "ResourceClaimTemplate"
            }
            used = set()
            for controller in pods(overlay):
                spec = controller["spec"]["template"]["spec"]
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
        controller = next(o for o in pods("single-gpu") if o["kind"] == "StatefulSet")
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
        for overlay in render.overlay_names():
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

    def test_the_flags_of_the_manifests_exist(self):
        for overlay in render.overlay_names():
            for controller in pods(overlay):
                container = controller["spec"]["template"]["spec"]["containers"][0]
                program, *words = container["command"] + container.get("args", [])
                _, known = run(BUILD_DIR / "bin" / program, "--help")
                for word in words:
                    name = word.partition("=")[0]
                    self.assertRegex(known, rf"(?m)^  {name}\b")


if __name__ == "__main__":
    unittest.main()
