"""The life of workers and planners in the simulation, and their failures."""
from leases import (CALL_S, FENCE_S, OWNER_CHECK_S, STANDBY_POLL_S, TTL_S,
                    Planner)

START_S = 0.2  # from the start of a process to its first call
RETRY_S = 2.0  # PlannerClient::kRetryDelay
REPEAT_S = 0.2  # until a call goes to a planner again
REPLY_S = 0.001  # from the planner to the worker
RESTART_S = 1.0  # a supervisor's
DRAIN_S = 30.0
NODE_DOWN_S = 30.0
MOVE_CHOICES = 5
PARTITION_S = 15.0
FAULTS_AT = {"worker": 0.3, "node": 0.35, "partition": 0.4, "leader": 0.67,
             "lock": 0.72}  # parts of the time of traffic
FAULTS = tuple(FAULTS_AT)


class Fleet:
    """What Simulation knows of workers and planners."""

    # Planners.

    def begin_planners(self):
        self.all_planners = []
        for group in self.groups:
            for side in (0, 1):
                self._start_planner(group, side)
            self.poll(group)
            self.after(OWNER_CHECK_S, self.check_owners, group)

    def _start_planner(self, group, side):
        planner = Planner(
            f"planner-{group.number}.{len(self.all_planners)}", group.journal,
            self.checks.device_bytes, self.checks, self.options.defects,
            1 / self.rate)
        planner.side = side
        self.all_planners.append(planner)
        if len(group.planners) < 2:
            group.planners.append(planner)
        else:
            group.planners[side] = planner

    def poll(self, group):
        """Planners on standby look for the lock."""
        slow = "standby-polls-slowly" in self.options.defects
        self.after(10.0 if slow and self.now > 0 else STANDBY_POLL_S, self.poll,
                   group)
        for planner in group.planners:
            others_lead = not group.partitioned and group.leads()
            if planner.poll(self.now, others_lead):
                self.at(planner.ready_at, self.planner_ready, group, planner)

    def planner_ready(self, group, planner):
        if planner.alive:
            planner.take_over()
        seconds = self.checks.leader_ready(group.number, self.now)
        if seconds is not None:
            self.takeovers.append(seconds)

    def check_owners(self, group):
        self.after(OWNER_CHECK_S, self.check_owners, group)
        for planner in group.planners:
            planner.check_owner()
            if not planner.alive:
                self._restart_planner(group, planner)

    def _restart_planner(self, group, planner):
        if not planner.is_restarting:
            planner.is_restarting = True
            self.after(RESTART_S, self._start_planner, group, planner.side)

    def end_leader(self, group):
        for planner in group.planners:
            if planner.alive and planner.leading:
                planner.die()
                self.checks.leader_ended(group.number, self.now)
                self._restart_planner(group, planner)
        group.is_doomed = False

    # A worker's start.

    def start(self, worker):
        if not worker.node.alive or worker.state != "down":
            return
        self.n_processes += 1
        worker.process = self.n_processes
        worker.state = "starting"
        worker.lease, worker.confirmed = None, False
        self.after(START_S, self.reserve, worker, worker.process, None, 0.0)
        self.after(self.random.uniform(0, TTL_S / 3), self.renew, worker,
                   worker.process)

    def reserve(self, worker, process, request, asked):
        """Registers the device with a reading, and asks for the bytes."""
        if process != worker.process or worker.state != "starting":
            return
        if request is None:
            self.n_requests += 1
            request, asked = f"request-{self.n_requests}", self.now
        planner = worker.node.group.leader_for(worker, self.now)
        if planner is None:
            self._repeat(worker, process, request, asked)
            return
        planner.reading(worker.node.number, self._free_bytes(worker.node), None,
                        self.now)
        done = max(self.now, planner.free_at) + planner.grant_s
        if done > asked + CALL_S:
            # The planner has too much to do: the call ends at its deadline.
            self.at(asked + CALL_S, self._again, worker, process)
            return
        planner.free_at = done
        self.at(done, self.commit, worker, process, planner, request, asked)

    def _repeat(self, worker, process, request, asked):
        """Sends the same request within the deadline, else a new one later."""
        if self.now + REPEAT_S < asked + CALL_S:
            self.after(REPEAT_S, self.reserve, worker, process, request, asked)
        else:
            self._again(worker, process)

    def _again(self, worker, process):
        self.after(RETRY_S * self.random.uniform(0.5, 1.0), self.reserve, worker,
                   process, None, 0.0)

    def commit(self, worker, process, planner, request, asked):
        if not planner.answers(self.now):
            self._repeat(worker, process, request, asked)
            return
        before = planner.n_grants
        lease = planner.reserve(request, worker.node.number, process,
                                worker.times.bytes, self.now)
        group = worker.node.group
        if planner.n_grants > before:
            self.grants_at[group.number, int(self.now)] += 1
            if group.is_doomed:
                self.end_leader(group)
        self.after(REPLY_S, self.replied, worker, process, planner, request,
                   asked, lease)

    def replied(self, worker, process, planner, request, asked, lease):
        group = worker.node.group
        is_cut = group.partitioned and planner.side != worker.side
        if process != worker.process:
            if lease is not None:
                self.checks.ended(lease.id)  # nobody is there to use it
        elif not planner.alive or is_cut:
            self._repeat(worker, process, request, asked)
        elif lease is None:
            if worker.is_moving:
                self._try_elsewhere(worker)
            self._again(worker, process)
        else:
            self._load(worker, process, lease, asked)

    def _load(self, worker, process, lease, asked):
        worker.fence = asked + TTL_S - FENCE_S
        worker.lease = lease
        if self.now > worker.fence:
            self._free(worker)
            self._again(worker, process)
            return
        worker.state = "loading"
        worker.is_moving = False
        worker.node.used_bytes += lease.bytes
        self.checks.allocated(lease)
        self.after(worker.times.load_s, self.loaded, worker, process)

    def loaded(self, worker, process):
        if process != worker.process or worker.state != "loading":
            return
        if self.now > worker.fence:
            worker.node.used_bytes -= worker.lease.bytes
            self._free(worker)
            worker.state = "starting"
            self._again(worker, process)
            return
        planner = worker.node.group.leader_for(worker, self.now)
        if planner is None:  # it asks again until the fence
            self.after(REPEAT_S, self.loaded, worker, process)
            return
        worker.confirmed = planner.confirm(worker.lease, self.now)
        if not worker.confirmed:
            self.after(REPEAT_S, self.loaded, worker, process)
            return
        worker.state = "serving"
        worker.front.is_stale = True
        self.note_loaded()

    def _free(self, worker):
        """The holder lets its lease go."""
        planner = worker.node.group.leader_for(worker, self.now)
        self.checks.ended(worker.lease.id)
        if planner is not None:
            planner.release(worker.lease)
        worker.lease, worker.confirmed = None, False

    def _free_bytes(self, node):
        return self.options.node_bytes - node.used_bytes

    # Renewals.

    def renew(self, worker, process):
        if process != worker.process or worker.state == "down":
            return
        if worker.lease is None:
            self.after(TTL_S / 3, self.renew, worker, process)
            return
        planner = worker.node.group.leader_for(worker, self.now)
        if planner is None:
            if "streams-need-a-planner" in self.options.defects:
                self.lose_requests(worker, "planner")
            self.after(RETRY_S * self.random.uniform(0.5, 1.0), self.renew,
                       worker, process)
            return
        if planner.renew(worker.lease, self.now):
            worker.fence = self.now + TTL_S - FENCE_S
        vouched = planner.book.get(worker.lease.id) if worker.confirmed else None
        planner.reading(worker.node.number, self._free_bytes(worker.node),
                        vouched, self.now)
        self.after(TTL_S / 3, self.renew, worker, process)

    # Ends.

    def end_process(self, worker, cause):
        """The process is gone, and with it its memory and its streams."""
        if worker.state == "down":
            return
        if worker.lease is not None:
            if worker.state != "starting":
                worker.node.used_bytes -= worker.lease.bytes
        process, worker.process = worker.process, 0
        self.checks.process_ended(process)
        worker.state, worker.lease, worker.confirmed = "down", None, False
        self.lose_requests(worker, cause)
        group = worker.node.group
        if len(group.nodes) == 1 and cause == "worker":  # they share the host
            for planner in group.planners:
                if planner.answers(self.now):
                    planner.process_died(process, [worker.node.number])

    def kill(self, worker):
        self.end_process(worker, "worker")
        self.after(RESTART_S, self.start, worker)

    def lose_node(self, node):
        node.alive = False
        for worker in node.workers:
            self.end_process(worker, "node")
        self.after(NODE_DOWN_S, self.return_node, node)

    def return_node(self, node):
        node.alive = True
        for worker in node.workers:
            self.start(worker)

    # Moves.

    def await_churn(self):
        rate = self.options.moves_per_hour * len(self.workers) / 3600
        if rate > 0:
            self.after(self.random.expovariate(rate), self.churn)

    def churn(self):
        self.await_churn()
        serving = [w for w in self.random.sample(self.workers,
                                                 min(20, len(self.workers)))
                   if w.state == "serving"]
        # Most of the fleet serves at any time, as in a rolling update.
        if len(serving) < 0.5 * min(20, len(self.workers)):
            return
        worker = serving[0]
        worker.state = "draining"
        worker.front.is_stale = True
        worker.is_moving = True
        if worker.engine.n_running:
            self.after(DRAIN_S, self.drain_ended, worker, worker.process)
        else:
            self.move(worker)

    def drain_ended(self, worker, process):
        if process == worker.process and worker.state == "draining":
            self.move(worker)

    def move(self, worker):
        """Frees its bytes and starts on another node of its group."""
        worker.node.used_bytes -= worker.lease.bytes
        self._free(worker)
        self.checks.process_ended(worker.process)
        worker.state, worker.process = "down", 0
        self.lose_requests(worker, "worker")
        self._try_elsewhere(worker)
        self.start(worker)

    def _try_elsewhere(self, worker):
        """The emptiest of a few nodes, by what is allocated there; others may
        have been granted bytes that they have not allocated yet."""
        alive = [n for n in worker.node.group.nodes if n.alive]
        if alive:
            worker.node.workers.remove(worker)
            worker.node = min(
                self.random.sample(alive, min(MOVE_CHOICES, len(alive))),
                key=lambda node: node.used_bytes)
            worker.node.workers.append(worker)

    # Faults.

    def begin_faults(self):
        options = self.options
        for name in options.faults:
            self.after(options.seconds * FAULTS_AT[name],
                       getattr(self, f"fault_{name}"))
        self.await_churn()

    def fault_worker(self):
        serving = [w for w in self.workers if w.state == "serving"]
        n = min(len(serving), max(1, len(serving) // 100))
        for worker in self.random.sample(serving, n):
            self.kill(worker)

    def fault_node(self):
        if len(self.nodes) > 1:
            for node in self.random.sample(self.nodes,
                                           max(1, len(self.nodes) // 200)):
                self.lose_node(node)

    def fault_leader(self):
        """The leader dies between its next grant and the reply, the worst
        moment; without a grant within a second it dies then."""
        for group in self.groups:
            group.is_doomed = True
            self.after(1.0, self.doom, group)

    def doom(self, group):
        if group.is_doomed:
            self.end_leader(group)

    def fault_partition(self):
        """Half of the workers reach one planner, half the other one; the
        planners do not reach each other."""
        for group in self.groups:
            group.partitioned = True
            self.after(PARTITION_S, self.heal, group)

    def heal(self, group):
        group.partitioned = False

    def fault_lock(self):
        """A file system drops the leader's lock in a partition, so the leader
        lives, half of the workers reach it, and it believes that it leads."""
        self.fault_partition()
        for group in self.groups:
            if group.journal.lock is not None:
                group.journal.lock = None
                self.checks.leader_ended(group.number, self.now)
