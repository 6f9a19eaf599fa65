"""Configuration: where it comes from, its defaults, and what bolts see of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import ProviderSettings, RedisSettings
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import Settings
from anchorbolt.files import WorkerLocations

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
    "topology.state.accept.loss": False,
    "topology.state.rescale": False,
    "topology.message.timeout.secs": 30,
    "topology.max.batch.retries": 3,
    "topology.metrics.port": None,
    "topology.ui.port": None,
    "topology.ui.host": "127.0.0.1",
    "topology.ui.actions": False,
    "topology.ui.tokenEnv": None,
    "topology.ui.tokenFile": None,
    "topology.health.max.checkpoint.age.secs": 300,
    "topology.state.cache.max.entries": 200_000,
    "topology.state.pending.max.entries": 100_000,
    "topology.state.ttl.secs": None,
    "topology.timers.per.wave": 50_000,
    "topology.windows.close.when.empty": False,
    "topology.transfer.blob.bytes": 1 << 20,
    "topology.transfer.buffer.tuples": 16_384,
    "topology.workers": 0,
    "topology.worker.buffer.mb": 256,
    "topology.spouts.in": "driver",
    "topology.task.timeout.secs": None,
    "topology.max.spout.pending": None,
    "topology.acker.executors": None,
    "topology.enable.message.timeouts": True,
    "topology.fail.policy": None,
    "topology.max.tuple.retries": 3,
    "topology.dead.letter": None,
    "topology.dead.letter.max.per.wave": 100,
    "topology.backpressure.enable": True,
    "topology.tick.tuple.freq.secs": None,
    "topology.backpressure.high.watermark": 0.9,
    "topology.backpressure.low.watermark": 0.4,
    "topology.spout.intake.tuples": 100_000,
    "topology.spout.intake.bytes": 16 << 20,
}


def test_without_a_configuration_everything_has_its_default() -> None:
    conf = load_conf()
    assert dict(conf) == DEFAULTS
    assert conf.settings == Settings()
    assert not conf.settings.provider.is_set


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
    assert conf.settings.provider.is_set


def test_every_key_reaches_the_settings_and_the_bolts() -> None:
    given: dict[str, tuple[str, Any]] = {
        "topology.state.namespace.prefix": ("namespace_prefix", "shared"),
        "topology.state.checkpoint.interval.ms": ("checkpoint_interval_ms", 250),
        "topology.checkpoint.location": ("checkpoint_location", "s3://bucket/here"),
        "topology.checkpoint.accept.new.query": ("accept_new_query", True),
        "topology.state.accept.loss": ("accept_state_loss", True),
        "topology.state.rescale": ("rescale_state", True),
        "topology.message.timeout.secs": ("message_timeout_secs", 9),
        "topology.max.batch.retries": ("max_batch_retries", 0),
        "topology.metrics.port": ("metrics_port", 9095),
        "topology.ui.port": ("ui_port", 8080),
        "topology.ui.host": ("ui_host", "0.0.0.0"),
        "topology.ui.actions": ("ui_actions", True),
        "topology.ui.tokenEnv": ("ui_token_env", "UI_TOKEN"),
        "topology.ui.tokenFile": ("ui_token_file", "/run/token"),
        "topology.health.max.checkpoint.age.secs": ("health_max_checkpoint_age_secs", 60),
        "topology.state.cache.max.entries": ("cache_entries", 0),
        "topology.state.pending.max.entries": ("pending_entries", 1),
        "topology.state.ttl.secs": ("state_ttl_secs", 2.5),
        "topology.timers.per.wave": ("timers_per_wave", 1),
        "topology.windows.close.when.empty": ("closes_windows", True),
        "topology.transfer.blob.bytes": ("blob_bytes", 4096),
        "topology.transfer.buffer.tuples": ("buffer_tuples", 7),
        "topology.workers": ("workers", 3),
        "topology.worker.buffer.mb": ("worker_buffer_mb", 1),
        "topology.spouts.in": ("spouts_in", "workers"),
        "topology.task.timeout.secs": ("task_timeout_secs", 60),
        "topology.max.spout.pending": ("max_spout_pending", 9),
        "topology.acker.executors": ("acker_executors", 0),
        "topology.enable.message.timeouts": ("message_timeouts", False),
        "topology.fail.policy": ("fail_policy", "commit"),
        "topology.max.tuple.retries": ("max_tuple_retries", 0),
        "topology.dead.letter": ("dead_letter", "dead/"),
        "topology.dead.letter.max.per.wave": ("most_dead_letters", 5),
        "topology.backpressure.enable": ("backpressure", False),
        "topology.tick.tuple.freq.secs": ("tick_secs", 0.5),
        "topology.backpressure.high.watermark": ("backpressure_high", 2),
        "topology.backpressure.low.watermark": ("backpressure_low", 0.5),
        "topology.spout.intake.tuples": ("intake_tuples", 1),
        "topology.spout.intake.bytes": ("intake_bytes", 2048),
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
    assert conf[CONFIG]["keyClass"] == example["keyClass"]
    assert conf.settings.provider.redis == RedisSettings(password=Secret("xyz"))
    assert (conf.settings.provider.key_serializer, conf.settings.provider.value_serializer) == ("msgpack", "msgpack")


@pytest.mark.parametrize(
    "given",
    [
        {"window": 3, "my.key": {"topology.state.provdr": None}, "topologies": [1], "drpc.port": None},
        {"topology.tasks": 4, "topology.debug": None, "topology.kryo.register": [{"a.B": "a.BSerializer"}]},
        {"storm.zookeeper.servers": ["zk"]},
    ],
    ids=["own", "topology", "storm"],
)
def test_the_authors_own_keys_and_storms_other_keys_pass_through_untouched(given: dict[str, Any]) -> None:
    conf = load_conf(given)
    assert {key: conf[key] for key in given} == given


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ((None, None), ("{cwd}/anchorbolt-data/jobs/checkpoint", "{cwd}/anchorbolt-data/state")),
        (("here/there", "d"), ("{cwd}/here/there", "{cwd}/d")),
        (("/abs/path", "/d"), ("/abs/path", "/d")),
        (("file:///abs/path", None), ("/abs/path", "{cwd}/anchorbolt-data/state")),
        (("s3://bucket/key", "d"), ("s3://bucket/key", "{cwd}/d")),
        (("hdfs://name:8020/key", "d"), ("hdfs://name:8020/key", "{cwd}/d")),
    ],
)
def test_places_are_below_the_current_directory_unless_absolute_and_uris_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: tuple[Any, Any], expected: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    location, directory = configured
    settings = load_conf({"topology.checkpoint.location": location, CONFIG: {"directory": directory}}).settings
    checkpoint = WorkerLocations().qualified(settings.checkpoint_location_of("jobs"))
    places = (checkpoint, settings.provider.state_directory)
    assert places == tuple(each.format(cwd=tmp_path) for each in expected)


@pytest.mark.parametrize(("configured", "expected"), [(None, "jobs"), ("shared", "shared"), ("", "")])
def test_namespaces_start_with_the_topologys_name_unless_set_or_dropped(configured: Any, expected: str) -> None:
    settings = load_conf({"topology.state.namespace.prefix": configured}).settings
    assert settings.namespace_prefix_of("jobs") == expected
    if configured is not None:
        overridden = load_conf(overrides=[f"topology.state.namespace.prefix={configured}"]).settings
        assert overridden.namespace_prefix == configured
