"""`cmake --install`: everything is there, under a prefix and under DESTDIR, and
the units of systemd are sound and locked down.

Usage: install_test.py BUILD [-v]   after a build of the programs
"""

import os
import pathlib
import re
import tempfile
import unittest

from installed import ANALYZE, PROGRAMS, UNITS, install, run

# systemd's own figure: 0 is locked up, 10 is wide open.
MOST_EXPOSURE = 2.0


class Installed(unittest.TestCase):
    """What a prefix and a root of a package have in common."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="plimsoll-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.top = pathlib.Path(cls.folder.name)

    def check_files(self, prefix, config):
        share = prefix / "share"
        for path in (
            *(prefix / "bin" / f"plimsoll{end}" for end in ("", "-gateway", "-planner", "-worker")),
            *(prefix / "lib/systemd/system" / unit for unit in UNITS),
            prefix / "lib/sysusers.d/plimsoll.conf",
            *(config / "default" / name for name in PROGRAMS),
            share / "plimsoll/devices.csv",
            share / "plimsoll/proto/plimsoll/v1/planner.proto",
            share / "plimsoll/proto/plimsoll/v1/service_config.json",
            share / "doc/plimsoll/LICENSE",
            share / "doc/plimsoll/README.md",
            share / "doc/plimsoll/docs/operating.md",
            share / "doc/plimsoll/examples/gpu.conf",
            share / "bash-completion/completions/plimsoll",
            share / "zsh/site-functions/_plimsoll",
            share / "fish/vendor_completions.d/plimsoll.fish",
        ):
            self.assertTrue(path.is_file(), path)
            self.assertGreater(path.stat().st_size, 0, path)
        self.assertTrue(os.access(prefix / "bin/plimsoll", os.X_OK))

    def check_paths(self, prefix, unit_prefix, unit_config):
        """The units must name files of this installation."""
        for unit in UNITS:
            text = (prefix / "lib/systemd/system" / unit).read_text()
            name = unit.removesuffix(".service")
            self.assertIn(f"ExecStart={unit_prefix}/bin/{name} ", text)
            self.assertIn(f"EnvironmentFile=-{unit_config}/default/{name}\n", text)
            self.assertIn(f"file://{unit_prefix}/share/doc/plimsoll/", text)
            self.assertNotIn("@", text.replace("@system-service", "").replace("@privileged", ""))


class PrefixTest(Installed):
    """`cmake --install BUILD --prefix FOLDER`."""

    def test_a_prefix_has_everything_and_works_where_it_is(self):
        prefix = self.top / "opt"
        install(prefix)
        self.check_files(prefix, prefix / "etc")
        self.check_paths(prefix, prefix, prefix / "etc")
        said = run(prefix / "bin/plimsoll", "devices", "--help")
        self.assertIn("devices", said)
        # The catalogue beside the programs is found.
        names = run(prefix / "bin/plimsoll", "completion", "bash")
        script = prefix / "share/bash-completion/completions/plimsoll"
        self.assertEqual(names, script.read_text())

    def test_a_second_installation_keeps_settings(self):
        prefix = self.top / "again"
        install(prefix)
        setting = prefix / "etc/default/plimsoll-worker"
        setting.write_text("mine")
        install(prefix)
        self.assertEqual(setting.read_text(), "mine")


class DestdirTest(Installed):
    """`DESTDIR=FOLDER cmake --install BUILD --prefix /usr`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        install("/usr", cls.top)

    def test_the_prefix_usr_has_its_settings_in_etc(self):
        self.check_files(self.top / "usr", self.top / "etc")
        self.check_paths(self.top / "usr", "/usr", "/etc")
        self.assertEqual({path.name for path in self.top.iterdir()}, {"usr", "etc"})

    def test_units_allow_as_many_files_as_doctor_asks_for(self):
        doctor = f"ulimit -n 1024; {self.top}/usr/bin/plimsoll doctor || true"
        wanted = re.search(r"LimitNOFILE=\d+", run("sh", "-c", doctor))
        self.assertIsNotNone(wanted)
        for unit in UNITS:
            text = (self.top / "usr/lib/systemd/system" / unit).read_text()
            self.assertIn(f"\n{wanted[0]}\n", text)

    def test_the_units_leave_no_core_dumps(self):
        for unit in UNITS:
            text = (self.top / "usr/lib/systemd/system" / unit).read_text()
            self.assertIn("\nLimitCORE=1\n", text)

    @unittest.skipUnless(ANALYZE, "there is no systemd-analyze")
    def test_systemd_takes_the_units(self):
        for unit in UNITS:
            path = self.top / "usr/lib/systemd/system" / unit
            # Its programs are in the folder, and not below /usr.
            text = path.read_text().replace("=/usr/bin/", f"={self.top}/usr/bin/")
            copy = self.top / unit
            copy.write_text(text)
            self.addCleanup(copy.unlink)
        said = run(ANALYZE, "verify", "--man=no", *(self.top / unit for unit in UNITS))
        self.assertNotRegex(said, r"plimsoll.*:")

    @unittest.skipUnless(ANALYZE, "there is no systemd-analyze")
    def test_the_units_are_locked_down(self):
        for unit in UNITS:
            path = self.top / "usr/lib/systemd/system" / unit
            said = run(ANALYZE, "security", "--offline=true", "--no-pager", path)
            exposure = re.search(r"exposure level for \S+: ([\d.]+)", said)
            self.assertIsNotNone(exposure, said)
            self.assertLessEqual(float(exposure[1]), MOST_EXPOSURE, said)


if __name__ == "__main__":
    unittest.main()
