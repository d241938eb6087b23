"""Planners, their journal and their book of leases, as the simulation has them.

The rules are those of planner/lease and services/planner: a grant is in the
journal before it is answered; an expired lease is suspect, and its bytes count
until a release, the end of a process that is watched, or a reading proves them
free; who does not find its own name in the journal writes nothing more.
"""
import dataclasses
import math

TTL_S = 10.0
GRACE_S = 5.0
FENCE_S = 2.0  # a holder stops this long before the end of a reservation
STANDBY_POLL_S = 0.25
OWNER_CHECK_S = 1.0
CALL_S = 5.0  # a worker's call waits no longer
REREAD_BASE_S, REREAD_LEASE_S = 0.3, 5e-5  # docs/measured/planner_scale.md


@dataclasses.dataclass
class Lease:
    """What the journal knows of a grant, and what a book adds to it."""
    id: int
    request: str
    device: int
    process: int
    bytes: int
    epoch: int
    confirmed: bool = False
    expires: float = 0.0
    trusted: float = 0.0  # its process gave a sign of life until then less TTL
    restored: bool = False
    allocated_at: float = math.inf  # all of it, at the latest
    vouched_at: float = -math.inf  # its holder last said that it is there

    def copy(self):
        return dataclasses.replace(self)


class Journal:
    """A file with a lock, the name of its owner, and leases."""

    def __init__(self, number=0):
        self.lock = None  # the planner that has it
        self.owner = None  # the name that was written last
        self.leases = {}
        self.requests = {}  # request: lease id, also of leases that ended
        self.next_id = (number << 32) + 1  # no two journals have the same
        self.next_epoch = 1


