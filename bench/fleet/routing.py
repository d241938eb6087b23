"""Which worker a request goes to. A front knows the workers of its cell, what it
has sent them, and by its health checks which of them are gone."""
import bisect

POLICIES = ("round-robin", "ring-hash", "least-bytes", "prefix-affinity")
RING_POINTS = 64  # points of each worker
REQUEST_BYTES = 1024  # these four are WorkerBook's of the gateway
FREE_BYTES = 16 << 10
MAX_SHARE = 1.25
MAX_WORKERS = 256
BYTES_PER_TOKEN = 4


def mix(value):
    """A hash of 64 bits (the finalizer of MurmurHash3)."""
    mask = (1 << 64) - 1
    value = (value ^ value >> 33) * 0xff51afd7ed558ccd & mask
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53 & mask
    return value ^ value >> 33


class Front:
    """Routes requests for one model to the workers of one cell."""

    def __init__(self, policy, number):
        self.policy = policy
        self.number = number
        self.members = []  # all workers of the cell, whatever they do
        self.is_stale = True  # a member's state has changed
        self.workers = []  # those that get requests
        self.turn = 0
        self.n_chosen = 0
        self._points = []
        self._owners = []
        self._known = {}

    def set_workers(self, workers):
        """Those that are ready, as the last health checks have it."""
        self.workers = workers[:MAX_WORKERS]
        if self.policy in ("ring-hash", "prefix-affinity"):
            ring = sorted(point for w in self.workers
                          for point in self._points_of(w.number))
            by_number = {w.number: w for w in self.workers}
            self._points = [point for point, _ in ring]
            self._owners = [by_number[number] for _, number in ring]

    def _points_of(self, number):
        """A worker's places on the ring; they are always the same."""
        if number not in self._known:
            self._known[number] = [(mix(number * RING_POINTS + i + 1), number)
                                   for i in range(RING_POINTS)]
        return self._known[number]

    def choose(self, request, tried):
        """A worker that is not in `tried`, or None."""
        allowed = self.workers
        if tried:
            allowed = [w for w in allowed if w.number not in tried]
        if not allowed:
            return None
        if self.policy == "round-robin":
            self.n_chosen += 1
            return allowed[self.n_chosen % len(allowed)]
        if self.policy == "least-bytes":
            return min(allowed, key=lambda w: (w.in_flight_bytes, w.last_turn))
        key = request.session if self.policy == "ring-hash" else request.app
        most = float("inf")
        if self.policy == "prefix-affinity":
            total = sum(w.in_flight_bytes for w in allowed)
            most = max(FREE_BYTES, MAX_SHARE * total / len(allowed))
        found = self._along_ring(key, tried, most)
        return found or min(allowed, key=lambda w: w.in_flight_bytes)

    def _along_ring(self, key, tried, most):
        at = bisect.bisect(self._points, mix(key))
        for i in range(len(self._owners)):
            worker = self._owners[(at + i) % len(self._owners)]
            if worker.number not in tried and worker.in_flight_bytes <= most:
                return worker
        return None

    def enter(self, worker, request):
        self.turn += 1
        worker.last_turn = self.turn
        worker.in_flight_bytes += self.bytes_of(request)

    def leave(self, worker, request):
        worker.in_flight_bytes -= self.bytes_of(request)

    @staticmethod
    def bytes_of(request):
        return REQUEST_BYTES + BYTES_PER_TOKEN * request.n_prompt
