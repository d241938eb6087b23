"""A worker's engine over recorded times: slots, queue, prompts, steps, cache.

Nothing happens between two events but that streams and one prompt go on, so
there is one event for the end of a prompt or a reply, and none for a step.
"""
import collections
import heapq

PAGE = 64  # tokens; only whole pages are shared
MAX_CACHE_PAGES = 4096  # docs/shared_prefixes.md
MAX_QUEUE = 64


class PrefixCache:
    """Which beginnings of prompts a worker still has, the last used last."""

    def __init__(self, times):
        self.capacity = min(times.kv_tokens, MAX_CACHE_PAGES * PAGE)
        self.snapshots = times.snapshots
        self.entries = collections.OrderedDict()  # key: tokens
        self.own = {}  # key: tokens that it shares with no other
        self.tokens = 0  # tokens of all entries

    def cached(self, request):
        """Tokens of the request's prompt that need not be computed."""
        best = 0
        for key in (request.session, request.app):
            if key in self.entries:
                best = max(best, self.entries[key])
                self.entries.move_to_end(key)
        return min(best, request.n_prompt - 1) // PAGE * PAGE

    def keep(self, key, n_tokens, own_tokens, used_tokens):
        """Keeps n_tokens under `key`, of which own_tokens are its alone."""
        self.tokens += own_tokens - self.own.pop(key, 0)
        self.own[key] = own_tokens
        self.entries[key] = n_tokens
        self.entries.move_to_end(key)
        room = max(0, self.capacity - used_tokens)
        most = self.snapshots or len(self.entries)
        while self.entries and (self.tokens > room or len(self.entries) > most):
            key, _ = self.entries.popitem(last=False)
            self.tokens -= self.own.pop(key)


class Engine:
    """One model's streams. Times are those of one core that it has alone."""

    def __init__(self, times, prompt_share):
        self.times = times
        self.prompt_share = prompt_share
        self.now = 0.0
        self.clock = 0.0  # tokens that each stream has had since the start
        self.decoding = []  # heap of (clock at its end, number, request)
        self.context = 0.0  # tokens of all that decode, at clock 0's rate
        self.prompts = collections.deque()  # the first one is computed
        self.left_s = 0.0  # seconds left of the first prompt, were it alone
        self.waiting = collections.deque()
        self.cache = PrefixCache(times)
        self.version = 0  # an event of an older version is void
        self.number = 0

    @property
    def n_running(self):
        return len(self.decoding) + len(self.prompts)

    def _context_tokens(self):
        return self.context + len(self.decoding) * self.clock

    def _step_s(self):
        return self.times.step_s(len(self.decoding), self._context_tokens())

    def _rates(self):
        """(tokens a second of each stream, seconds of prompt a second)."""
        if not self.decoding:
            return 0.0, 1.0
        if not self.prompts:
            return 1 / self._step_s(), 0.0
        return (1 - self.prompt_share) / self._step_s(), self.prompt_share

    def advance(self, now):
        tokens_rate, prompt_rate = self._rates()
        passed = now - self.now
        self.clock += passed * tokens_rate
        if self.prompts:
            self.left_s -= passed * prompt_rate
        self.now = now

    def next_at(self):
        """When the next prompt or reply ends, or None."""
        tokens_rate, prompt_rate = self._rates()
        ends = []
        if self.decoding:
            ends.append(max(0.0, self.decoding[0][0] - self.clock) / tokens_rate)
        if self.prompts:
            ends.append(max(0.0, self.left_s) / prompt_rate)
        return self.now + min(ends) if ends else None

    def add(self, request, now):
        """Takes a request; False: the queue is full."""
        self.advance(now)
        self.version += 1
        if self.n_running < self.times.slots:
            self._begin(request)
        elif len(self.waiting) < MAX_QUEUE:
            self.waiting.append(request)
        else:
            return False
        return True

    def _begin(self, request):
        self.prompts.append(request)
        if len(self.prompts) == 1:
            self._start_prompt()

    def _start_prompt(self):
        request = self.prompts[0]
        request.n_cached = self.cache.cached(request)
        self.left_s = self.times.prefill_s(request.n_prompt, request.n_cached)

    def _used_tokens(self):
        return self._context_tokens() + sum(r.n_prompt for r in self.prompts)

    def take_ended(self, now):
        """(requests whose first token came, requests that are complete)."""
        self.advance(now)
        self.version += 1
        begun, complete = [], []
        while self.decoding and self.decoding[0][0] <= self.clock + 1e-6:
            _, _, request = heapq.heappop(self.decoding)
            self.context -= request.n_prompt - request.clock
            # A model with windows has its snapshot at the prompt's end.
            n = request.n_prompt if self.times.snapshots else request.n_total
            self.cache.keep(request.session, n // PAGE * PAGE,
                            max(0, n - request.n_app), self._used_tokens())
            complete.append(request)
        while self.prompts and self.left_s <= 1e-9:
            request = self.prompts.popleft()
            self.cache.keep(request.app, request.n_app // PAGE * PAGE,
                            request.n_app, self._used_tokens())
            begun.append(request)
            self.number += 1
            request.clock = self.clock
            self.context += request.n_prompt - self.clock
            heapq.heappush(self.decoding, (
                self.clock + request.n_reply - 1, self.number, request))
            if self.prompts:
                self._start_prompt()
        while self.waiting and self.n_running < self.times.slots:
            self._begin(self.waiting.popleft())
        return begun, complete

    def drop_all(self):
        """(streams that had begun, requests that had not) of a dead worker."""
        begun = [request for _, _, request in self.decoding]
        unbegun = [*self.prompts, *self.waiting]
        self.decoding, self.context = [], 0.0
        self.prompts.clear()
        self.waiting.clear()
        self.cache = PrefixCache(self.times)
        self.version += 1
        return begun, unbegun
