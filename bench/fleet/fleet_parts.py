"""What a fleet consists of: nodes, workers, sessions; and what is asked."""
import dataclasses
import random

from engine import Engine

MAX_MESSAGE = MAX_REPLY = 512  # tokens


@dataclasses.dataclass
class Options:
    """What is simulated. Times in seconds, sizes in bytes and tokens."""
    nodes: int = 10
    node_bytes: int = 4 << 30
    cores: int = 4  # cores of a node; each worker has one of its own
    nodes_per_planner: int = 4096
    policy: str = "prefix-affinity"
    load: float = 0.6  # share of what the workers can do with nothing cached
    seconds: float = 120.0  # how long traffic comes
    warm_s: float = 30.0  # traffic does not count before this time
    start_s: float = 0.0  # the workers start within so long
    moves_per_hour: float = 6.0  # moves of each worker to another node
    faults: tuple = ("worker", "node", "partition", "leader", "lock")
    arrivals: tuple = ()  # when sessions come once all is loaded; replaces load
    seed: int = 1
    slo_s: float = 2.0  # a first token that comes later is no goodput
    grants_per_s: float = 0.0  # grants of one planner; 0: as recorded
    prompt_share: float = 0.47  # the worker's --prompt-share
    n_apps: int = 50  # with a beginning of prompts each, shared by its sessions
    app_tokens: int = 512
    message_tokens: float = 48.0  # means of exponential distributions
    reply_tokens: float = 96.0
    think_s: float = 8.0
    turns: float = 4.0  # mean of a geometric distribution
    defects: frozenset = frozenset()


@dataclasses.dataclass
class Session:
    """A chat: its app's beginning, then messages and replies in turn. What is
    said in it does not depend on how it is served."""
    number: int
    app: int
    front: object
    n_tokens: int  # tokens of its context so far
    turns_left: int
    random: object

    @classmethod
    def drawn(cls, number, front, options):
        source = random.Random(options.seed * 1_000_003 + number)
        # Apps are as popular as words: the k-th has 1 / k of the first's.
        app = int((options.n_apps + 1) ** source.random()) - 1
        turns = 1
        while source.random() > 1 / options.turns:
            turns += 1
        return cls(number, app, front, options.app_tokens, turns, source)

    def _length(self, mean, most):
        return max(1, min(most, round(self.random.expovariate(1 / mean))))

    def next_request(self, options, now):
        return Request(self, options.app_tokens,
                       self._length(options.message_tokens, MAX_MESSAGE),
                       self._length(options.reply_tokens, MAX_REPLY), now)

    def think_s(self, options):
        return self.random.expovariate(1 / options.think_s)


class Request:
    """One message of a session, with all that was said before."""
    __slots__ = ("session", "app", "n_app", "n_prompt", "n_reply", "arrived",
                 "ttft", "n_cached", "tried", "clock", "chat", "front")

    def __init__(self, chat, n_app, n_message, n_reply, now):
        self.chat = chat
        self.front = chat.front
        self.session = chat.number
        self.app = -1 - chat.app  # never a session's number
        self.n_app = n_app
        self.n_prompt = chat.n_tokens + n_message
        self.n_reply = n_reply
        self.arrived = now
        self.ttft = 0.0
        self.n_cached = 0
        self.tried = ()
        self.clock = 0.0

    @property
    def n_total(self):
        return self.n_prompt + self.n_reply


class Node:
    """A machine with one device."""

    def __init__(self, number, group):
        self.number = number
        self.group = group  # the planners that it asks
        self.alive = True
        self.used_bytes = 0  # bytes that processes have allocated
        self.workers = []


class Worker:
    """A process that serves one model, and its successors after failures."""

    def __init__(self, number, node, times, front, prompt_share):
        self.number = number
        self.node = node
        self.times = times
        self.front = front
        self.engine = Engine(times, prompt_share)
        self.state = "down"  # starting, loading, serving, draining
        self.process = 0  # it is a new number after each start
        self.lease = None
        self.fence = 0.0  # a load goes on until then
        self.confirmed = False
        self.in_flight_bytes = 0  # as its front counts
        self.last_turn = 0
        self.is_moving = False

    @property
    def side(self):
        """Which planner it reaches in a partition."""
        return self.number % 2


class Group:
    """Two planners with one journal, and the nodes that ask them."""

    def __init__(self, number, journal):
        self.number = number
        self.journal = journal
        self.planners = []  # by side; the process that runs there
        self.nodes = []
        self.partitioned = False
        self.is_doomed = False  # its leader dies between a grant and its reply

    def leader_for(self, worker, now):
        """The planner that answers this worker, or None."""
        for planner in self.planners:
            if planner.answers(now) and (not self.partitioned or
                                         planner.side == worker.side):
                return planner
        return None

    def leads(self):
        return any(p.alive and p.leading for p in self.planners)


def place(nodes, models, cores):
    """(node, model) of each worker: by turns, while the bytes of a node last.

    Nodes take their first model by turns, so that all models have replicas."""
    placed = []
    n_placed = dict.fromkeys((m.name for m in models), 0)
    for node, total in nodes:
        left, here = total, 0
        while here < cores:
            fitting = [m for m in models if m.bytes <= left]
            if not fitting:
                break
            model = min(fitting, key=lambda m: n_placed[m.name])
            n_placed[model.name] += 1
            left -= model.bytes
            here += 1
            placed.append((node, model))
    return placed
