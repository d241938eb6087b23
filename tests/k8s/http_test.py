"""A worker of the overlay http-pool serves its model as its manifest says.

Usage: http_test.py [-v]   with the Python of .ci/requirements.txt; the binaries are
looked for in $PLIMSOLL_BUILD (build/release). Needs the model of kind-cpu
"""

import json
import os
import pathlib
import tempfile
import unittest

import overlays
import yaml
from overlays import of_kind
from program import Program

OVERLAY = "http-pool"
NAME = "plimsoll-worker"
CACHE_DIR = pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
)
MODELS_DIR = CACHE_DIR / "plimsoll" / "models"


class HttpRunTest(unittest.TestCase):
    def setUp(self):
        self.controller = of_kind(OVERLAY, "StatefulSet")[NAME]
        file = overlays.server(self.controller)["args"][0].rpartition("/")[2]
        if not (MODELS_DIR / file).is_file():
            self.skipTest(f"{file}: scripts/fetch_model.sh gets it")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        places = {"/models/": f"{MODELS_DIR}/"}
        self.program = Program(
            OVERLAY, NAME, pathlib.Path(folder.name), places, "--listen=127.0.0.1:0"
        )
        self.addCleanup(self.program.close)
        self.address = self.program.said(r"listening on http://(\S+)")

    def get(self, path, host=None):
        return self.program.get(self.address, path, host)

    def test_it_has_the_plan_the_names_and_the_metrics_of_the_manifests(self):
        self.program.await_probes(self.address)
        metadata = self.controller["spec"]["template"]["metadata"]
        _, status = self.get("/plimsoll/status")
        (device,) = json.loads(status)["devices"]
        planned = metadata["annotations"]["plimsoll.dev/plan-bytes"]
        self.assertEqual(device["planned_bytes"], int(planned))
        route = of_kind(OVERLAY, "HTTPRoute")["plimsoll"]["spec"]
        for host in route["hostnames"]:
            self.assertEqual(self.get("/v1/models", host)[0], 200)
        self.assertEqual(self.get("/v1/models", "other.example.com")[0], 403)
        _, metrics = self.get("/metrics")
        maps = of_kind(OVERLAY, "ConfigMap")
        (data,) = [maps[name]["data"] for name in maps if "picker" in name]
        config = yaml.safe_load(data["picker-config.yaml"])
        plugins = {p["type"]: p.get("parameters", {}) for p in config["plugins"]}
        (engine,) = plugins["core-metrics-extractor"]["engineConfigs"]
        engine.pop("name")
        for metric in engine.values():
            values = [x for x in metrics.splitlines() if x.startswith(f"{metric}{{")]
            self.assertEqual(len(values), 1, metric)


if __name__ == "__main__":
    unittest.main()
