"""The discrete-event simulation of a fleet: traffic, and what ties the parts.

One thread, one heap of events, and random numbers from one seed: the same
options give the same run. workers.py has the life of workers and planners.
"""
import collections
import heapq
import random
import sys
import time

from checks import Checks
from fleet_parts import Group, Node, Session, Worker, place
from leases import Journal
from routing import MAX_WORKERS, Front
from workers import Fleet

NETWORK_S = 0.001  # from a client over a front to a worker, and back
HEALTH_S = 0.5  # between two looks of a front
CONNECT_S = 1.0  # until a front gives up on a node that does not answer
KEEPALIVE_S = 10.0  # until a stream of a lost node ends
MAX_TRIES = 3  # workers that a request goes to


class Simulation(Fleet):
    """One run: make it, and call run()."""

    def __init__(self, options, record, progress=False):
        self.options = options
        self.record = record
        self.models = list(record["times"].values())
        self.progress = progress
        self.now = 0.0
        self.events = []
        self.n_events = 0
        self.random = random.Random(options.seed)
        # Traffic draws from numbers of its own, so that all kinds of routing
        # see the same sessions.
        self.traffic = random.Random(options.seed + 0.5)
        self.rate = options.grants_per_s or record["planner"]["grants_per_s"]
        self.checks = Checks(dict.fromkeys(range(options.nodes),
                                           options.node_bytes))
        self.counts = collections.Counter()
        self.ttft = []
        self.takeovers = []
        self.grants_at = collections.Counter()  # (group, second)
        self.traffic_from = None
        self.loaded_at = None
        self._build()

    # Events.

    def at(self, when, action, *arguments):
        self.n_events += 1
        heapq.heappush(self.events, (when, self.n_events, action, arguments))

    def after(self, seconds, action, *arguments):
        self.at(self.now + seconds, action, *arguments)

    def run(self):
        """Simulates until the traffic has ended; returns the figures."""
        self.begin_planners()
        for worker in self.workers:
            self.at(self.random.uniform(0, self.options.start_s + 0.2),
                    self.start, worker)
        begin = told = time.monotonic()
        n = 0
        while self.events:
            when, _, action, arguments = heapq.heappop(self.events)
            if self.ends_at is not None and when > self.ends_at:
                break
            self.now = when
            action(*arguments)
            self.checks.after_event(when)
            n += 1
            if self.progress and n % 4096 == 0 and time.monotonic() > told + 5:
                told = time.monotonic()
                print(f"  {self.options.nodes} nodes, {self.options.policy}:"
                      f" {self.now:.0f} s simulated, {n:,} events,"
                      f" {told - begin:.0f} s", file=sys.stderr, flush=True)
        return self._figures(n, time.monotonic() - begin)

    # What there is.

    def _build(self):
        options = self.options
        self.groups = []
        self.nodes = []
        for i in range(options.nodes):
            if i % options.nodes_per_planner == 0:
                self.groups.append(Group(len(self.groups),
                                         Journal(len(self.groups))))
            node = Node(i, self.groups[-1])
            self.groups[-1].nodes.append(node)
            self.nodes.append(node)
        self.workers = []
        self.fronts = {model.name: [] for model in self.models}
        placed = place([(n, options.node_bytes) for n in self.nodes],
                       self.models, options.cores)
        for node, model in placed:
            fronts = self.fronts[model.name]
            if not fronts or len(fronts[-1].members) == MAX_WORKERS:
                fronts.append(Front(options.policy, len(fronts)))
            worker = Worker(len(self.workers), node, model, fronts[-1],
                            options.prompt_share)
            fronts[-1].members.append(worker)
            node.workers.append(worker)
            self.workers.append(worker)
        self.ends_at = None
        self.n_loaded = self.renewals_before = 0
        self.n_processes = self.n_requests = self.n_sessions = 0

    def note_loaded(self):
        """Traffic begins when every worker has served once."""
        self.n_loaded += 1
        if self.traffic_from is not None or self.n_loaded < len(self.workers):
            return
        self.loaded_at = self.traffic_from = self.now
        self.renewals_before = sum(p.n_renewals for p in self.all_planners)
        self.ends_at = self.now + self.options.seconds
        for fronts in self.fronts.values():
            for front in fronts:
                self.look(front)
        for seconds in self.options.arrivals:
            self.after(seconds, self.arrive, self.models[0], None)
        for model in self.models:
            n = sum(w.times is model for w in self.workers)
            if n and self.options.load > 0 and not self.options.arrivals:
                rate = self.options.load * n / self._session_s(model)
                self.after(self.traffic.expovariate(rate), self.arrive, model,
                           rate)
        self.begin_faults()

    def look(self, front):
        """A front asks its workers how they are."""
        if front.is_stale:
            front.is_stale = False
            front.set_workers([w for w in front.members
                               if w.state == "serving" and w.node.alive])
        self.after(HEALTH_S, self.look, front)

    # Sessions.

    def _new_session(self, front):
        self.n_sessions += 1
        return Session.drawn(self.n_sessions, front, self.options)

    def _session_s(self, model):
        """The mean core seconds of a session without a cache, four at once."""
        total, n = 0.0, 400
        for i in range(n):
            chat = Session.drawn(-1 - i, None, self.options)
            for _ in range(chat.turns_left):
                request = chat.next_request(self.options, 0.0)
                if request.n_total > model.n_ctx:
                    break
                step_s = model.step_s(min(4, model.slots),
                                      4 * request.n_prompt) / 4
                total += (model.prefill_s(request.n_prompt)
                          + request.n_reply * step_s)
                chat.n_tokens = request.n_total
        return total / n

    def arrive(self, model, rate):
        if rate is not None:
            self.after(self.traffic.expovariate(rate), self.arrive, model, rate)
        fronts = self.fronts[model.name]
        weights = [len(front.members) for front in fronts]
        (front,) = self.traffic.choices(fronts, weights)
        self.ask(self._new_session(front), model)

    def ask(self, chat, model):
        request = chat.next_request(self.options, self.now)
        if request.n_total > model.n_ctx:
            return  # the chat is as long as it can be
        chat.turns_left -= 1
        self.count("requests")
        self.route(request)

    def count(self, what, n=1):
        if self.now >= self.traffic_from + self.options.warm_s:
            self.counts[what] += n

    def route(self, request):
        worker = None
        if len(request.tried) < MAX_TRIES:
            worker = request.front.choose(request, request.tried)
        if worker is None:
            self.count("unavailable")
            return
        if not worker.node.alive or worker.state != "serving":
            # The front has not noticed yet, and the client has nothing yet.
            request.tried += (worker.number,)
            self.count("retried")
            self.forget(worker)
            self.after(NETWORK_S if worker.node.alive else CONNECT_S,
                       self.route, request)
            return
        request.front.enter(worker, request)
        if not worker.engine.add(request, self.now):
            request.front.leave(worker, request)
            self.count("refused")
            return
        self.await_engine(worker)

    def forget(self, worker):
        """A front that found a worker gone sends it nothing more."""
        front = worker.front
        front.set_workers([w for w in front.workers if w is not worker])
        front.is_stale = True

    def await_engine(self, worker):
        when = worker.engine.next_at()
        if when is not None:
            self.at(when, self.engine_event, worker, worker.engine.version)

    def engine_event(self, worker, version):
        if version != worker.engine.version:
            return
        begun, complete = worker.engine.take_ended(self.now)
        for request in begun:
            self._first_token(request)
        for request in complete:
            self._complete(worker, request)
        if worker.state == "draining" and not worker.engine.n_running:
            self.move(worker)
        self.await_engine(worker)

    def _first_token(self, request):
        self.count("prompt_tokens", request.n_prompt)
        self.count("cached_tokens", request.n_cached)
        request.ttft = self.now - request.arrived + NETWORK_S
        if request.arrived >= self.traffic_from + self.options.warm_s:
            self.ttft.append(request.ttft)

    def _complete(self, worker, request):
        request.front.leave(worker, request)
        self.count("completed")
        self.count("tokens", request.n_reply)
        if request.ttft <= self.options.slo_s:
            self.count("good_tokens", request.n_reply)
        chat = request.chat
        chat.n_tokens = request.n_total
        if chat.turns_left > 0:
            self.after(chat.think_s(self.options), self.ask, chat,
                       worker.times)

    def lose_requests(self, worker, cause):
        """The worker has ended: streams are lost, others are sent again."""
        begun, unbegun = worker.engine.drop_all()
        for request in begun:
            request.front.leave(worker, request)
            self.count("lost_streams")
            self.checks.stream_lost(cause, self.now)
            chat = request.chat
            if chat.turns_left > 0:
                self.after(chat.think_s(self.options), self.ask, chat,
                           worker.times)
        for request in unbegun:
            request.front.leave(worker, request)
            request.tried += (worker.number,)
            self.count("retried")
            self.after(KEEPALIVE_S if cause == "node" else NETWORK_S,
                       self.route, request)

    # Figures.

    def _figures(self, n_events, wall_s):
        counts, options = self.counts, self.options
        counted_s = max(1e-9, options.seconds - options.warm_s)
        order = sorted(self.ttft)

        def percentile(part):
            return order[min(len(order) - 1, int(len(order) * part))] \
                if order else None

        renewals_per_s = (sum(p.n_renewals for p in self.all_planners)
                          - self.renewals_before) / options.seconds
        return {
            "nodes": options.nodes, "workers": len(self.workers),
            "policy": options.policy, "load": options.load,
            "seed": options.seed, "events": n_events,
            "wall_s": round(wall_s, 1),
            "requests_per_s": counts["requests"] / counted_s,
            "tokens_per_s": counts["tokens"] / counted_s,
            "goodput_tokens_per_s": counts["good_tokens"] / counted_s,
            "ttft_p50_s": percentile(0.5), "ttft_p99_s": percentile(0.99),
            "cache_hit_share": counts["cached_tokens"]
            / max(1, counts["prompt_tokens"]),
            "completed": counts["completed"],
            "lost_streams": counts["lost_streams"],
            "retried": counts["retried"], "refused": counts["refused"],
            "unavailable": counts["unavailable"],
            "loaded_s": self.loaded_at,
            "grants": self.checks.n_grants,
            "peak_grants_per_s": max(self.grants_at.values(), default=0),
            "renewals_per_s": renewals_per_s,
            "planners": len(self.groups),
            "without_lease": sum(w.state in ("down", "starting")
                                 for w in self.workers),
            "renewal_cores": renewals_per_s / len(self.groups)
            * self.record["planner"]["renew_cpu_us"] / 1e6,
            "takeovers_s": [round(s, 3) for s in self.takeovers],
            "checks": self.checks.n_checks,
            "violations": dict(self.checks.kinds),
            "first_violations": self.checks.found,
        }
