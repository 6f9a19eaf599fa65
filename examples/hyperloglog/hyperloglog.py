"""A custom state: for each page a count of its visits, and its visitors as a HyperLogLog in Redis.

`HyperLogLogProvider` gives it to the bolt `visitors`; all other state, and what decisions and recovery need, is kept as
`RedisStateProvider` keeps it, in the same database.

Keys of a namespace, beside Anchorbolt's own:

| key | type | content |
|---|---|---|
| `<ns>$hll` | hash | `txid` and `winner`: what is committed, and the attempt that it came from |
| `<ns>$hll$visits` | hash | page to visits |
| `<ns>$hll$sketch$<page>` | HyperLogLog | the page's visitors |
| `<ns>$hll$attempts` | hash | attempt to `generation seq txid`, and ` sealed` behind it once it is whole |
| `<ns>$hll$<attempt>` | hash | what an attempt adds: page to visits |
| `<ns>$hll$<attempt>$<page>` | HyperLogLog | what it adds to the page's visitors |

Each step is one script, so none is ever seen half done. The scripts make up names of keys, so this is for a single
Redis, not for Redis Cluster.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from anchorbolt.errors import StateRegressed, StateUnavailable
from anchorbolt.state_backends import AttemptState
from anchorbolt.state_backends.redis.provider import RedisStateProvider

_BUFFERED_VISITS = 10_000

_STAGE = """
local base, attempt, entry, sealed = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
redis.call('HSET', base .. '$attempts', attempt, entry .. sealed)
local at = 4
while at <= #ARGV do
  local page, visits, visitors = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  redis.call('HINCRBY', base .. '$' .. attempt, page, visits)
  local last = at + 2 + visitors
  for start = at + 3, last, 1000 do
    redis.call('PFADD', base .. '$' .. attempt .. '$' .. page, unpack(ARGV, start, math.min(start + 999, last)))
  end
  at = last + 1
end
"""

_DROP = """
local function drop(base, attempt)
  for _, page in ipairs(redis.call('HKEYS', base .. '$' .. attempt)) do
    redis.call('DEL', base .. '$' .. attempt .. '$' .. page)
  end
  redis.call('DEL', base .. '$' .. attempt)
  redis.call('HDEL', base .. '$attempts', attempt)
end
local function drop_lower(base, generation, seq)
  local attempts = redis.call('HGETALL', base .. '$attempts')
  for at = 1, #attempts, 2 do
    local its_generation, its_seq = string.match(attempts[at + 1], '^(%d+) (%d+) ')
    its_generation, its_seq = tonumber(its_generation), tonumber(its_seq)
    if its_generation < generation or (its_generation == generation and its_seq < seq) then
      drop(base, attempts[at])
    end
  end
end
"""

_COMMIT = (
    _DROP
    + """
local base, txid, attempt = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if tonumber(redis.call('HGET', base, 'txid') or '-1') >= txid then return 1 end
local entry = redis.call('HGET', base .. '$attempts', attempt) or ''
local generation, seq, its_txid = string.match(entry, '^(%d+) (%d+) (%d+) sealed$')
if tonumber(its_txid) ~= txid then return 0 end
local visits = redis.call('HGETALL', base .. '$' .. attempt)
for at = 1, #visits, 2 do
  local sketch = base .. '$sketch$' .. visits[at]
  redis.call('HINCRBY', base .. '$visits', visits[at], visits[at + 1])
  redis.call('PFMERGE', sketch, sketch, base .. '$' .. attempt .. '$' .. visits[at])
