"""Service times of a model, from what record.py wrote; pure."""
import bisect
import json


def read(path):
    """The record, with a ModelTimes for each model."""
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    record["times"] = {name: ModelTimes(name, one)
                       for name, one in record["models"].items()}
    return record


def between(xs, ys, x):
    """`ys` at `x`, by lines between the points, and the last line beyond."""
    if len(xs) == 1:
        return ys[0]
    i = min(max(bisect.bisect_left(xs, x), 1), len(xs) - 1)
    slope = (ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + slope * (x - xs[i - 1])


class ModelTimes:
    """What a worker with one model takes: seconds, tokens and bytes."""

    def __init__(self, name, record):
        plan = record["plan"]
        self.name = name
        self.bytes = plan["total_bytes"]
        self.slots = plan["slots"]
        self.n_ctx = plan["n_ctx"]
        self.kv_tokens = plan["slots"] * plan["n_ctx"]
        # A model with sliding windows shares only where a snapshot was kept.
        self.snapshots = plan["idle_sessions"] if plan["window_bytes"] else None
        self.load_s = record["load"]["s"]
        self._prompts = [one["tokens"] for one in record["prefill"]]
        self._prefills = [one["s"] for one in record["prefill"]]
        self._fit_steps(record["step"])

    def _fit_steps(self, points):
        """A step takes a time by its streams, and one for each token of their
        contexts: that is what attention reads. The second is the least squares'
        slope among points with equally many streams."""
        groups = {}
        for one in points:
            groups.setdefault(one["streams"], []).append(
                (one["streams"] * one["context"], one["s"]))
        above = below = 0.0
        for group in groups.values():
            mean_x = sum(x for x, _ in group) / len(group)
            mean_y = sum(y for _, y in group) / len(group)
            above += sum((x - mean_x) * (y - mean_y) for x, y in group)
            below += sum((x - mean_x) ** 2 for x, _ in group)
        self.context_s = max(0.0, above / below) if below else 0.0
        self._streams = sorted(groups)
        self._steps = [
            max(1e-6, sum(y - self.context_s * x for x, y in groups[n])
                / len(groups[n])) for n in self._streams]
        self._by_streams = [0.0] + [
            max(1e-6, between(self._streams, self._steps, n))
            for n in range(1, self.slots + 1)]

    def prefill_s(self, n_tokens, n_cached=0):
        """Seconds until the first token of a prompt, of which the first
        n_cached tokens are computed already."""
        whole = between(self._prompts, self._prefills, n_tokens)
        if n_cached:
            whole -= between(self._prompts, self._prefills, n_cached)
        # The last token of a prompt is always computed.
        return max(whole, self._by_streams[1])

    def step_s(self, n_streams, context_tokens):
        """Seconds of a step of n_streams, which have context_tokens in all."""
        return (self._by_streams[n_streams]
                + self.context_s * context_tokens)
