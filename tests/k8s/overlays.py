"""The rendered overlays of deploy/k8s, as tests look at them."""

import functools
import os
import pathlib
import subprocess
import sys

import pod_settings
import render

BUILD_DIR = pathlib.Path(
    os.environ.get("PLIMSOLL_BUILD", render.SOURCE_DIR / "build" / "release")
)
TOOLS_DIR = pathlib.Path(sys.executable).parent
names = render.overlay_names
rendered = functools.lru_cache(maxsize=None)(render.render)


def of_kind(overlay, kind):
    """The objects of an overlay of this kind, by name."""
    return {o["metadata"]["name"]: o for o in rendered(overlay) if o["kind"] == kind}


def pods(overlay):
    """What has pods in an overlay, in the form of a Deployment."""
    found = []
    for item in rendered(overlay):
        if item["kind"] in ("Deployment", "StatefulSet"):
            found.append(item)
        if item["kind"] == "LLMInferenceService":
            # KServe makes the Deployment of it.
            template = {"spec": item["spec"]["template"], "metadata": {"labels": {}}}
            found.append({**item, "spec": {**item["spec"], "template": template}})
    return found


def pod_spec(controller):
    """What the pods of a controller have."""
    return controller["spec"]["template"]["spec"]


def containers(controller):
    """All containers of a controller's pods, with those that run first."""
    spec = pod_spec(controller)
    return spec.get("initContainers", []) + spec["containers"]


def server(controller):
    """The container that serves."""
    return pod_spec(controller)["containers"][0]


def servers(overlay):
    """The controllers whose pods run programs of ours."""
    return [
        controller
        for controller in pods(overlay)
        if server(controller).get("command", [""])[0] in pod_settings.SECTIONS
    ]


def settings_of(overlay, controller):
    """What the program of a controller of an overlay is told."""
    return pod_settings.settings_of(rendered(overlay), controller)


def port_of(address):
    """The port of HOST:PORT."""
    return int(address.rpartition(":")[2])


def port_named(container, name):
    """The number of a container's port of this name."""
    (port,) = [p["containerPort"] for p in container["ports"] if p["name"] == name]
    return port


def run(*command, **options):
    """Runs a command; returns its code and all that it says."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr
