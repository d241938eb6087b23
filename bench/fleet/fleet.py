#!/usr/bin/env python3
"""How does a fleet of workers and planners behave, from one node to thousands?

Simulates placement by bytes, leases, routing and failures, over service times
that record.py measured on a real worker. One thread and one seed: the same
command gives the same figures.

  Nodes have a device of some bytes, and a core for each worker. Each model's
  replicas are placed by the bytes of its plan; every worker asks a planner for
  a lease, loads, confirms and renews, by the rules of planner/lease. A planner
  has a standby that waits for the lock of their journal.
  Sessions come at random. Each has the beginning of its app, shared with the
  app's other sessions, and sends messages with all that was said before.
  Fronts route them: round-robin; ring-hash on the session, as Envoy does;
  least-bytes in flight; prefix-affinity on the app, as the gateway does.
  In the middle of the traffic workers are killed, nodes vanish, planners and
  workers are partitioned, the leader is killed between a grant and its reply,
  and the leader loses its lock while it lives and half of the workers reach it.

After every event it is checked that no device has more bytes granted than it
has, that nobody grants while another planner has the lock, that no request is
granted twice, that a stream is lost only with its worker or node, and that a
standby takes over within 5 s. A violation is printed, and the exit code is 1.
--defect plants a mistake, to see that it is found.

examples:
  fleet.py                                  # 10 nodes, each routing
  fleet.py --nodes 1,10,100,1000,4000 --out figures.json --svg fleet.svg
  fleet.py --nodes 20 --moves 300 --defect standby-does-not-reread --seed 3
  fleet.py --nodes 100 --nodes-per-planner 1 --faults worker
"""
import argparse
import json
import pathlib
import sys

import tables
import times
from fleet_parts import Options
from routing import POLICIES
from simulation import Simulation
from workers import FAULTS

DEFECTS = {
    "standby-ignores-lock": "leads as soon as it does not reach the leader",
    "standby-does-not-reread": "begins with an empty book",
    "standby-reads-before-its-name": "reads the journal, then writes its name",
    "standby-forgets-requests": "grants a repeated request anew",
    "standby-polls-slowly": "looks for the lock each 10 s",
    "old-leader-grants-on": "does not look whose name is in the journal",
    "expiry-frees": "an expired lease is free without proof",
    "reading-frees-reservations": "a reading ends a reservation at once",
    "streams-need-a-planner": "workers end streams when no planner answers",
}
GIB = 1 << 30


def parse():
    defaults = Options()
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="defects:\n" + "\n".join(
            f"  {name}: {words}" for name, words in DEFECTS.items()))
    add = parser.add_argument
    add("--record", metavar="FILE", help="of record.py",
        default=str(pathlib.Path(__file__).with_name("recorded.json")))
    add("--nodes", default="10", metavar="N,...", help="sizes (10)")
    add("--policies", default=",".join(POLICIES), metavar="P,...",
        help="kinds of routing (all four)")
    add("--node-memory", type=float, default=defaults.node_bytes / GIB,
        metavar="GIB", help="of a node's device (4)")
    add("--nodes-per-planner", type=int, default=defaults.nodes_per_planner,
        metavar="N", help="with 1, planners see their workers end (4096)")
    add("--load", type=float, default=defaults.load,
        help="1: what the workers could do if nothing were cached, and four"
             f" streams ran in each ({defaults.load:g})")
    add("--seconds", type=float, default=defaults.seconds,
        help=f"of traffic ({defaults.seconds:g})")
    add("--warm", type=float, default=defaults.warm_s, metavar="SECONDS",
        help=f"of it that do not count ({defaults.warm_s:g})")
    add("--start", type=float, default=defaults.start_s, metavar="SECONDS",
        help="in which the workers start; 0: all at once")
    add("--moves", type=float, default=defaults.moves_per_hour, metavar="N",
        help=f"of each worker to another node in an hour"
             f" ({defaults.moves_per_hour:g})")
    add("--grants-per-s", type=float, default=0.0, metavar="N",
        help="of one planner, by its disk (as recorded)")
    add("--faults", default=",".join(FAULTS), metavar="F,...",
        help=f"of {', '.join(FAULTS)}; or none")
    add("--defect", action="append", default=[], choices=DEFECTS, metavar="D",
        help="plants one of those below; may be given again")
    add("--seed", type=int, default=defaults.seed, help="(1)")
    add("--out", metavar="FILE", help="figures as JSON; those of other sizes"
        " and policies that are there stay")
    add("--svg", metavar="FILE", help="a chart of all figures of --out")
    add("--markdown", action="store_true", help="print tables for a page")
    args = parser.parse_args()
    args.sizes = [int(n) for n in args.nodes.split(",")]
    args.policies = args.policies.split(",")
    args.faults = [] if args.faults == "none" else args.faults.split(",")
    wrong = ([p for p in args.policies if p not in POLICIES]
             + [f for f in args.faults if f not in FAULTS])
    if wrong:
        parser.error(f"what is {wrong[0]}?")
    if min(args.sizes) < 1 or args.seconds <= args.warm or args.load < 0:
        parser.error("there must be a node, traffic that counts and a load")
    return args


def options_of(args, nodes, policy):
    return Options(
        nodes=nodes, policy=policy, node_bytes=int(args.node_memory * GIB),
        nodes_per_planner=1 if nodes == 1 else args.nodes_per_planner,
        load=args.load, seconds=args.seconds, warm_s=args.warm,
        start_s=args.start, moves_per_hour=args.moves, seed=args.seed,
        grants_per_s=args.grants_per_s, faults=tuple(args.faults),
        defects=frozenset(args.defect))


def merged(path, found):
    """All figures that a file has, with the new ones in place of old ones."""
    known = {}
    if path and pathlib.Path(path).exists():
        known = {(one["nodes"], one["policy"]): one
                 for one in json.loads(pathlib.Path(path).read_text())}
    known.update({(one["nodes"], one["policy"]): one for one in found})
    order = {policy: i for i, policy in enumerate(POLICIES)}
    found = sorted(known.values(), key=lambda f: (f["nodes"], order[f["policy"]]))
    if path:
        pathlib.Path(path).write_text(json.dumps(found, indent=1) + "\n")
    return found


def main():
    args = parse()
    record = times.read(args.record)
    found = []
    for nodes in args.sizes:
        for policy in args.policies:
            simulation = Simulation(options_of(args, nodes, policy), record,
                                    progress=True)
            found.append(simulation.run())
    broken = [words for one in found for words in one["first_violations"]]
    found = merged(args.out, found)
    show = tables.markdown if args.markdown else tables.text
    print(f"{tables.conditions(record, found[0])}\n")
    print(show(found, tables.SERVING) + "\n")
    print(show(tables.one_of_each_size(found), tables.PLANNERS))
    if args.svg:
        pathlib.Path(args.svg).write_text(tables.svg(record, found))
    for words in broken:
        print(f"VIOLATION at {words}", file=sys.stderr)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
