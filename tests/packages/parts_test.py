"""Lists of parts (deploy/parts.py) name every package that is there, and no other.

Usage: parts_test.py BUILD [-v]   after a build of the programs, on a Debian
"""

import json
import pathlib
import sys
import tempfile
import unittest

from installed import BUILD, run

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE_DIR / "deploy"))
import parts  # noqa: E402  (it lies in deploy)

STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u13
Description: GNU C Library
 Version: 1 is no field here.

Package: gone
Status: deinstall ok config-files
Version: 1.0-1

Package: libssl3
Status: hold ok installed
Version: 3.0.17-1~deb12u2
"""


class PartsTest(unittest.TestCase):
    def list_of(self, *arguments):
        """What parts.py writes."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "new", "parts.json")
            script = SOURCE_DIR / "deploy" / "parts.py"
            run(sys.executable, script, path, "1.2.3", *arguments)
            return json.loads(path.read_text())

    def kinds(self, listed):
        """How the code of each package is there, by name."""
        return {
            one["name"]: one["properties"][0]["value"] for one in listed["components"]
        }

    def test_a_status_file_has_what_is_installed(self):
        self.assertEqual(
            parts.installed_packages(STATUS),
            {"libc6": "2.36-9+deb12u13", "libssl3": "3.0.17-1~deb12u2"},
        )

    def test_an_address_has_no_signs_of_its_own(self):
        one = parts.component("libgrpc++1.51", "1.51.1-3+b1", parts.OF_THE_SYSTEM)
        self.assertEqual(one["purl"], "pkg:deb/debian/libgrpc%2B%2B1.51@1.51.1-3%2Bb1")

    def test_programs_have_their_libraries_and_what_is_compiled_in(self):
        listed = self.list_of(BUILD / "bin" / "plimsoll")
        self.assertEqual(listed["metadata"]["component"]["version"], "1.2.3")
        kinds = self.kinds(listed)
        self.assertEqual(len(kinds), len(listed["components"]))
        self.assertEqual(kinds["libcli11-dev"], parts.COMPILED_IN)
        self.assertEqual(kinds["libc6"], parts.OF_THE_SYSTEM)
        self.assertTrue(any(name.startswith("libgrpc") for name in kinds))

    def test_an_image_has_its_packages_and_what_is_compiled_in(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(STATUS)
            file.flush()
            kinds = self.kinds(self.list_of("--installed", file.name))
        system = [name for name in kinds if kinds[name] == parts.OF_THE_SYSTEM]
        self.assertEqual(system, ["libc6", "libssl3"])
        self.assertEqual(kinds["nlohmann-json3-dev"], parts.COMPILED_IN)


if __name__ == "__main__":
    unittest.main()
