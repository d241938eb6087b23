"""The components of deploy/k8s fit together: certificates, pools, scaling.

Usage: components_test.py [-v]   with the Python of .ci/requirements.txt
"""

import re
import unittest

import overlays
import render
import yaml
from overlays import of_kind, server, settings_of

METRICS = re.compile(r"(?:plimsoll_|vllm:)[a-z_]+")
# What kustomize adds to the name of what is in a ConfigMap.
HASH = r"-[a-z0-9]{10}"


def metrics_of_workers():
    """The names in the table of docs/metrics.md, which a test keeps to the code."""
    text = (render.SOURCE_DIR / "docs" / "metrics.md").read_text()
    table = text.split("<!-- worker metrics -->")[1].split("<!-- end")[0]
    return set(METRICS.findall(table))


class SettingsTest(unittest.TestCase):
    """Settings are in ConfigMaps."""

    def render_with(self, files):
        """kind-cpu with these files, as an overlay of somebody else's has it."""
        generators = [
            {
                "name": f"plimsoll-{name.removesuffix('.toml')}",
                "namespace": "plimsoll",
                "behavior": "merge",
                "files": [name],
            }
            for name in files
        ]
        text = render.render_with(
            "overlays/kind-cpu", files=files, generators=generators
        )
        objects = yaml.safe_load_all(text)
        return {(o["kind"], o["metadata"]["name"]): o for o in objects}

    def test_a_changed_setting_replaces_the_pods_that_it_is_of(self):
        workers = ("StatefulSet", "plimsoll-worker")
        planner = ("Deployment", "plimsoll-planner")
        before = self.render_with({})
        text = (render.SOURCE_DIR / "deploy/k8s/base/worker.toml").read_text()
        after = self.render_with({"worker.toml": text + "log-requests = true\n"})
        self.assertEqual(before[planner], after[planner])
        self.assertNotEqual(before[workers], after[workers])
        volumes = overlays.pod_spec(after[workers])["volumes"]
        (name,) = [v["configMap"]["name"] for v in volumes if v["name"] == "config"]
        self.assertRegex(name, f"^plimsoll-worker{HASH}$")
        data = after["ConfigMap", name]["data"]
        self.assertIn("log-requests = true", data["worker.toml"])


class TlsTest(unittest.TestCase):
    """Certificates have the names that are called, and lie where they are read."""

    overlay = "kind-tls"

    def test_every_server_speaks_tls_and_asks_who_calls(self):
        controllers = overlays.servers(self.overlay)
        self.assertEqual(len(controllers), 2)
        for controller in controllers:
            told = settings_of(self.overlay, controller)
            self.assertEqual(told["insecure"], "false")
            for key in ("tls-cert", "tls-key", "tls-client-ca", "tokens"):
                self.assertIn(key, told)

    def test_files_of_settings_are_keys_of_mounted_secrets(self):
        certificates = of_kind(self.overlay, "Certificate")
        secrets = {
            c["spec"]["secretName"]: {"tls.crt", "tls.key", "ca.crt"}
            for c in certificates.values()
        }
        secrets["plimsoll-tokens"] = {"tokens.json", "worker.token"}
        for controller in overlays.servers(self.overlay):
            told = settings_of(self.overlay, controller)
            mounts = {
                m["mountPath"]: m["name"] for m in server(controller)["volumeMounts"]
            }
            volumes = {v["name"]: v for v in overlays.pod_spec(controller)["volumes"]}
            n_files = 0
            for key, path in told.items():
                if not re.match("/(tls|tokens)/", path):
                    continue
                folder, _, name = path.rpartition("/")
                secret = volumes[mounts[folder]]["secret"]
                names = {item["path"] for item in secret.get("items", [])}
                self.assertIn(name, names or secrets[secret["secretName"]], key)
                n_files += 1
            self.assertGreaterEqual(n_files, 4)

    def test_certificates_have_the_names_that_are_called(self):
        certificates = of_kind(self.overlay, "Certificate")
        for name in of_kind(self.overlay, "Service"):
            names = certificates[name]["spec"]["dnsNames"]
            for wanted in (name, f"{name}.plimsoll.svc", "localhost"):
                self.assertIn(wanted, names)
            self.assertIn("server auth", certificates[name]["spec"]["usages"])
        for controller in overlays.servers(self.overlay):
            told = settings_of(self.overlay, controller)
            if "planner" in told:
                host = told["planner"].partition(":")[0]
                self.assertIn(host, certificates["plimsoll-planner"]["spec"]["dnsNames"])
                own = certificates[controller["metadata"]["name"]]["spec"]
                self.assertIn("client auth", own["usages"])
                self.assertIn("*.plimsoll-worker.plimsoll.svc", own["dnsNames"])

    def test_every_issuer_exists_and_has_its_secret(self):
        issuers = of_kind(self.overlay, "Issuer")
        certificates = of_kind(self.overlay, "Certificate")
        made = {c["spec"]["secretName"] for c in certificates.values()}
        for certificate in certificates.values():
            self.assertIn(certificate["spec"]["issuerRef"]["name"], issuers)
        for issuer in issuers.values():
            if "ca" in issuer["spec"]:
                self.assertIn(issuer["spec"]["ca"]["secretName"], made)


