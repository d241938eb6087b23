"""What a container of a manifest tells its program, as the program reads it.

A flag counts before its variable, and that before the file of settings
(docs/operating.md, "Settings"). No value of ours that is tested here is a list.
"""

import tomllib

SECTIONS = {
    "plimsoll-planner": "planner",
    "plimsoll-worker": "worker",
    "plimsoll-gateway": "gateway",
    "plimsoll": "serve",  # the only command of it that a pod runs
}


def bytes_of(quantity):
    """The bytes of a quantity of Kubernetes, as far as our manifests use them."""
    for unit, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)):
        if quantity.endswith(unit):
            return int(quantity[: -len(unit)]) * factor
    return int(quantity)


def config_maps(objects):
    """The texts of all ConfigMaps of a rendered overlay, by name and file."""
    return {
        item["metadata"]["name"]: item["data"]
        for item in objects
        if item["kind"] == "ConfigMap"
    }


def mounted_file(objects, spec, container, path):
    """The text of a file of a ConfigMap that the container of a pod mounts."""
    folder, _, name = path.rpartition("/")
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == folder]
    (volume,) = [v for v in spec["volumes"] if v["name"] == mount["name"]]
    return config_maps(objects)[volume["configMap"]["name"]][name]


def words_of(container):
    """The words of its command line after the program."""
    return container["command"][1:] + container.get("args", [])


def flags_of(words):
    """The values of the flags among the words of a command line, by key."""
    flags = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word.removeprefix("--").partition("=")
            flags[name] = value or "true"
    return flags


def settings_of(objects, controller):
    """The values that the first container's program has, as texts, by key."""
    spec = controller["spec"]["template"]["spec"]
    container = spec["containers"][0]
    section = SECTIONS[container["command"][0]]
    flags = flags_of(words_of(container))
    values = {}
    if "config" in flags:
        text = mounted_file(objects, spec, container, flags.pop("config"))
        for key, value in tomllib.loads(text)[section].items():
            values[key] = str(value).lower() if isinstance(value, bool) else str(value)
    prefix = f"PLIMSOLL_{section.upper()}_"
    for variable in container.get("env", []):
        if variable["name"].startswith(prefix):
            key = variable["name"].removeprefix(prefix).lower().replace("_", "-")
            values[key] = variable["value"]
    return {**values, **flags}
