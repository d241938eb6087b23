"""The simulation of bench/fleet: its parts, and that it finds what is wrong."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "fleet"))

import tables  # noqa: E402
import times  # noqa: E402
from checks import Checks  # noqa: E402
from engine import MAX_QUEUE, PAGE, Engine, PrefixCache  # noqa: E402
from fleet import DEFECTS  # noqa: E402
from fleet_parts import Options, Request, Session, place  # noqa: E402
from leases import GRACE_S, TTL_S, Journal, Planner  # noqa: E402
from routing import FREE_BYTES, POLICIES, Front  # noqa: E402
from simulation import Simulation  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def model(name, n_bytes, window_bytes=0):
    """A record of a model with simple times."""
    return {
        "plan": {"total_bytes": n_bytes, "weight_bytes": 1,
                 "window_bytes": window_bytes, "kv_bytes_per_token": 1,
                 "n_ctx": 4096, "slots": 4, "idle_sessions": 2},
        "load": {"s": 0.5},
        "prefill": [{"tokens": 100, "s": 0.1}, {"tokens": 4000, "s": 4.0}],
        "step": [{"streams": 1, "context": 0, "s": 0.01},
                 {"streams": 4, "context": 0, "s": 0.016},
                 {"streams": 4, "context": 1000, "s": 0.020}],
    }


def record():
    models = {"small": model("small", 800), "large": model("large", 1660)}
    return {
        "date": "2026-01-02", "cpu": "A <fast> CPU",
        "planner": {"grants_per_s": 100, "renew_cpu_us": 100},
        "models": models,
        "times": {name: times.ModelTimes(name, one)
                  for name, one in models.items()},
    }


def run(seed=1, **fields):
    """The figures of a small fleet with everything that goes wrong."""
    options = {"nodes": 8, "node_bytes": 1700, "seconds": 80.0, "load": 0.3,
               "moves_per_hour": 1000.0, "seed": seed, **fields}
    return Simulation(Options(**options), record()).run()


class TimesTest(unittest.TestCase):

    def setUp(self):
        self.times = record()["times"]["small"]

    def test_a_prompt_takes_what_lies_between_the_recorded_ones(self):
        self.assertAlmostEqual(self.times.prefill_s(2050), 2.05)
        self.assertAlmostEqual(self.times.prefill_s(2050, 1000), 1.05)
        # All of it cached: its last token is computed all the same.
        self.assertAlmostEqual(self.times.prefill_s(640, 639), 0.01)

    def test_a_step_takes_its_streams_and_their_context(self):
        self.assertAlmostEqual(self.times.step_s(1, 0), 0.01)
        self.assertAlmostEqual(self.times.step_s(4, 2000), 0.018)
        self.assertAlmostEqual(self.times.step_s(4, 4000), 0.020)
        self.assertGreater(self.times.step_s(3, 0), self.times.step_s(2, 0))


def chat(number, app=0, n_tokens=128, front=None):
    return Session(number, app, front, n_tokens, 1, None)


class EngineTest(unittest.TestCase):

    def setUp(self):
        self.engine = Engine(record()["times"]["small"], prompt_share=0.5)

    def drain(self):
        """(time, request) of each first token and of each end."""
        begun, ended = [], []
        while (at := self.engine.next_at()) is not None:
            first, complete = self.engine.take_ended(at)
            begun += [(at, request) for request in first]
            ended += [(at, request) for request in complete]
        return begun, ended

    def test_one_stream_takes_its_prompt_and_its_steps(self):
        request = Request(chat(1), 0, 72, 11, 0.0)  # a prompt of 200
        self.assertTrue(self.engine.add(request, 0.0))
        begun, ended = self.drain()
        self.assertAlmostEqual(begun[0][0], 0.2, places=4)
        # Ten more tokens, with some microseconds for the context of each.
        self.assertAlmostEqual(ended[0][0], 0.3 + 10 * 200e-6 / 1e3, places=2)

    def test_a_prompt_beside_a_stream_takes_twice_as_long(self):
        self.engine.add(Request(chat(1), 0, 72, 400, 0.0), 0.0)
        self.engine.take_ended(self.engine.next_at())
        self.engine.add(Request(chat(2), 0, 72, 2, 0.2), 0.2)
        begun, _ = self.drain()
        self.assertAlmostEqual(begun[0][0], 0.2 + 2 * 0.2, places=4)

    def test_slots_and_the_queue_have_an_end(self):
        slots = self.engine.times.slots
        for i in range(slots + MAX_QUEUE):
            self.assertTrue(self.engine.add(Request(chat(i), 0, 1, 2, 0.0), 0.0))
        self.assertFalse(self.engine.add(Request(chat(99), 0, 1, 2, 0.0), 0.0))
        self.assertEqual(len(self.engine.waiting), MAX_QUEUE)
        _, ended = self.drain()
        self.assertEqual(len(ended), slots + MAX_QUEUE)

    def test_the_next_message_of_a_chat_has_its_context_cached(self):
        first = Request(chat(1), 64, 72, 57, 0.0)
        self.engine.add(first, 0.0)
        self.drain()
        same = Request(chat(1, n_tokens=first.n_total), 64, 10, 1, 9.0)
        self.engine.add(same, 9.0)
        self.drain()
        self.assertEqual(same.n_cached, first.n_total // PAGE * PAGE)
        other = Request(chat(2, n_tokens=128), 64, 72, 1, 20.0)
        self.engine.add(other, 20.0)
        self.drain()
        self.assertEqual(other.n_cached, 64)  # the app's beginning
        stranger = Request(chat(3, app=5), 64, 72, 1, 30.0)
        self.engine.add(stranger, 30.0)
        self.drain()
        self.assertEqual(stranger.n_cached, 0)

    def test_a_cache_of_windows_keeps_as_many_as_it_has_snapshots(self):
        cache = PrefixCache(times.ModelTimes("w", model("w", 1, 10)))
        for key in range(3):
            cache.keep(key, 640, 640, 0)
        self.assertEqual(list(cache.entries), [1, 2])
        self.assertEqual(cache.tokens, 1280)

    def test_a_cache_makes_room_for_what_runs(self):
        times_ = record()["times"]["small"]
        cache = PrefixCache(times_)
        cache.keep("old", 640, 640, 0)
        cache.keep("new", 640, 640, times_.kv_tokens - 700)
        self.assertEqual(list(cache.entries), ["new"])


class RoutingTest(unittest.TestCase):

    class Worker:
        def __init__(self, number):
            self.number = number
            self.in_flight_bytes = self.last_turn = 0

    def chosen(self, policy, sessions, apps=(0,), gone=()):
        front = Front(policy, 0)
        front.set_workers([self.Worker(i) for i in range(10) if i not in gone])
        found = []
        for session in sessions:
            request = Request(chat(session, app=apps[session % len(apps)]), 0, 1,
                              1, 0.0)
            worker = front.choose(request, ())
            front.enter(worker, request)
            found.append(worker.number)
        return found

    def test_round_robin_and_least_bytes_take_each_in_turn(self):
        for policy in ("round-robin", "least-bytes"):
            self.assertEqual(sorted(self.chosen(policy, range(20))),
                             sorted([*range(10)] * 2))

    def test_only_sessions_of_a_worker_that_left_move(self):
        before = self.chosen("ring-hash", range(500))
        after = self.chosen("ring-hash", range(500), gone=(3,))
        self.assertEqual(len(set(before)), 10)
        for old, new in zip(before, after):
            self.assertTrue(new == old or old == 3)

    def test_an_app_stays_at_one_worker_until_it_has_too_much(self):
        apart = self.chosen("prefix-affinity", range(200))
        most = FREE_BYTES // Front.bytes_of(Request(chat(1), 0, 1, 1, 0.0))
        self.assertEqual(len(set(apart[:most])), 1)
        # Each has at most 1.25 times the mean, so at least 8 of 10 have some.
        self.assertGreaterEqual(len(set(apart)), 8)

    def test_no_policy_takes_a_worker_that_was_tried(self):
        for policy in POLICIES:
            front = Front(policy, 0)
            front.set_workers([self.Worker(i) for i in range(3)])
            request = Request(chat(7), 0, 1, 1, 0.0)
            self.assertEqual(front.choose(request, (0, 2)).number, 1)
            self.assertIsNone(front.choose(request, (0, 1, 2)))


class PlannerTest(unittest.TestCase):

    def setUp(self):
        self.journal = Journal()
        self.checks = Checks({0: 1000})
        self.first, self.second = (
            Planner(name, self.journal, {0: 1000}, self.checks, frozenset(), 0.01)
            for name in "ab")
        self.first.poll(0.0, False)

    def test_a_standby_leads_only_once_the_lock_is_free(self):
        kept = self.first.reserve("r", 0, 1, 600, 1.0)
        self.assertFalse(self.second.poll(1.0, False))
        self.first.die()
        self.assertTrue(self.second.poll(2.0, False))
        self.assertFalse(self.second.answers(2.0))
        self.assertTrue(self.second.answers(3.0))
        self.assertIsNone(self.second.reserve("s", 0, 2, 500, 3.0))
        # The first reply was lost; a repeated request gets the same lease.
        self.assertEqual(self.second.reserve("r", 0, 1, 600, 3.0).id, kept.id)
        self.assertEqual(self.checks.kinds, {})

    def test_who_lost_the_lock_grants_nothing_more(self):
        self.journal.lock = None
        self.second.poll(1.0, False)
        self.assertIsNone(self.first.reserve("r", 0, 1, 100, 2.0))
        self.assertFalse(self.first.alive)

    def test_an_expired_lease_is_free_only_with_proof(self):
        lease = self.first.reserve("r", 0, 1, 600, 0.0)
        self.first.confirm(lease, 0.0)
        late = TTL_S + 1
        self.first.reading(0, 400, None, late)  # its bytes are still in use
        self.assertIsNone(self.first.reserve("s", 0, 2, 600, late))
        self.first.reading(0, 1000, None, late)
        self.assertIsNotNone(self.first.reserve("t", 0, 2, 600, late))

    def test_what_others_have_does_not_hide_that_a_lease_is_gone(self):
        kept = [self.first.reserve(f"r{i}", 0, i, 300, 0.0) for i in range(3)]
        for lease in kept:
            self.first.confirm(lease, 0.0)
        held = []
        for now in range(0, 31, 3):
            for lease in kept[1:]:
                self.first.renew(lease, now)
                self.first.reading(0, 400, self.first.book[lease.id], now)
            held.append(self.first.held[0])
        self.assertEqual(held[:7], [900] * 7)
        self.assertEqual(held[-1], 600)

    def test_a_reading_ends_a_reservation_after_the_grace_alone(self):
        self.first.reserve("r", 0, 1, 600, 0.0)
        for now, is_free in ((TTL_S + GRACE_S, False),
                             (TTL_S + GRACE_S + 0.1, True)):
            self.first.reading(0, 1000, None, now)
            self.assertEqual(self.first.available(0) == 1000, is_free)


class PlacementTest(unittest.TestCase):

    def test_bytes_and_cores_bound_what_a_node_gets(self):
        models = list(record()["times"].values())
        placed = place([(i, 4200) for i in range(10)], models, cores=4)
        for node in range(10):
            here = [m.bytes for n, m in placed if n == node]
            self.assertLessEqual(sum(here), 4200)
            self.assertLessEqual(len(here), 4)
        names = [m.name for _, m in placed]
        self.assertGreaterEqual(names.count("small"), 10)
        self.assertGreaterEqual(names.count("large"), 10)
        self.assertEqual(place([(0, 799)], models, 4), [])


class SimulationTest(unittest.TestCase):

    def test_the_same_seed_gives_the_same_run(self):
        figures = [run(seed=seed) for seed in (5, 5, 6)]
        for one in figures:
            del one["wall_s"]
        self.assertEqual(figures[0], figures[1])
        self.assertNotEqual(figures[0], figures[2])

    def test_nothing_is_violated_whatever_fails(self):
        for seed in range(1, 9):
            for nodes_per_planner in (8, 1):
                figures = run(seed=seed, nodes_per_planner=nodes_per_planner)
                self.assertEqual(figures["first_violations"], [], seed)
                self.assertGreater(figures["grants"], figures["workers"])
                self.assertEqual(len(figures["takeovers_s"]),
                                 2 * figures["planners"])
                self.assertGreater(figures["completed"], 0)

    def test_without_faults_nothing_is_lost_or_sent_again(self):
        figures = run(faults=(), moves_per_hour=0.0)
        for name in ("lost_streams", "retried", "unavailable"):
            self.assertEqual(figures[name], 0)

    def test_affinity_finds_more_in_caches(self):
        shares = {policy: run(policy=policy, nodes=20, node_bytes=4200,
                              faults=())["cache_hit_share"]
                  for policy in POLICIES}
        for near in ("ring-hash", "prefix-affinity"):
            for far in ("round-robin", "least-bytes"):
                self.assertGreater(shares[near], 1.5 * shares[far])

    def test_a_planner_on_the_node_gives_bytes_back_at_once(self):
        # It sees the process end; one elsewhere waits for the lease's end.
        waits = {}
        for nodes_per_planner in (1, 4):
            simulation = Simulation(Options(
                nodes=4, node_bytes=1700, nodes_per_planner=nodes_per_planner,
                seconds=60.0, load=0.0, moves_per_hour=0.0, faults=()), record())
            died = []

            def kill():
                worker = simulation.workers[0]
                died.append(simulation.now)
                simulation.kill(worker)

            def look():
                if died and simulation.workers[0].state == "serving":
                    waits.setdefault(nodes_per_planner,
                                     simulation.now - died[0])
                simulation.after(0.1, look)

            simulation.at(20.0, kill)
            simulation.at(20.1, look)
            simulation.run()
        self.assertLess(waits[1], 2.5)
        self.assertGreater(waits[4], TTL_S * 0.6)


    def test_one_of_three_equal_leases_is_proven_gone(self):
        # A planner that does not see the process end has readings alone, from
        # which the others' bytes are taken off.
        for nodes_per_planner in (2, 1):
            small = record()
            del small["times"]["large"]
            simulation = Simulation(Options(
                nodes=2, node_bytes=2400, nodes_per_planner=nodes_per_planner,
                seconds=60.0, load=0.0, moves_per_hour=0.0, faults=()), small)
            simulation.at(20.0, lambda: simulation.kill(simulation.workers[0]))
            figures = simulation.run()
            self.assertEqual(figures["workers"], 6)
            self.assertEqual(figures["without_lease"], 0)


class DefectTest(unittest.TestCase):
    """Each planted defect is found, and as what it is."""

    KINDS = {
        "standby-ignores-lock": "grant-without-lock",
        "standby-does-not-reread": "double-grant",
        "standby-reads-before-its-name": "grant-without-lock",
        "standby-forgets-requests": "request-granted-twice",
        "standby-polls-slowly": "takeover",
        "old-leader-grants-on": "grant-without-lock",
        "expiry-frees": "double-grant",
        "reading-frees-reservations": "double-grant",
        "streams-need-a-planner": "stream-lost",
    }
    MAX_SEEDS = 40

    def find(self, defects, kind, **fields):
        for seed in range(1, self.MAX_SEEDS + 1):
            figures = run(seed=seed, defects=frozenset(defects), **fields)
            if kind in figures["violations"]:
                self.assertTrue(figures["first_violations"])
                return
        self.fail(f"{defects}: no {kind}")

    def test_all_defects_have_a_kind(self):
        self.assertEqual(set(self.KINDS), set(DEFECTS))

    def test_every_defect_is_found(self):
        for defect, kind in self.KINDS.items():
            with self.subTest(defect):
                # With room to spare a request that is granted anew fits.
                room = {"node_bytes": 4200} if "requests" in defect else {}
                self.find([defect], kind, **room)

    def test_two_leaders_that_look_at_nothing_grant_twice(self):
        self.find(["standby-ignores-lock", "old-leader-grants-on"],
                  "double-grant")


class TablesTest(unittest.TestCase):

    def setUp(self):
        self.found = [run(policy=policy, faults=()) for policy in POLICIES]

    def test_tables_have_a_row_for_each_run(self):
        for show in (tables.text, tables.markdown):
            for columns in (tables.SERVING, tables.PLANNERS):
                text = show(self.found, columns)
                self.assertEqual(len(text.splitlines()),
                                 5 + (show is tables.markdown))
        self.assertEqual(len(tables.one_of_each_size(self.found)), 1)

    def test_the_chart_has_a_bar_for_each_run_inside_of_it(self):
        root = xml.etree.ElementTree.fromstring(tables.svg(record(), self.found))
        bars = [rect for rect in root.iter(SVG + "rect")
                if rect.find(SVG + "title") is not None]
        self.assertEqual(len(bars), 4)
        room = tables.WIDTH - tables.LEFT - tables.RIGHT
        for bar in bars:
            self.assertLessEqual(float(bar.get("width")), room)
        height = float(root.get("height"))
        for element in root.iter(SVG + "text"):
            self.assertLess(float(element.get("y")), height)
        self.assertTrue(any("A <fast> CPU" in text.text
                            for text in root.iter(SVG + "text")))


class CommandTest(unittest.TestCase):
    """fleet.py with the times that are in the repository."""

    FOLDER = pathlib.Path(__file__).parents[2] / "bench" / "fleet"

    def call(self, *flags):
        return subprocess.run(
            [sys.executable, str(self.FOLDER / "fleet.py"), "--nodes=20",
             "--policies=ring-hash", "--seconds=80", *flags],
            capture_output=True, text=True, timeout=600, check=False)

    def test_the_exit_code_says_whether_something_was_violated(self):
        self.assertEqual(self.call().returncode, 0)
        broken = self.call("--moves=300", "--seed=3",
                           "--defect=standby-does-not-reread")
        self.assertEqual(broken.returncode, 1)
        self.assertIn("VIOLATION", broken.stderr)
        self.assertEqual(self.call("--faults=flood").returncode, 2)

    def test_figures_of_other_sizes_stay_in_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            out, chart = f"{folder}/out.json", f"{folder}/out.svg"
            self.call("--load=0", f"--out={out}")
            self.call("--load=0", "--nodes=3", f"--out={out}", f"--svg={chart}")
            found = json.loads(pathlib.Path(out).read_text())
            self.assertEqual([one["nodes"] for one in found], [3, 20])
            xml.etree.ElementTree.parse(chart)

    def test_recorded_times_grow_with_what_is_done(self):
        for one in times.read(self.FOLDER / "recorded.json")["times"].values():
            prompts = [one.prefill_s(n) for n in range(16, 4000, 16)]
            self.assertEqual(prompts, sorted(prompts))
            steps = [one.step_s(n, 100 * n) for n in range(1, one.slots + 1)]
            self.assertEqual(steps, sorted(steps))
            self.assertGreater(one.context_s, 0)


if __name__ == "__main__":
    unittest.main()
