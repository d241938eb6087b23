"""components/http-gateway with the base: valid, safe, and reachable.

Usage: gateway_test.py [-v]   with the Python of .ci/requirements.txt; the
binaries are looked for in $PLIMSOLL_BUILD (build/release)
"""

import functools
import pathlib
import tempfile
import unittest

import render
from manifests_test import END_SECONDS, KUBERNETES
from overlays import BUILD_DIR, TOOLS_DIR, run
from pod_settings import flags_of

@functools.lru_cache(maxsize=None)
def rendered_text():
    """The base with the component, as YAML."""
    return render.render_with("base", components=["http-gateway"])


def item(kind, name):
    """One object."""
    return next(o for o in render.yaml.safe_load_all(rendered_text())
                if (o["kind"], o["metadata"]["name"]) == (kind, name))


def flag(container, name):
    """The value of a flag of the container's command."""
    return flags_of(container["command"])[name.removeprefix("--")]


class HttpGatewayTest(unittest.TestCase):
    def setUp(self):
        self.deployment = item("Deployment", "plimsoll-gateway")
        self.template = self.deployment["spec"]["template"]
        (self.container,) = self.template["spec"]["containers"]

    def test_kubernetes_takes_it_strictly(self):
        self.check_strictly(rendered_text())

    def check_strictly(self, text):
        """Expects Kubernetes to take all of these objects."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            code, said = run(TOOLS_DIR / "kubernetes-validate", "--strict",
                             "--kubernetes-version", KUBERNETES, file.name)
        self.assertEqual(code, 0, said)

    def test_its_pods_are_restricted(self):
        spec = self.template["spec"]
        self.assertFalse(spec["automountServiceAccountToken"])
        self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(spec["securityContext"]["seccompProfile"],
                         {"type": "RuntimeDefault"})
        context = self.container["securityContext"]
        self.assertIs(context["readOnlyRootFilesystem"], True)
        self.assertIs(context["allowPrivilegeEscalation"], False)
        self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        resources = self.container["resources"]
        self.assertEqual(resources["requests"]["memory"],
                         resources["limits"]["memory"])
        account = item("ServiceAccount", spec["serviceAccountName"])
        self.assertFalse(account["automountServiceAccountToken"])

    def test_its_metrics_are_scraped(self):
        text = render.render_with("base", components=["http-gateway", "monitoring"])
        objects = {(o["kind"], o["metadata"]["name"]): o
                   for o in render.yaml.safe_load_all(text)}
        template = objects["Deployment", "plimsoll-gateway"]["spec"]["template"]
        monitor = objects["PodMonitor", "plimsoll"]["spec"]
        self.assertLessEqual(monitor["selector"]["matchLabels"].items(),
                             template["metadata"]["labels"].items())
        (container,) = template["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        told = {v["name"]: v["value"] for v in container["env"]}
        listens = told["PLIMSOLL_GATEWAY_METRICS_LISTEN"].rpartition(":")[2]
        self.assertEqual(ports[monitor["podMetricsEndpoints"][0]["port"]], int(listens))

    def test_spans_reach_a_collector(self):
        text = render.render_with("base", components=["http-gateway", "tracing"])
        self.check_strictly(text)
        objects = {(o["kind"], o["metadata"]["name"]): o
                   for o in render.yaml.safe_load_all(text)}
        policy = objects["NetworkPolicy", "plimsoll-tracing"]["spec"]
        (port,) = policy["egress"][0]["ports"]
        selected = policy["podSelector"]["matchLabels"].items()
        for kind, name in (("Deployment", "plimsoll-planner"),
                           ("StatefulSet", "plimsoll-worker"),
                           ("Deployment", "plimsoll-gateway")):
            template = objects[kind, name]["spec"]["template"]
            self.assertLessEqual(selected, template["metadata"]["labels"].items())
            (container,) = template["spec"]["containers"]
            told = {v["name"]: v["value"] for v in container["env"]}
            endpoint = told["OTEL_EXPORTER_OTLP_ENDPOINT"]
            self.assertEqual(endpoint.rpartition(":")[2], str(port["port"]))

    def test_it_listens_where_it_is_asked(self):
        (port,) = self.container["ports"]
        listens = int(flag(self.container, "--listen").rpartition(":")[2])
        self.assertEqual(port["containerPort"], listens)
        service = item("Service", "plimsoll-gateway")["spec"]
        self.assertEqual(service["ports"][0]["port"], listens)
        labels = self.template["metadata"]["labels"].items()
        for selector in (service["selector"],
                         item("PodDisruptionBudget", "plimsoll-gateway")
                         ["spec"]["selector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), labels)
        probe = self.container["readinessProbe"]["httpGet"]
        self.assertEqual(probe, {"path": "/health", "port": port["name"]})
        # Clients call it by the names of its service.
        hosts = [word.partition("=")[2] for word in self.container["command"]
                 if word.startswith("--allow-host=")]
        self.assertIn("plimsoll-gateway.plimsoll.svc", hosts)

    def test_it_finds_the_workers_and_may_call_them(self):
        name, _, port = flag(self.container, "--workers").removeprefix(
            "dns:///").partition(":")
        service = item("Service", name)["spec"]
        self.assertEqual(service["clusterIP"], "None")
        self.assertEqual(service["ports"][0]["port"], int(port))
        (goes,) = [rule for rule in
                   item("NetworkPolicy", "plimsoll-http-gateway")["spec"]["egress"]
                   if rule["ports"][0]["port"] == int(port)]
        self.assertLessEqual(goes["to"][0]["podSelector"]["matchLabels"].items(),
                             service["selector"].items())
        comes = item("NetworkPolicy", "plimsoll-worker-from-gateway")["spec"]
        self.assertEqual(comes["podSelector"]["matchLabels"], service["selector"])
        callers = comes["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        self.assertLessEqual(callers.items(),
                             self.template["metadata"]["labels"].items())

    def test_the_grace_period_fits_the_drain(self):
        seconds = self.container["lifecycle"]["preStop"]["sleep"]["seconds"]
        seconds += int(flag(self.container, "--drain-timeout")) + END_SECONDS
        self.assertEqual(self.template["spec"]["terminationGracePeriodSeconds"],
                         seconds)

    def test_its_flags_exist(self):
        program, *words = self.container["command"]
        _, known = run(BUILD_DIR / "bin" / program, "--help")
        for word in words:
            self.assertRegex(known, rf"(?m)^  {word.partition('=')[0]}\b")


if __name__ == "__main__":
    unittest.main()
