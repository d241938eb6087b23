"""Renders the overlays of deploy/k8s.

Usage: render.py OVERLAY > FILE.json   the objects as one JSON list
"""

import json
import pathlib
import subprocess
import sys

import yaml

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
OVERLAYS_DIR = SOURCE_DIR / "deploy" / "k8s" / "overlays"
KUBECTL = pathlib.Path(sys.executable).parent / "kubectl"


def overlay_names():
    """The names of all overlays."""
    return sorted(path.name for path in OVERLAYS_DIR.iterdir())


def render_text(overlay):
    """The YAML of an overlay."""
    command = [KUBECTL, "kustomize", OVERLAYS_DIR / overlay]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def render(overlay):
    """The objects of an overlay."""
    return list(yaml.safe_load_all(render_text(overlay)))


if __name__ == "__main__":
    json.dump(render(sys.argv[1]), sys.stdout, indent=1)
