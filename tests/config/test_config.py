"""Configuration: where it comes from, its defaults, and what bolts see of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import ProviderSettings, RedisSettings, TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import Settings

CONFIG = "topology.state.provider.config"
LOGIN = {"username": None, "passwordEnv": None, "passwordFile": None, "tls": None}
THRIFT = {"host": "localhost", "port": 9090, "timeout": 2000, "transport": "buffered", "protocol": "binary"}
DEFAULTS: dict[str, Any] = {
    "topology.state.provider": "sqlite",
    "topology.state.provider.config": {
        **dict.fromkeys(("keyClass", "valueClass", "directory", "tableName", "columnFamily", "hbaseConfigKey")),
        **dict.fromkeys(("keySerializerClass", "valueSerializerClass"), "msgpack"),
        "createTable": False,
        "largestValue": None,
        "jedisPoolConfig": {"host": "localhost", "port": 6379, "timeout": 2000, "database": 0, **LOGIN},
        "jedisClusterConfig": {"nodes": ["localhost:6379"], "timeout": 2000, "maxRedirections": 5, **LOGIN},
        "thriftConfig": {**THRIFT, "tls": None},
    },
    "topology.state.namespace.prefix": None,
    "topology.state.checkpoint.interval.ms": 1000,
    "topology.checkpoint.location": None,
    "topology.checkpoint.accept.new.query": False,
    "topology.message.timeout.secs": 30,
    "topology.max.batch.retries": 3,
    "topology.state.cache.max.entries": 200_000,
    "topology.state.pending.max.entries": 100_000,
    "topology.transfer.blob.bytes": 1 << 20,
    "topology.transfer.buffer.tuples": 16_384,
    "topology.task.timeout.secs": None,
}


def redis(**pool: Any) -> RedisSettings:
    return load_conf({CONFIG: {"jedisPoolConfig": pool}}).settings.provider.redis


def test_without_a_configuration_everything_has_its_default() -> None:
    conf = load_conf()
    assert dict(conf) == DEFAULTS
    assert conf.settings == Settings()


def test_null_means_the_default_and_never_zero() -> None:
    nulls: dict[str, Any] = dict.fromkeys(DEFAULTS)
    assert dict(load_conf(nulls)) == DEFAULTS
    nulls[CONFIG] = {"directory": None, "jedisPoolConfig": dict.fromkeys(DEFAULTS[CONFIG]["jedisPoolConfig"])}
    assert load_conf(nulls).settings == Settings()


@pytest.mark.parametrize(
    ("name", "inner", "expected"),
    [
        ("redis", {"jedisClusterConfig": {}}, "redis-cluster"),
        ("redis", {"jedisClusterConfig": {}, "jedisPoolConfig": {}}, "redis"),
        ("redis", {}, "redis"),
        ("redis-cluster", {"jedisPoolConfig": {}}, "redis-cluster"),
        (
            "org.apache.storm.redis.state.RedisKeyValueStateProvider",
            '{"jedisClusterConfig": {"nodes": ["localhost:7379", "localhost:7380"], "timeout": 2000, '
            '"maxRedirections": 5}}',
            "redis-cluster",
        ),
        ("sqlite", {"jedisClusterConfig": {}}, "sqlite"),
        ("org.apache.storm.redis.state.RedisKeyValueStateProvider", {}, "redis"),
        ("org.apache.storm.state.InMemoryKeyValueStateProvider", {}, "memory"),
    ],
)
def test_storms_names_choose_our_provider_and_redis_is_a_cluster_where_only_one_is_configured(
    name: str, inner: Any, expected: str
) -> None:
    conf = load_conf({"topology.state.provider": name, CONFIG: inner})
    assert conf.settings.provider.name == conf["topology.state.provider"] == expected


def test_every_key_reaches_the_settings_and_the_bolts() -> None:
    given: dict[str, tuple[str, Any]] = {
        "topology.state.namespace.prefix": ("namespace_prefix", "shared"),
        "topology.state.checkpoint.interval.ms": ("checkpoint_interval_ms", 250),
        "topology.checkpoint.location": ("checkpoint_location", "s3://bucket/here"),
        "topology.checkpoint.accept.new.query": ("accept_new_query", True),
        "topology.message.timeout.secs": ("message_timeout_secs", 9),
        "topology.max.batch.retries": ("max_batch_retries", 0),
        "topology.state.cache.max.entries": ("cache_entries", 0),
        "topology.state.pending.max.entries": ("pending_entries", 1),
        "topology.transfer.blob.bytes": ("blob_bytes", 4096),
        "topology.transfer.buffer.tuples": ("buffer_tuples", 7),
        "topology.task.timeout.secs": ("task_timeout_secs", 60),
    }
    values = {key: value for key, (_, value) in given.items()}
    serializers = {"keySerializerClass": "json", "valueSerializerClass": "pickle"}
    config = {"directory": "/state", "keyClass": "java.lang.String", **serializers}
    conf = load_conf({"topology.state.provider": "redis", CONFIG: config, **values})
    provider = ProviderSettings(
        name="redis",
        is_set=True,
        directory="/state",
        key_class="java.lang.String",
        key_serializer="json",
        value_serializer="pickle",
    )
    assert conf.settings == Settings(provider=provider, **dict(given.values()))
    assert dict(conf) == {**values, "topology.state.provider": "redis", CONFIG: {**DEFAULTS[CONFIG], **config}}


def test_providers_configuration_may_be_a_json_string_as_in_storm() -> None:
    text = json.dumps({"keyClass": "A", "jedisPoolConfig": {"host": "store", "password": "s3cret"}})
    conf = load_conf({"topology.state.provider": "redis", CONFIG: text})
    assert conf.settings.provider.redis == RedisSettings(host="store", password=Secret("s3cret"))
    assert conf[CONFIG]["keyClass"] == "A"


@pytest.mark.parametrize(
    "serializers",
    [
        ("Optional Key serializer implementation class.", "Optional Value Serializer implementation class."),
        ("...", "..."),
    ],
)
def test_the_examples_of_storms_documentation_are_accepted_word_for_word(serializers: tuple[str, str]) -> None:
    example = {
        "keyClass": "Optional fully qualified class name of the Key type.",
        "valueClass": "Optional fully qualified class name of the Value type.",
        "keySerializerClass": serializers[0],
        "valueSerializerClass": serializers[1],
        "jedisPoolConfig": {"host": "localhost", "port": 6379, "timeout": 2000, "database": 0, "password": "xyz"},
    }
    provider = "org.apache.storm.redis.state.RedisKeyValueStateProvider"
    conf = load_conf({"topology.state.provider": provider, CONFIG: json.dumps(example)})
    assert conf.settings.provider.redis == RedisSettings(password=Secret("xyz"))
    assert (conf.settings.provider.key_serializer, conf.settings.provider.value_serializer) == ("msgpack", "msgpack")


def test_provider_that_is_the_default_is_told_from_one_that_was_named() -> None:
    assert not load_conf().settings.provider.is_set
    assert load_conf({"topology.state.provider": "sqlite"}).settings.provider.is_set


@pytest.mark.parametrize(
    "given",
    [
        {"window": 3, "my.key": {"topology.state.provdr": None}, "topologies": [1], "drpc.port": None},
        {"topology.workers": 4, "topology.debug": None, "topology.kryo.register": [{"a.B": "a.BSerializer"}]},
        {"storm.zookeeper.servers": ["zk"]},
    ],
    ids=["own", "topology", "storm"],
)
def test_the_authors_own_keys_and_storms_other_keys_pass_through_untouched(given: dict[str, Any]) -> None:
    conf = load_conf(given)
    assert {key: conf[key] for key in given} == given


def test_tls_without_files_trusts_the_systems_authorities() -> None:
    assert redis(tls={}).tls == TlsSettings()


def test_places_default_to_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_conf().settings
    assert settings.provider.state_directory == str(tmp_path / "anchorbolt-data/state")
    assert settings.checkpoint_location_of("jobs") == str(tmp_path / "anchorbolt-data/jobs/checkpoint")


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("here/there", "{cwd}/here/there"),
        ("/abs/path", "/abs/path"),
        ("file:///abs/path", "/abs/path"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("hdfs://name:8020/key", "hdfs://name:8020/key"),
    ],
)
def test_configured_places_are_made_absolute_and_uris_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_conf({"topology.checkpoint.location": configured, CONFIG: {"directory": "d"}}).settings
    assert settings.checkpoint_location_of("jobs") == expected.format(cwd=tmp_path)
    assert settings.provider.state_directory == str(tmp_path / "d")


@pytest.mark.parametrize(("configured", "expected"), [(None, "jobs"), ("shared", "shared"), ("", "")])
def test_namespaces_start_with_the_topologys_name_unless_set_or_dropped(configured: Any, expected: str) -> None:
    settings = load_conf({"topology.state.namespace.prefix": configured}).settings
    assert settings.namespace_prefix_of("jobs") == expected
    if configured is not None:
        overridden = load_conf(overrides=[f"topology.state.namespace.prefix={configured}"]).settings
        assert overridden.namespace_prefix == configured
