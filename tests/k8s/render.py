"""Renders the overlays of deploy/k8s.

Usage: render.py OVERLAY [COMPONENT...] > FILE.json   the objects as one JSON list
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
OVERLAYS_DIR = SOURCE_DIR / "deploy" / "k8s" / "overlays"
KUBECTL = pathlib.Path(sys.executable).parent / "kubectl"


def overlay_names():
    """The names of all overlays."""
    return sorted(path.name for path in OVERLAYS_DIR.iterdir())


def build(folder):
    """The YAML of a folder with a kustomization."""
    command = [KUBECTL, "kustomize", folder]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def render_text(overlay):
    """The YAML of an overlay."""
    return build(OVERLAYS_DIR / overlay)


def render_with(resource, *, components=(), files=None, generators=()):
    """The YAML of a folder of deploy/k8s as somebody else's overlay has it.

    `files` has the texts of files beside the overlay, by name; `generators` make
    ConfigMaps of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        top = os.path.relpath(OVERLAYS_DIR.parent, folder)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        own = {
            "resources": [f"{top}/{resource}"],
            "components": [f"{top}/components/{name}" for name in components],
            "configMapGenerator": list(generators),
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(own))
        return build(folder)


def render(overlay):
    """The objects of an overlay."""
    return list(yaml.safe_load_all(render_text(overlay)))


if __name__ == "__main__":
    text = render_with(f"overlays/{sys.argv[1]}", components=sys.argv[2:])
    json.dump(list(yaml.safe_load_all(text)), sys.stdout, indent=1)