end
redis.call('HSET', base, 'txid', txid, 'winner', attempt)
drop_lower(base, tonumber(generation), tonumber(seq) + 1)
return 1
"""
)

_DROP_LOWER = _DROP + "drop_lower(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]))"


class HyperLogLogState(AttemptState):
    """The state that `init_state` gives a bolt: it adds visits and returns their counts."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._base = f"{namespace}$hll"
        self._visits: defaultdict[str, int] = defaultdict(int)
        self._visitors: defaultdict[str, set[str]] = defaultdict(set)
        self._buffered = 0
        self._failure: Exception | None = None

    def add(self, page: str, visitor: str) -> None:
        """Add a visit. After 10,000 visits they are staged under this attempt, so that memory is bounded."""
        self._visits[page] += 1
        self._visitors[page].add(visitor)
        self._buffered += 1
        if self._buffered >= _BUFFERED_VISITS:
            self._stage(self.scope.txid)

    def visits(self, page: str) -> int:
        """Return the number of visits of the page, including this wave."""
        with self._translated():
            keys = (f"{self._base}$visits", f"{self._base}${self.scope.attempt}")
            stored = [self._client.hget(key, page) for key in keys]
        return sum(int(count) for count in stored if count) + self._visits[page]

    def visitors(self, page: str) -> int:
        """Return the number of distinct visitors of the page, including this wave, with an error of about 0.8 %."""
        self._stage(self.scope.txid)
        with self._translated():
            return int(self._client.pfcount(f"{self._base}$sketch${page}", f"{self._base}${self.scope.attempt}${page}"))

    def begin(self, scope: Any) -> None:
        super().begin(scope)
        self._forget()
        self._failure = None
        with self._translated():
            txid, winner = self._client.hmget(self._base, "txid", "winner")
        found = (int(txid), winner.decode()) if txid else (-1, "")
        if found != (scope.committed, scope.winner):
            raise StateRegressed(
                f"the sketches of {self._namespace!r} must be at txid {scope.committed}, but Redis has {found[0]}. "
                "It was restored from an older copy, or lost data. Restore it together with the rest of the state.",
                namespace=self._namespace,
                expected=f"txid {scope.committed}",
                found=f"txid {found[0]}",
            )

    def prepare_commit(self, txid: int) -> None:
        self._stage(txid, sealed=" sealed")

    def commit_attempt(self, txid: int, attempt: str) -> None:
        if not self._run(_COMMIT, txid, attempt):
            raise StateRegressed(
                f"the sketches of {self._namespace!r} have no attempt {attempt} of txid {txid}, which was decided: "
                "Redis lost data. Restore it together with the rest of the state.",
                namespace=self._namespace,
            )

    def drop_attempts(self, fence: Any) -> None:
        self._run(_DROP_LOWER, fence.generation, fence.seq)

    def close(self) -> None:
        self._client.close()

    def _stage(self, txid: int, sealed: str = "") -> None:
        if self._failure is not None:
            raise self._failure  # the staged data is unknown, so this attempt must not win
        fence = self.scope.fence
        arguments: list[Any] = [self.scope.attempt, f"{fence.generation} {fence.seq} {txid}", sealed]
        for page, count in self._visits.items():
            visitors = sorted(self._visitors[page])
            arguments += [page, count, len(visitors), *visitors]
        try:
            self._run(_STAGE, *arguments)
        except Exception as error:
            self._failure = error
            raise
        self._forget()

    def _forget(self) -> None:
        self._visits.clear()
        self._visitors.clear()
        self._buffered = 0

    def _run(self, script: str, *arguments: Any) -> Any:
        with self._translated():
            return self._client.eval(script, 1, self._base, *arguments)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (
            redis.ConnectionError,
            redis.TimeoutError,
        ) as error:  # the engine waits for the store; any other error ends the run
            raise StateUnavailable(
                f"the Redis of {self._namespace!r} does not answer: {error}", namespace=self._namespace
            ) from error


class HyperLogLogProvider(RedisStateProvider):
    """Redis for everything, and sketches for the bolt `visitors`. Takes `host`, `port`, `password`, …"""

    def new_state(self, namespace: str, context: Any) -> HyperLogLogState | None:
        if context.this_component_id != "visitors":
            return None
        return HyperLogLogState(self.connect(), namespace)

    def connect(self) -> redis.Redis:
        """Return a new client without retries: staging a visit twice would count it twice."""
        seconds = self.timeout_ms / 1000
        encryption = {}
        if self.tls is not None:
            encryption = {
                "ssl": True,
                "ssl_ca_certs": self.tls.ca,
                "ssl_certfile": self.tls.cert,
                "ssl_keyfile": self.tls.key,
                "ssl_cert_reqs": "required" if self.tls.verify else "none",
                "ssl_check_hostname": self.tls.verify,
            }
        return redis.Redis(
            self.host,
            self.port,
            db=self.database,
            username=self.username,
            password=self.password.reveal() if self.password else None,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            **encryption,
        )


def read_pages(client: redis.Redis, topology: str, tasks: int) -> dict[str, tuple[int, int]]:
    """Return the committed visits and the estimated visitors of every page."""
    pages = {}
    for index in range(tasks):
        base = f"{topology}:visitors-{index}$hll"
        for page, visits in client.hgetall(f"{base}$visits").items():
            pages[page.decode()] = (int(visits), client.pfcount(f"{base}$sketch$".encode() + page))
    return pages