class PoolTest(unittest.TestCase):
    """An InferencePool leads to servers of HTTP, and its picker knows them."""

    overlay = "http-pool"

    def setUp(self):
        self.pool = of_kind(self.overlay, "InferencePool")["plimsoll"]["spec"]
        (self.worker,) = overlays.servers(self.overlay)

    def test_the_pool_has_the_pods_that_serve_http(self):
        labels = self.worker["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(self.pool["selector"]["matchLabels"].items(), labels.items())
        told = settings_of(self.overlay, self.worker)
        ports = [port["number"] for port in self.pool["targetPorts"]]
        self.assertEqual(ports, [overlays.port_of(told["listen"])])

    def test_the_route_leads_to_the_pool_by_names_that_servers_take(self):
        route = of_kind(self.overlay, "HTTPRoute")["plimsoll"]["spec"]
        (backend,) = route["rules"][0]["backendRefs"]
        self.assertEqual((backend["kind"], backend["name"]), ("InferencePool", "plimsoll"))
        told = settings_of(self.overlay, self.worker)
        self.assertEqual(told["allow-host"].split(","), route["hostnames"])

    def test_the_picker_reads_metrics_that_there_are(self):
        service = of_kind(self.overlay, "Service")[self.pool["endpointPickerRef"]["name"]]
        ports = [port["port"] for port in service["spec"]["ports"]]
        self.assertIn(self.pool["endpointPickerRef"]["port"]["number"], ports)
        maps = of_kind(self.overlay, "ConfigMap")
        (data,) = [maps[name]["data"] for name in maps if "picker" in name]
        config = yaml.safe_load(data["picker-config.yaml"])
        plugins = {p["type"]: p.get("parameters", {}) for p in config["plugins"]}
        (engine,) = plugins["core-metrics-extractor"]["engineConfigs"]
        labels = self.worker["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(engine.pop("name"), labels["llm-d.ai/engine-type"])
        self.assertLessEqual(set(engine.values()), metrics_of_workers())
        for reference in config["schedulingProfiles"][0]["plugins"]:
            self.assertIn(reference["pluginRef"], plugins)

    def test_policies_open_the_ports_of_pool_and_picker(self):
        policies = of_kind(self.overlay, "NetworkPolicy")
        for name, port in (("plimsoll-pool", 8080), ("plimsoll-picker", 9002)):
            (rule,) = policies[name]["spec"]["ingress"]
            self.assertEqual(rule["ports"], [{"port": port}])
        (rule,) = policies["plimsoll-worker"]["spec"]["ingress"]
        self.assertEqual(rule["ports"], [{"port": 8080}])

    def test_nothing_is_left_of_a_planner(self):
        for item in overlays.rendered(self.overlay):
            self.assertNotEqual(item["metadata"]["name"], "plimsoll-planner", item)


class KserveTest(unittest.TestCase):
    """KServe's service has the plan of kind-cpu."""

    def test_flags_and_bytes_are_those_of_the_plan(self):
        planned = server(of_kind("kind-cpu", "StatefulSet")["plimsoll-worker"])
        (controller,) = overlays.pods("kserve")
        container = server(controller)
        self.assertEqual(container["name"], "main")
        self.assertLessEqual(set(planned["args"][1:]), set(container["args"]))
        name = planned["args"][0].rpartition("/")[2]
        self.assertEqual(container["args"][0], f"/mnt/models/{name}")
        model = controller["spec"]["model"]["name"]
        self.assertEqual(f"{model}.gguf", name)
        self.assertEqual(container["resources"], planned["resources"])

    def test_it_listens_where_kserve_expects_it(self):
        (controller,) = overlays.pods("kserve")
        told = settings_of("kserve", controller)
        self.assertEqual(overlays.port_of(told["listen"]), 8000)
        for key in ("tls-cert", "tls-key"):
            self.assertTrue(told[key].startswith("/var/run/kserve/tls/"))


class ScalingTest(unittest.TestCase):
    """KEDA scales the workers by numbers that they have."""

    overlay = "autoscaled"

    def test_queries_are_of_metrics_that_there_are(self):
        scaled = of_kind(self.overlay, "ScaledObject")["plimsoll-worker"]["spec"]
        used = set()
        for trigger in scaled["triggers"]:
            metadata = trigger["metadata"]
            # No numbers are no reason to end workers.
            self.assertEqual(metadata["ignoreNullValues"], "false")
            names = set(METRICS.findall(metadata["query"]))
            self.assertTrue(names)
            used |= names
        self.assertLessEqual(used, metrics_of_workers())

    def test_keda_alone_says_how_many(self):
        scaled = of_kind(self.overlay, "ScaledObject")["plimsoll-worker"]["spec"]
        target = scaled["scaleTargetRef"]
        workers = of_kind(self.overlay, target["kind"])[target["name"]]
        self.assertEqual(workers["apiVersion"], target["apiVersion"])
        self.assertNotIn("replicas", workers["spec"])

    def test_one_worker_may_go_while_it_drains(self):
        scaled = of_kind(self.overlay, "ScaledObject")["plimsoll-worker"]["spec"]
        behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        (policy,) = behavior["scaleDown"]["policies"]
        workers = of_kind(self.overlay, "StatefulSet")["plimsoll-worker"]
        grace = overlays.pod_spec(workers)["terminationGracePeriodSeconds"]
        self.assertEqual(policy["value"], 1)
        self.assertGreaterEqual(policy["periodSeconds"], grace)


if __name__ == "__main__":
    unittest.main()
