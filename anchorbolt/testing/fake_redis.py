"""`FakeRedisStateProvider`: the `redis` provider on fakeredis, a Redis within the test's process."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from anchorbolt.state_backends.redis.addresses import RedisServer
from anchorbolt.state_backends.redis.provider import RedisProvider

try:
    import fakeredis
    import lupa  # noqa: F401 (fakeredis runs scripts with it, and calls EVAL an unknown command without it)
except ImportError as missing:
    raise ImportError(
        f"FakeRedisStateProvider needs a package that is not installed ({missing}): pip install 'anchorbolt[testing]'"
    ) from missing

# fakeredis has no cmsgpack. This reads what the scripts unpack: two lists of strings.
_CMSGPACK = """
local cmsgpack = {}
function cmsgpack.unpack(packed)
  local at = 1
  local function size(bytes)
    local number = 0
    for _ = 1, bytes do
      number = number * 256 + (string.byte(packed, at) or error('Missing bytes in input.'))
      at = at + 1
    end
    return number
  end
  local function text(length)
    if at + length - 1 > #packed then error('Missing bytes in input.') end
    at = at + length
    return string.sub(packed, at - length, at - 1)
  end
  local value
  local function list(length)
    local items = {}
    for i = 1, length do items[i] = value() end
    return items
  end
  local lengths = {[0xd9] = 1, [0xda] = 2, [0xdb] = 4}
  function value()
    local tag = size(1)
    if tag >= 0xa0 and tag <= 0xbf then return text(tag - 0xa0) end
    if lengths[tag] then return text(size(lengths[tag])) end
    if tag >= 0x90 and tag <= 0x9f then return list(tag - 0x90) end
    if tag == 0xdc or tag == 0xdd then return list(size(tag == 0xdc and 2 or 4)) end
    error('Bad data format in input.')
  end
  return value()
end
"""

# Weak: a test's data disappears together with its provider.
_servers: WeakValueDictionary[str, fakeredis.FakeServer] = WeakValueDictionary()


class FakeRedisStateProvider(RedisProvider):
    """The `redis` provider without a server, for unit tests with `LocalCluster`.

    Its keys and scripts are those of a real Redis. `docs/testing.md` lists the limits of fakeredis. Use it like this:

        redis = FakeRedisStateProvider()
        handle = LocalCluster().submit(topology, redis.conf)
        handle.await_termination()
        assert redis.client().hlen("visits:visits-0") == 2

    Attributes:
        name: Providers of the same name in one process share their content.
    """

    shared_by_processes = False
    shared_by_machines = False
    largest_value = None

    def __init__(self, name: str | None = None) -> None:
        """Share the content of the providers called `name`; without a name, start empty.

        Raises:
            ImportError: fakeredis or lupa is not installed.
        """
        self.name = name or uuid.uuid4().hex
        self._server = _server(self.name)

    @property
    def address(self) -> RedisServer:
        return _FakeAddress(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return FakeRedisStateProvider, (self.name,)

    @property
    def conf(self) -> Mapping[str, Any]:
        """The configuration with which a topology on `LocalCluster` keeps its state here."""
        return {
            "topology.state.provider": "anchorbolt.testing.FakeRedisStateProvider",
            "topology.state.provider.config": {"name": self.name},
        }

    def client(self) -> Any:
        """Return a redis-py client, with which a test may read and change the stored data."""
        return self.address.connect()

    def describe(self) -> str:
        """Return the name of the store, for messages."""
        return str(self.address)


class _FakeAddress(RedisServer):
    def __post_init__(self) -> None:
        """Take any name."""

    def __str__(self) -> str:
        return f"fakeredis {self.host}"

    def connect(self) -> Any:
        return _FakeRedis(server=_server(self.host), protocol=2)


class _FakeRedis(fakeredis.FakeRedis):
    def execute_command(self, *command: Any, **options: Any) -> Any:
        name, *arguments = command
        if name == "INFO":  # fakeredis does not know it; it never evicts
            return {}
        if name == "EVAL":
            whole = _CMSGPACK + arguments[0]
            _whole_digests[_digest(arguments[0])] = _digest(whole)
            arguments[0] = whole
        elif name == "EVALSHA":
            arguments[0] = _whole_digests.get(arguments[0], arguments[0])
        return super().execute_command(name, *arguments, **options)  # type: ignore[no-untyped-call]


# Digest of a script to the digest of the same script with cmsgpack.
_whole_digests: dict[str, str] = {}


def _digest(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _server(name: str) -> Any:
    return _servers.setdefault(name, fakeredis.FakeServer())
