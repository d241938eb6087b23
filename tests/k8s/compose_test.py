"""deploy/compose.yaml: valid, locked down, and of one mind with the plan.

Usage: compose_test.py [-v]   with the Python of .ci/requirements.txt; the binaries
are looked for in $PLIMSOLL_BUILD (build/release)
"""

import re
import unittest

import overlays
import render
import pod_settings
import yaml
from overlays import BUILD_DIR, TOOLS_DIR, run

FILE = render.SOURCE_DIR / "deploy" / "compose.yaml"
# The most that the command of a health check takes: `plimsoll leases` took 22 MB.
HEALTH_BYTES = 32 << 20
# What ends a server beside its calls.
END_SECONDS = 10
SERVERS_WITH_MODELS = ("worker", "serve")


class ComposeTest(unittest.TestCase):
    """Each service, without Docker."""

    def setUp(self):
        self.text = FILE.read_text()
        self.compose = yaml.safe_load(self.text)
        self.services = self.compose["services"]

    def each(self):
        for name, service in self.services.items():
            with self.subTest(name):
                yield name, service

    def test_the_schema_of_compose_takes_it(self):
        tool = TOOLS_DIR / "check-jsonschema"
        schema = ("--builtin-schema", "vendor.compose-spec")
        code, said = run(tool, *schema, FILE)
        self.assertEqual(code, 0, said)

    def test_services_are_locked_down(self):
        self.assertEqual(set(self.services), {"planner", "worker", "serve"})
        for _, service in self.each():
            self.assertIs(service["read_only"], True)
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
            self.assertEqual(service["user"], "65532:65532")
            self.assertNotIn("privileged", service)
            # What is swapped out would count as free.
            self.assertEqual(service["memswap_limit"], service["mem_limit"])
            for port in service["ports"]:
                self.assertRegex(port, r"^127\.0\.0\.1:\d+:\d+$")

    def test_programs_take_the_flags(self):
        for _, service in self.each():
            program, *words = service["command"]
            code, said = run(BUILD_DIR / "bin" / program, *words, "--print-config")
            self.assertEqual(code, 0, said)
            self.assertIn(f"[{pod_settings.SECTIONS[program]}]", said)

    def test_health_is_asked_where_the_server_listens(self):
        for _, service in self.each():
            told = pod_settings.flags_of(service["command"])
            port = overlays.port_of(told["listen"])
            self.assertEqual([p.split(":")[2] for p in service["ports"]], [str(port)])
            words = " ".join(service["healthcheck"]["test"])
            self.assertRegex(words, rf"127\.0\.0\.1[:/]{port}\b")

    def test_health_commands_are_commands(self):
        for _, service in self.each():
            kind, program, *words = service["healthcheck"]["test"]
            self.assertEqual(kind, "CMD")
            if program != "plimsoll":
                self.assertEqual((program, words[0]), ("bash", "-c"))
                code, said = run("bash", "-n", "-c", words[1].replace("$$", "$"))
                self.assertEqual(code, 0, said)
                continue
            # Nobody listens there, which is an error of its own (1, not 2).
            code, said = run(BUILD_DIR / "bin" / program, *words)
            self.assertEqual(code, 1, said)

    def test_the_planner_of_the_worker_is_the_planner(self):
        worker = self.services["worker"]
        name, _, port = pod_settings.flags_of(worker["command"])["planner"].partition(":")
        listen = pod_settings.flags_of(self.services[name]["command"])["listen"]
        self.assertEqual(overlays.port_of(listen), int(port))
        self.assertIn(name, worker["depends_on"])

    def test_flags_and_memory_are_those_of_the_plan(self):
        workers = overlays.of_kind("kind-cpu", "StatefulSet")["plimsoll-worker"]
        planned = overlays.server(workers)
        memory = int(planned["resources"]["limits"]["memory"])
        for name in SERVERS_WITH_MODELS:
            with self.subTest(name):
                service = self.services[name]
                self.assertLessEqual(set(planned["args"][1:]), set(service["command"]))
                file = planned["args"][0].rpartition("=")[2]
                self.assertTrue(any(w.endswith(file) for w in service["command"]))
                self.assertEqual(service["mem_limit"], memory + HEALTH_BYTES)
        command = re.search(r"#   (plimsoll plan .* -o k8s)\n", self.text)[1]
        overlay = render.OVERLAYS_DIR / "kind-cpu" / "kustomization.yaml"
        self.assertIn(f"#   {command}\n", overlay.read_text())

    def test_the_planner_has_the_memory_of_its_pod(self):
        pods = overlays.of_kind("kind-cpu", "Deployment")["plimsoll-planner"]
        limit = overlays.server(pods)["resources"]["limits"]["memory"]
        self.assertEqual(
            self.services["planner"]["mem_limit"], pod_settings.bytes_of(limit)
        )

    def test_the_grace_period_fits_the_drain(self):
        for _, service in self.each():
            drain = pod_settings.flags_of(service["command"])["drain-timeout"]
            self.assertEqual(service["stop_grace_period"], f"{int(drain) + END_SECONDS}s")

    def test_every_volume_exists(self):
        for name, service in self.each():
            for volume in service["volumes"]:
                if isinstance(volume, str):
                    self.assertIn(volume.split(":")[0], self.compose["volumes"])
                else:
                    self.assertIs(volume["read_only"], True)
            folder = service["environment"]["XDG_STATE_HOME"]
            self.assertIn(f"{name}:{folder}", service["volumes"])


if __name__ == "__main__":
    unittest.main()