class Planner:
    """A planner's process. It answers only while it leads."""

    def __init__(self, name, journal, device_bytes, checks, defects, grant_s):
        self.name = name
        self.journal = journal
        self.device_bytes = device_bytes  # by device
        self.checks = checks
        self.defects = defects
        self.grant_s = grant_s
        self.alive = True
        self.leading = False
        self.ready_at = 0.0  # it answers from then on
        self.free_at = 0.0  # the journal's writer is busy until then
        self.book = {}  # lease id: Lease
        self.on_device = {}  # device: set of lease ids
        self.held = {}  # device: bytes
        self.requests = {}
        self.measured = {}  # device: free bytes by the last reading
        self.old = {}  # device: when a reading came, and the bytes used by it
        self.n_grants = self.n_renewals = 0
        self.side = 0  # in a partition the workers of this side reach it
        self.is_restarting = False  # its successor is on the way

    # The lock and the journal.

    def poll(self, now, others_lead):
        """One look of a planner on standby. Returns whether it leads now."""
        journal = self.journal
        is_free = journal.lock is None
        if "standby-ignores-lock" in self.defects and not others_lead:
            is_free = True
        if not self.alive or self.leading or not is_free:
            return False
        if journal.lock is None:
            journal.lock = self.name
        reads_first = "standby-reads-before-its-name" in self.defects
        if not reads_first or journal.owner is None:
            self.take_over()
        self.leading = True
        self.book, self.on_device, self.held, self.requests = {}, {}, {}, {}
        self.measured, self.old = {}, {}
        reread_s = REREAD_BASE_S + REREAD_LEASE_S * len(journal.leases)
        if "standby-does-not-reread" not in self.defects:
            for lease in journal.leases.values():
                one = lease.copy()
                one.expires = now + reread_s + TTL_S  # one whole time to live
                one.trusted = one.expires
                one.restored = True
                one.allocated_at = now if one.confirmed else math.inf
                one.vouched_at = -math.inf
                self._insert(one)
            self.requests = dict(journal.requests)
        if "standby-forgets-requests" in self.defects:
            self.requests = {}
        self.ready_at = now + reread_s
        self.free_at = self.ready_at
        return True

    def take_over(self):
        """Writes its name into the journal: no other one writes from now on."""
        self.journal.owner = self.name

    def die(self):
        self.alive = self.leading = False
        if self.journal.lock == self.name:
            self.journal.lock = None

    def check_owner(self):
        """Who lost the journal ends. Returns whether it may go on."""
        if not self.leading:
            return False
        if self.journal.owner == self.name:
            return True
        if "old-leader-grants-on" in self.defects:
            return True
        self.die()
        return False

    def answers(self, now):
        return self.alive and self.leading and now >= self.ready_at

    # The book.

    def _insert(self, lease):
        self.book[lease.id] = lease
        self.on_device.setdefault(lease.device, set()).add(lease.id)
        self.held[lease.device] = self.held.get(lease.device, 0) + lease.bytes

    def _free(self, lease):
        del self.book[lease.id]
        self.on_device[lease.device].discard(lease.id)
        self.held[lease.device] -= lease.bytes
        if self.journal.owner == self.name:
            self.journal.leases.pop(lease.id, None)

    def available(self, device):
        """Bytes that may be granted: by the book, and by the last reading."""
        total = self.device_bytes[device]
        by_book = total - self.held.get(device, 0)
        if device not in self.measured:
            return by_book
        # Reservations are not in the reading.
        unread = sum(self.book[i].bytes for i in self.on_device.get(device, ())
                     if not self.book[i].confirmed)
        return min(by_book, self.measured[device] - unread)

    def reserve(self, request, device, process, n_bytes, now):
        """Commits a grant and returns a copy of it, or None: no room."""
        if request in self.requests:
            known = self.book.get(self.requests[request])
            return known.copy() if known else None  # it may have ended
        if "expiry-frees" in self.defects:
            for i in list(self.on_device.get(device, ())):
                if self.book[i].expires < now:
                    self.measured.pop(device, None)
                    self._free(self.book[i])
        if not self.check_owner():
            return None
        if n_bytes > self.available(device):
            return None
        journal = self.journal
        lease = Lease(journal.next_id, request, device, process, n_bytes,
                      journal.next_epoch, expires=now + TTL_S,
                      trusted=now + TTL_S)
        journal.next_id += 1
        journal.next_epoch += 1
        journal.leases[lease.id] = lease.copy()
        journal.requests[request] = lease.id
        self.requests[request] = lease.id
        self._insert(lease)
        self.n_grants += 1
        self.checks.granted(self, lease, now)
        return lease.copy()

    def confirm(self, lease, now):
        """Whether the holder may keep what it has allocated."""
        known = self.book.get(lease.id)
        if known is None or not self.check_owner():
            return False
        if not known.confirmed and known.expires < now:
            return False
        if not known.confirmed:
            known.allocated_at = now
        known.confirmed = True
        known.expires = known.trusted = now + TTL_S
        if lease.id in self.journal.leases:
            self.journal.leases[lease.id].confirmed = True
        return True

    def renew(self, lease, now):
        """Extends a lease; one that is unknown is taken in, if it fits."""
        self.n_renewals += 1
        if not self.check_owner():
            return False
        known = self.book.get(lease.id)
        if known is None:
            if lease.bytes > self.available(lease.device):
                return False
            known = lease.copy()
            known.confirmed = True
            known.allocated_at, known.vouched_at = now, -math.inf
            self._insert(known)
            self.journal.leases[lease.id] = known.copy()
        known.expires = known.trusted = now + TTL_S
        return True

    def release(self, lease):
        if lease.id in self.book and self.check_owner():
            # The next reading shows what became free.
            if lease.device in self.measured and self.book[lease.id].confirmed:
                self.measured[lease.device] += lease.bytes
            self._free(self.book[lease.id])

    def process_died(self, process, devices):
        """Proof for a planner that sees the process."""
        for device in devices:
            for i in list(self.on_device.get(device, ())):
                if self.book[i].process == process:
                    self.measured.pop(device, None)
                    self._free(self.book[i])

    def reading(self, device, free_bytes, vouched, now):
        """The device says what is free; `vouched` is a lease that was there."""
        used = self.device_bytes[device] - free_bytes
        used -= vouched.bytes if vouched is not None else 0
        for i in list(self.on_device.get(device, ())):
            lease = self.book[i]
            if lease is not vouched and self._is_gone(lease, used, now):
                self._free(lease)
        self.measured[device] = free_bytes
        if vouched is not None:
            vouched.vouched_at = now
        self._judge_old_reading(device, now)
        came, _ = self.old.get(device, (-math.inf, 0))
        if now >= came + GRACE_S + TTL_S:
            self.old[device] = now, self.device_bytes[device] - free_bytes

    def _judge_old_reading(self, device, now):
        """Takes off an old reading what was certainly there, and frees what the
        rest is too small for."""
        came, used = self.old.get(device, (math.inf, 0))
        if now < came + GRACE_S:
            return
        there = [self.book[i] for i in self.on_device.get(device, ())]
        there = [one for one in there if one.allocated_at + GRACE_S <= came]
        silent = [one for one in there if one.vouched_at < came + GRACE_S]
        used -= sum(one.bytes for one in there if one not in silent)
        for lease in silent:
            if self._is_gone(lease, used, now):
                self._free(lease)

    def _is_gone(self, lease, used, now):
        if lease.confirmed:
            return (now > lease.expires and now > lease.trusted
                    and lease.bytes > used)
        if "reading-frees-reservations" in self.defects:
            return True
        return now > lease.expires + GRACE_S and (
            not lease.restored or used <= 0)
