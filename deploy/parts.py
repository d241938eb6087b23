"""Lists the parts of a package of ours, for scanners of weaknesses (CycloneDX).

Usage: parts.py FILE VERSION PROGRAM...
       parts.py FILE VERSION --installed STATUS

The first form lists the Debian packages whose code is compiled in, and those of
the libraries that the programs need of the system. The second form is for an
image: it lists all packages that STATUS, a file of dpkg, says are installed
there, beside those whose code is compiled in.
"""

import json
import pathlib
import platform
import sys
import urllib.parse

import licences
from system import libraries_of, package_of, version_of

COMPILED_IN = "compiled in"
BROUGHT_ALONG = "brought along"
OF_THE_SYSTEM = "of the system"


def installed_packages(status):
    """The versions of the packages that a status file of dpkg says are installed."""
    versions = {}
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        if fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields["Version"]
    return versions


def component(package, version, kind):
    """What the list says of one package; `kind` says how its code is there."""
    address = "@".join(urllib.parse.quote(word, safe="") for word in (package, version))
    return {
        "type": "library",
        "name": package,
        "version": version,
        "purl": f"pkg:deb/debian/{address}",
        "properties": [{"name": "plimsoll:code", "value": kind}],
    }


def parts_of(name, version, packages):
    """The list; `packages` has triples of a name, a version and how it is there."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": name, "version": version}
        },
        "components": [component(*package) for package in sorted(packages)],
    }


def compiled_in():
    """The packages whose code is in our programs, as triples."""
    names = {package_of(path) for path in licences.COMPILED_IN}
    return [(name, version_of(name), COMPILED_IN) for name in names]


def needed(libraries, kind):
    """The packages of libraries, as triples."""
    names = {package_of(path) for path in libraries}
    return [(name, version_of(name), kind) for name in names]


def write(path, name, version, packages):
    """Writes the list of parts into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(parts_of(name, version, packages), indent=1) + "\n")


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    path, version, *rest = sys.argv[1:]
    if rest[0] == "--installed":
        found = installed_packages(pathlib.Path(rest[1]).read_text(encoding="utf-8"))
        packages = [(*item, OF_THE_SYSTEM) for item in found.items()]
        name = f"plimsoll-image-{platform.machine()}"
    else:
        packages = needed(libraries_of(rest).values(), OF_THE_SYSTEM)
        name = "plimsoll"
    write(pathlib.Path(path), name, version, compiled_in() + packages)


if __name__ == "__main__":
    main()
