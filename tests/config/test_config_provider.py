"""From a configuration to a state provider."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError, StateUnavailable
from anchorbolt.state_backends.contract import StateProvider, StateStorage
from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider

CONFIG = "topology.state.provider.config"


class OwnProvider(StateProvider):
    """A user's provider, which shows what it was built with."""

    def __init__(self, place: str = "", **more: Any) -> None:
        if place == "bad":
            raise ValueError("no such place")
        if place == "away":
            raise StateUnavailable("the store is away. Start it.")
        self.place = place
        self.more = more

    def open(self, namespace: str) -> StateStorage:
        raise NotImplementedError

    def namespaces(self, prefix: str = "") -> Iterable[str]:
        raise NotImplementedError

    def describe(self) -> str:
        raise NotImplementedError


def build(conf: dict[str, Any], *, processes: bool = False, machines: bool = False) -> StateProvider:
    return provider_from(load_conf(conf).settings, shared_by_processes=processes, shared_by_machines=machines)


class OwnRedis(RedisStateProvider):
    """A user's, that has another state for some bolts."""


def own(config: dict[str, Any] | None = None, name: str = f"{__name__}.OwnProvider") -> dict[str, Any]:
    return {"topology.state.provider": name, CONFIG: config}


def test_sqlite_is_the_default_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert build({}, processes=True) == SqliteStateProvider(str(tmp_path / "anchorbolt-data/state"))
    assert list(tmp_path.iterdir()) == []


def test_memory_is_a_provider_of_its_own_each_time() -> None:
    first, second = build({"topology.state.provider": "memory"}), build({"topology.state.provider": "memory"})
    assert isinstance(first, MemoryStateProvider)
    assert first is not second


LOGIN = {"username": "me", "password": "s3cret"}
SECRET_LOGIN: dict[str, Any] = {"username": "me", "password": Secret("s3cret")}
TLS: dict[str, Any] = {"ca": "ca.pem", "cert": "me.pem", "key": "me.key", "verify": False}
POOL = {"host": "store", "port": 7000, "timeout": 50, "database": 3, **LOGIN, "tls": TLS}
CLUSTER = {"nodes": ["a:1", "b:2"], "timeout": 50, "maxRedirections": 0, **LOGIN, "tls": TLS}
THRIFT = {"host": "h", "port": 1, "timeout": 5, "transport": "framed", "protocol": "compact", "tls": TLS}
HBASE = {"tableName": "t", "columnFamily": "f", "createTable": True, "largestValue": 7, "thriftConfig": THRIFT}


@pytest.mark.parametrize(
    ("name", "inner", "expected"),
    [
        ("redis", {}, RedisStateProvider()),
        (
            "redis",
            {"jedisPoolConfig": POOL},
            RedisStateProvider("store", 7000, database=3, timeout_ms=50, tls=TlsSettings(**TLS), **SECRET_LOGIN),
        ),
        ("redis-cluster", {}, RedisClusterStateProvider()),
        (
            "redis",
            {"jedisClusterConfig": CLUSTER},
            RedisClusterStateProvider(
                ["a:1", "b:2"], max_redirections=0, timeout_ms=50, tls=TlsSettings(**TLS), **SECRET_LOGIN
            ),
        ),
        (
            "hbase",
            HBASE,
            HBaseStateProvider(
                *("t", "f"),
                host="h",
                port=1,
                timeout_ms=5,
                transport="framed",
                protocol="compact",
                create_table=True,
                largest_value=7,
                tls=TlsSettings(**TLS),
            ),
        ),
        (  # as Storm documents it
            "org.apache.storm.hbase.state.HBaseKeyValueStateProvider",
            '{"keyClass": "java.lang.String", "hbaseConfigKey": "hbase.conf", "tableName": "t", "columnFamily": "f"}',
            HBaseStateProvider("t", "f"),
        ),
    ],
)
def test_a_provider_gets_every_setting_and_bolts_see_no_password(name: str, inner: Any, expected: Any) -> None:
    storm = {"hbase.conf": {"hbase.zookeeper.quorum": "zk", "hbase.security.authentication": "simple"}}
    conf = load_conf({"topology.state.provider": name, CONFIG: inner, **storm})
    assert provider_from(conf.settings, shared_by_processes=True, shared_by_machines=True) == expected
    assert "s3cret" not in repr(conf.settings) + repr(dict(conf))
    for group in ("jedisPoolConfig", "jedisClusterConfig"):
        assert "password" not in conf[CONFIG][group]


@pytest.mark.parametrize(
    ("name", "machines", "where"),
    [("memory", True, "on one machine"), ("sqlite", True, "on one machine"), ("memory", False, "in one process")],
)
def test_state_in_one_place_is_refused_for_several(tmp_path: Path, name: str, machines: bool, where: str) -> None:
    conf = {"topology.state.provider": name, CONFIG: {"directory": str(tmp_path)}}
    with pytest.raises(ConfigError, match=f"is {name}, whose state is {where}"):
        build(conf, processes=True, machines=machines)


def test_users_class_is_built_with_its_configuration_and_secret_passwords() -> None:
    config = {"place": "there", "login": {"password": "s3cret"}, "keySerializerClass": "json"}
    conf = load_conf(own(config))
    provider = provider_from(conf.settings, shared_by_processes=True, shared_by_machines=True)
    assert isinstance(provider, OwnProvider)
    assert provider.place == "there"
    assert provider.more == {"login": {"password": Secret("s3cret")}}
    assert conf.settings.provider.key_serializer == "json"
    assert conf[CONFIG]["place"] == "there"
    assert "s3cret" not in repr(conf.settings) + repr(dict(conf))


def test_tls_of_a_users_subclass_of_ours_is_the_mapping_in_its_configuration() -> None:
    for tls, expected in (
        ({"ca": "ca.pem", "verify": False}, TlsSettings(ca="ca.pem", verify=False)),
        ({}, TlsSettings()),
    ):
        provider = build(own({"host": "store", "tls": tls}, f"{__name__}.OwnRedis"))
        assert isinstance(provider, OwnRedis)
        assert provider.tls == expected
    for wrong in ({"cafile": "ca.pem"}, True):
        with pytest.raises(ConfigError, match="ca, cert, key, verify"):
            build(own({"tls": wrong}, f"{__name__}.OwnRedis"))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("no_such_module_anywhere.Provider", "cannot be imported: ModuleNotFoundError"),
        (f"{__name__}.OwnProvidr", "has no 'OwnProvidr'. Did you mean 'OwnProvider'?"),
        (f"{__name__}.build", "not a subclass of"),
        (f"{__name__}.Path", "not a subclass of"),
    ],
)
def test_name_that_is_no_provider_class(name: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(own(name=name))
    assert caught.value.message.startswith(f"topology.state.provider is {name}, ")
    assert part in caught.value.message


def test_class_that_refuses_its_configuration_or_is_abstract() -> None:
    with pytest.raises(ConfigError) as caught:
        build(own({"place": "bad"}))
    assert "could not be built with the arguments place" in caught.value.message
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(StateUnavailable):
        build(own({"place": "away"}))
    with pytest.raises(ConfigError, match="could not be built"):
        build(own(name="anchorbolt.state_backends.contract.StateProvider"))
