"""Quotas of Kueue: valid, and in the bytes of plans.

Usage: kueue_test.py [-v]   with the Python of .ci/requirements.txt
"""

import pathlib
import tempfile
import unittest

import render
import yaml
from overlays import TOOLS_DIR, run
from pod_settings import bytes_of

CRDS_DIR = render.SOURCE_DIR.parent / "shared" / "suites" / "crds"
QUEUES_DIR = render.OVERLAYS_DIR.parent / "kueue"
GROUP = "kueue.x-k8s.io"
QUEUE_LABEL = f"{GROUP}/queue-name"
QUEUED_WORKERS = 16  # as the comment at the quota says


def objects_of(text):
    """The objects of rendered YAML, by kind and name."""
    found = yaml.safe_load_all(text)
    return {(o["kind"], o["metadata"]["name"]): o for o in found}


class KueueTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.queues = objects_of(render.build(QUEUES_DIR))
        cls.workers = objects_of(
            render.render_with("overlays/kind-cpu", components=["kueue"])
        )

    @unittest.skipUnless(CRDS_DIR.is_dir(), "there are no schemas of custom resources")
    def test_they_follow_their_schemas(self):
        n_checked = 0
        for item in [*self.queues.values(), *self.workers.values()]:
            group, _, version = item["apiVersion"].rpartition("/")
            if group != GROUP:
                continue
            schema = CRDS_DIR / f"{group}_{item['kind'].lower()}_{version}.json"
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "object.yaml")
                file.write_text(yaml.safe_dump(item))
                tool = TOOLS_DIR / "check-jsonschema"
                code, said = run(tool, "--schemafile", schema, file)
            self.assertEqual(code, 0, said)
            n_checked += 1
        self.assertEqual(n_checked, 3)

    def test_workers_stand_in_a_queue_that_takes_their_namespace(self):
        workers = self.workers["StatefulSet", "plimsoll-worker"]
        local = self.workers["LocalQueue", workers["metadata"]["labels"][QUEUE_LABEL]]
        self.assertEqual(
            local["metadata"]["namespace"], workers["metadata"]["namespace"]
        )
        cluster = self.queues["ClusterQueue", local["spec"]["clusterQueue"]]
        taken = cluster["spec"]["namespaceSelector"]["matchLabels"]
        self.assertEqual(
            taken["kubernetes.io/metadata.name"], local["metadata"]["namespace"]
        )

    def test_the_planner_waits_in_no_queue(self):
        planner = self.workers["Deployment", "plimsoll-planner"]
        self.assertNotIn(QUEUE_LABEL, planner["metadata"].get("labels", {}))

    def test_the_quota_is_so_many_workers_by_the_bytes_of_their_plan(self):
        (group,) = self.queues["ClusterQueue", "plimsoll"]["spec"]["resourceGroups"]
        (flavor,) = group["flavors"]
        self.assertIn(("ResourceFlavor", flavor["name"]), self.queues)
        quotas = {r["name"]: r["nominalQuota"] for r in flavor["resources"]}
        self.assertEqual(sorted(quotas), sorted(group["coveredResources"]))
        workers = self.workers["StatefulSet", "plimsoll-worker"]
        (container,) = workers["spec"]["template"]["spec"]["containers"]
        asked = container["resources"]["requests"]
        # A resource that is asked for and not covered keeps a pod out for ever.
        self.assertEqual(sorted(asked), sorted(quotas))
        self.assertEqual(
            bytes_of(quotas["memory"]), QUEUED_WORKERS * bytes_of(asked["memory"])
        )
        self.assertEqual(int(quotas["cpu"]), QUEUED_WORKERS * int(asked["cpu"]))


if __name__ == "__main__":
    unittest.main()
