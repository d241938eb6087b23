"""What must hold at every event of the simulation, by a model of its own.

It does not look into any planner's book: it knows what was granted, which
processes live, and what they did.
"""
import collections
import dataclasses

TAKEOVER_S = 5.0
RESERVATION_S = 10.0  # a holder that has not allocated by then never will


@dataclasses.dataclass
class Claim:
    """Bytes that a process may use, from the grant until it cannot any more."""
    device: int
    process: int
    bytes: int
    ends: float  # a reservation's holder stops then; None: it is confirmed


class Checks:
    """Collects violations. `kinds` counts them; `found` has the first ones."""

    MAX_FOUND = 20

    def __init__(self, device_bytes):
        self.device_bytes = device_bytes
        self.claims = {}  # lease id and planner's name: Claim
        self.on_device = collections.defaultdict(set)
        self.by_process = collections.defaultdict(set)
        self.requests = {}
        self.touched = set()
        self.kinds = collections.Counter()
        self.found = []
        self.n_checks = 0
        self.n_grants = 0
        self.leaderless_since = {}  # group of planners: when its leader ended

    def violation(self, kind, now, words):
        self.kinds[kind] += 1
        if len(self.found) < self.MAX_FOUND:
            self.found.append(f"{now:.3f} s: {kind}: {words}")

    def granted(self, planner, lease, now):
        self.n_grants += 1
        if planner.journal.lock not in (None, planner.name):
            self.violation("grant-without-lock", now,
                           f"{planner.name} granted lease {lease.id}, and "
                           f"{planner.journal.lock} had the lock")
        known = self.requests.setdefault(lease.request, lease.id)
        if known != lease.id:
            self.violation("request-granted-twice", now,
                           f"{lease.request} got leases {known} and {lease.id}")
        self._claim(lease, now + RESERVATION_S)

    def _claim(self, lease, ends):
        self.claims[lease.id] = Claim(lease.device, lease.process, lease.bytes,
                                      ends)
        self.on_device[lease.device].add(lease.id)
        self.by_process[lease.process].add(lease.id)
        self.touched.add(lease.device)

    def allocated(self, lease):
        """The holder has the bytes, whatever a planner thinks."""
        if lease.id not in self.claims:
            self._claim(lease, None)
        self.claims[lease.id].ends = None
        self.touched.add(lease.device)

    def ended(self, lease_id):
        """The holder has freed the bytes, or will never allocate them."""
        claim = self.claims.pop(lease_id, None)
        if claim is not None:
            self.on_device[claim.device].discard(lease_id)
            self.by_process[claim.process].discard(lease_id)

    def process_ended(self, process):
        for lease_id in list(self.by_process.pop(process, ())):
            self.ended(lease_id)

    def stream_lost(self, cause, now):
        """docs/reliability.md: a begun stream is lost with its worker alone."""
        if cause not in ("worker", "node"):
            self.violation("stream-lost", now, f"a stream was lost: {cause}")

    def leader_ended(self, group, now):
        self.leaderless_since.setdefault(group, now)

    def leader_ready(self, group, now):
        """Returns for how long the group had no leader; None: it had one."""
        since = self.leaderless_since.pop(group, None)
        if since is not None and now - since > TAKEOVER_S:
            self.violation("takeover", now, f"no planner for {now - since:.2f} s")
        return None if since is None else now - since

    def after_event(self, now):
        """Looks at each device that the event touched."""
        for device in self.touched:
            self.n_checks += 1
            live = 0
            for lease_id in list(self.on_device[device]):
                claim = self.claims[lease_id]
                if claim.ends is not None and claim.ends < now:
                    self.ended(lease_id)
                else:
                    live += claim.bytes
            if live > self.device_bytes[device]:
                self.violation(
                    "double-grant", now,
                    f"{live} bytes of device {device}, which has "
                    f"{self.device_bytes[device]}")
        self.touched.clear()
        for group, since in list(self.leaderless_since.items()):
            if now - since > TAKEOVER_S:
                del self.leaderless_since[group]
                self.violation("takeover", now,
                               f"no planner of group {group} for 5 s")
