"""What a configuration is refused for, and that no message shows a password."""

import traceback
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.loading import load_conf
from anchorbolt.config.storm_keys import STORM_KEYS
from anchorbolt.errors import ConfigError

STATE = "topology.state"
CONFIG = f"{STATE}.provider.config"
JEDIS = f"{CONFIG}.jedisPoolConfig"
CLUSTER = f"{CONFIG}.jedisClusterConfig"
THRIFT = f"{CONFIG}.thriftConfig"
INTERVAL = f"{STATE}.checkpoint.interval.ms"
PASSWORD = "hunter2-never-shown"
URL = f"redis://me:{PASSWORD}@store:6379"
TABLE = {"tableName": "t", "columnFamily": "f"}
NO_SASL = "SASL and Kerberos are not supported"
NOT_A_CLASS = "dotted name of a StateProvider class"
HBASE_CONF = {**TABLE, "hbaseConfigKey": "hbase.conf"}
STORM_REDIS = "org.apache.storm.redis.state.RedisKeyValueStateProvider"


def refusal(conf: dict[Any, Any] | None = None, **more: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_conf(conf, **more)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    assert PASSWORD not in shown
    chain: BaseException | None = caught.value
    while chain is not None:  # what a debugger or a crash reporter would find
        assert PASSWORD not in repr(vars(chain)) + str(chain)
        chain = chain.__cause__ or chain.__context__
    return caught.value


def pool(**inner: Any) -> dict[str, Any]:
    return {CONFIG: {"jedisPoolConfig": inner}}


def cluster(**inner: Any) -> dict[str, Any]:
    return {CONFIG: {"jedisClusterConfig": inner}}


def hbase(inner: dict[str, Any], **beside: Any) -> dict[str, Any]:
    return {f"{STATE}.provider": "hbase", CONFIG: inner, "window": 5, **beside}


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("topology.state.provder", "Did you mean 'topology.state.provider'?"),
        ("topology.state.checkpoint.interval", "Did you mean 'topology.state.checkpoint.interval.ms'?"),
        ("topology.max.batch.retry", "Did you mean 'topology.max.batch.retries'?"),
        ("topology.message.timeout.sec", "Did you mean 'topology.message.timeout.secs'?"),
        ("topology.worker", "Did you mean 'topology.workers'?"),
        ("storm.zookeper.servers", "Did you mean 'storm.zookeeper.servers'?"),
        ("anchorbolt.xyzzy", "must not start with 'topology.'"),
        ("topology.name", "create_topology(name)"),
        # Misspelt, though they could be the author's own.
        ("topolgy.state.provider", "Did you mean 'topology.state.provider'?"),
        ("Topology.state.provider", "Did you mean 'topology.state.provider'?"),
        ("toplogy.max.batch.retries", "Did you mean 'topology.max.batch.retries'?"),
        ("topolgy.state.provder", "Did you mean 'topology.state.provider'?"),
        # Spark's own.
        ("spark.driver.memory", "--driver-memory"),
        ("spark.executor.instances", "--num-executors"),
        ("spark.jars.packages", "--packages"),
        ("spark.sql.shuffle.partitions", "--spark-conf spark.sql.shuffle.partitions"),
        ("spark.master", "--master"),
    ],
)
def test_a_key_that_is_not_one_is_refused_with_the_right_one_or_with_advice(key: str, part: str) -> None:
    for error in (refusal({key: "4g"}), refusal(overrides=[f"{key}=4g"])):
        assert error.key == key
        assert repr(key) in error.message or f"{key} is a setting of Spark" in error.message
        assert part in error.message
        assert ("Did you mean" in error.message) is part.startswith("Did you mean")


@pytest.mark.parametrize(
    ("conf", "key", "parts"),
    [
        ({INTERVAL: 99}, INTERVAL, ("is 99,", "milliseconds, at least 100")),
        ({INTERVAL: "1000"}, INTERVAL, ("is '1000',", "whole number")),
        ({INTERVAL: 1000.5}, INTERVAL, ("is 1000.5,",)),
        ({INTERVAL: True}, INTERVAL, ("is True,",)),
        ({INTERVAL: 30_000}, INTERVAL, ("is 30000, which is not below topology.message.timeout.secs, 30 s",)),
        ({INTERVAL: 30_001}, INTERVAL, ("is 30001, which is not below topology.message.timeout.secs, 30 s",)),
        ({"topology.message.timeout.secs": 0}, "topology.message.timeout.secs", ("is 0,", "seconds")),
        ({"topology.max.batch.retries": -1}, "topology.max.batch.retries", ("is -1,", "at least 0")),
        *(
            ({"topology.checkpoint.accept.new.query": value}, "topology.checkpoint.accept.new.query", (shown,))
            for value, shown in (("yes", "is 'yes', but must be true or false"), (1, "is 1, but must be true or false"))
        ),
        ({"topology.checkpoint.location": ""}, "topology.checkpoint.location", ("is '',", "a path or a URI")),
        ({"topology.checkpoint.location": ["a"]}, "topology.checkpoint.location", ("of type list", "a path or a URI")),
        ({f"{STATE}.cache.max.entries": -1}, f"{STATE}.cache.max.entries", ("is -1,",)),
        ({f"{STATE}.pending.max.entries": 0}, f"{STATE}.pending.max.entries", ("is 0,", "at least 1")),
        ({"topology.transfer.blob.bytes": 10}, "topology.transfer.blob.bytes", ("is 10,", "from 1024 to 268435456")),
        ({"topology.transfer.buffer.tuples": 0}, "topology.transfer.buffer.tuples", ("is 0,", "at least 1")),
        ({f"{STATE}.namespace.prefix": "a:b"}, f"{STATE}.namespace.prefix", ("is 'a:b',", "A-Z a-z 0-9")),
        ({f"{STATE}.namespace.prefix": ".a"}, f"{STATE}.namespace.prefix", ("is '.a',",)),
        ({f"{STATE}.namespace.prefix": "a\n"}, f"{STATE}.namespace.prefix", (r"is 'a\n',",)),
        # The name of the provider.
        ({f"{STATE}.provider": 7}, f"{STATE}.provider", ("is 7,", "name of a state provider")),
        ({f"{STATE}.provider": "rediss"}, f"{STATE}.provider", ("is unknown. Did you mean 'redis'?", "memory, sqlite")),
        ({f"{STATE}.provider": STORM_REDIS[:-2]}, f"{STATE}.provider", (f"Did you mean '{STORM_REDIS}'?",)),
        *(({f"{STATE}.provider": name}, f"{STATE}.provider", (NOT_A_CLASS,)) for name in (".P", "a..P", "a.b-c", "P")),
        # The provider's configuration.
        *(
            ({CONFIG: value}, CONFIG, ("Write a mapping, or a JSON object in a string.",))
            for value in ("7", "[1]", '"text"', "not json", 5, ["a"])
        ),
        ({CONFIG: {5: 1}}, f"{CONFIG}.5", ("unknown",)),
        ({CONFIG: {"keyclass": "A"}}, f"{CONFIG}.keyclass", (f"Did you mean '{CONFIG}.keyClass'?", "Known here are: ")),
        ({CONFIG: {"dir": "A"}}, f"{CONFIG}.dir", ("Known here are: ",)),
        (pool(prot=1), f"{JEDIS}.prot", (f"Did you mean '{JEDIS}.port'?", "Known here are: ")),
        (pool(tls={"certt": "a"}), f"{JEDIS}.tls.certt", (f"Did you mean '{JEDIS}.tls.cert'?", "Known here are: ")),
        (cluster(maxRedirection=1), f"{CLUSTER}.maxRedirection", (f"Did you mean '{CLUSTER}.maxRedirections'?",)),
        (cluster(tls={"certt": "a"}), f"{CLUSTER}.tls.certt", (f"Did you mean '{CLUSTER}.tls.cert'?",)),
        (pool(port=0), f"{JEDIS}.port", ("is 0,", "from 1 to 65535")),
        (pool(port=65536), f"{JEDIS}.port", ("is 65536,",)),
        (pool(port="6379"), f"{JEDIS}.port", ("is '6379',",)),
        (pool(timeout=0), f"{JEDIS}.timeout", ("is 0,", "milliseconds")),
        (pool(database=-1), f"{JEDIS}.database", ("is -1,",)),
        (pool(host=""), f"{JEDIS}.host", ("is '',",)),
        (pool(password=12345), f"{JEDIS}.password", ("of type int", "quotes")),
        (pool(tls=True), f"{JEDIS}.tls", ("is True,", "ca, cert, key, verify")),
        (pool(tls={"verify": "no"}), f"{JEDIS}.tls.verify", ("is 'no',", "true or false")),
        (pool(tls={"key": "me.key"}), f"{JEDIS}.tls.key", ("cert is not",)),
        *(
            (
                {CONFIG: {key: name}},
                f"{CONFIG}.{key}",
                (f"is {name!r}, but must be msgpack, json, ", "Serializer class"),
            )
            for key in ("keySerializerClass", "valueSerializerClass")
            for name in ("mesgpack", "", "org.apache.storm.state.MySerializer", "a..B", "a.b-c")
        ),
        # HBase.
        (hbase({}), f"{CONFIG}.tableName", ("is not set",)),
        (hbase({"tableName": "t"}), f"{CONFIG}.columnFamily", ("is not set",)),
        (hbase(HBASE_CONF), f"{CONFIG}.hbaseConfigKey", ("'hbase.conf' is not set",)),
        (hbase({**TABLE, "hbaseConfigKey": "window"}), f"{CONFIG}.hbaseConfigKey", ("'window' is of type int",)),
        (hbase({"thriftConfig": {"transprt": "x"}}), f"{THRIFT}.transprt", (f"Did you mean '{THRIFT}.transport'?",)),
        (hbase({"thriftConfig": {"transport": "http"}}), f"{THRIFT}.transport", ("must be buffered or framed",)),
        (
            {CONFIG: {"jedisSentinelConfig": {"master": "m"}}},
            f"{CONFIG}.jedisSentinelConfig",
            ("Sentinel is not supported",),
        ),
        ({CONFIG: {"jedisPoolConfig": {"sentinels": []}}}, f"{CONFIG}.jedisPoolConfig.sentinels", ("not supported",)),
        (hbase({"thriftConfig": {"sasl": True}}), f"{THRIFT}.sasl", (NO_SASL,)),
        (hbase({"thriftConfig": {"kerberosPrincipal": "hbase@REALM"}}), f"{THRIFT}.kerberosPrincipal", (NO_SASL,)),
        (hbase({"kerberos": {"keytab": "/etc/k"}}), f"{CONFIG}.kerberos", (NO_SASL,)),
        (hbase({**TABLE, "thriftConfig": {"tls": {"key": "k"}}}), f"{THRIFT}.tls.key", ("cert is not",)),
        *(
            (hbase(HBASE_CONF, **{"hbase.conf": {name: value}}), f"hbase.conf.{name}", ("asks for security",))
            for name, value in {
                "hbase.security.authentication": "kerberos",
                "hadoop.security.authentication": "Kerberos",
                "storm.keytab.file": "/etc/storm.keytab",
                "storm.kerberos.principal": "storm@REALM",
                "hbase.rpc.protection": "privacy",
                "hbase.master.kerberos.principal": "hbase/_HOST@REALM",
                "hbase.client.netty.tls.enabled": True,
                "hbase.thrift.security.qop": "auth-conf",
                "zookeeper.sasl.client": "true",
            }.items()
        ),
        # Spark's options.
        ({"spark": {"driver-memory": "4"}}, "spark.driver-memory", ("is '4',",)),
        ({"spark": {"driver-memory": 4096}}, "spark.driver-memory", ("is 4096,",)),
        ({"spark": {"packages": "kafka"}}, "spark.packages", ("is 'kafka',",)),
        ({"spark": {"num-executors": 0}}, "spark.num-executors", ("is 0,",)),
        ({"spark": {"executor-cores": "2"}}, "spark.executor-cores", ("is '2',",)),
        ({"spark": {"conf": ["spark.ui.port=1"]}}, "spark.conf", ("of type list",)),
        ({"spark": {"conf": {"spark.ui.port": [1]}}}, "spark.conf", ("of type dict",)),
        ({"spark": {"conf": {"ui.port": 1}}}, "ui.port", ("'ui.port' is not a setting of Spark",)),
        ({"spark": {"conf": {"spark.master": "local[2]"}}}, "spark.master", ("--master",)),
        ({"spark": {"conf": {"spark.app.name": "mine"}}}, "spark.app.name", ("topology's name",)),
        ({"spark": {"driver_memory": "4g"}}, "spark.driver_memory", ("Did you mean 'spark.driver-memory'",)),
        ({"spark": {"package": "a:b:1"}}, "spark.package", ("Did you mean 'spark.packages'",)),
        ({"spark": "driver-memory"}, "spark", ("of type str", "mapping")),
        *(
            ({"spark": {"conf": {f"spark.{name}": PASSWORD}}}, f"spark.{name}", ("holds a secret",))
            for name in ("hadoop.fs.s3a.secret.key", "hadoop.fs.s3a.access.key", "ssl.keyPassword", "my.token")
        ),
        # A URL in place of a host, with a password in it.
        (pool(host=URL), f"{JEDIS}.host", ("is of type str", "name or address of the server")),
        (pool(host=f"me:{PASSWORD}@store"), f"{JEDIS}.host", ("is of type str", "name or address of the server")),
        (cluster(nodes=[URL]), f"{CLUSTER}.nodes", ("is of type list", "each as host:port")),
        (cluster(nodes=["a:1", f"{URL}/0"]), f"{CLUSTER}.nodes", ("is of type list", "each as host:port")),
        (cluster(nodes=URL), f"{CLUSTER}.nodes", ("is of type str", "each as host:port")),
        ({CONFIG: {"thriftConfig": {"host": URL}}}, f"{THRIFT}.host", ("is of type str", "address of the Thrift")),
        # A password beside what is wrong.
        ({CONFIG: f'{{"jedisPoolConfig": {{"password": "{PASSWORD}"}}'}, CONFIG, ("not valid JSON",)),
        ({CONFIG: {"jedisPoolConfig": f"redis://me:{PASSWORD}@store"}}, JEDIS, ("of type str", "mapping")),
        ({CONFIG: {"jedisClusterConfig": f'{{"password": "{PASSWORD}"}}'}}, CLUSTER, ("of type str", "mapping")),
        (pool(password=[PASSWORD]), f"{JEDIS}.password", ("of type list",)),
        (cluster(password=PASSWORD, nodes="x"), f"{CLUSTER}.nodes", ("is 'x',",)),
        (cluster(password=PASSWORD, nodes=["x"]), f"{CLUSTER}.nodes", ("of type list",)),
        (pool(password=PASSWORD, port="x"), f"{JEDIS}.port", ("is 'x',",)),
        (pool(passwrd=PASSWORD), f"{JEDIS}.passwrd", (f"Did you mean '{JEDIS}.password'?",)),
        # Other than dotted strings.
        *(
            ({key: {"state": {"provider": "redis"}}}, key, ("Write keys in full",))
            for key in ("topology", "anchorbolt")
        ),
        ({"storm": {"id": 1}}, "storm", ("Write keys in full",)),
        ({5: 1}, None, ("the configuration key 5 is of type int",)),
    ],
)
def test_a_refusal_names_the_key_what_is_wrong_and_what_is_accepted(
    conf: dict[Any, Any], key: str | None, parts: tuple[str, ...]
) -> None:
    error = refusal(conf)
    assert error.key == key
    for part in (key or "", *parts):
        assert part in error.message


def test_a_checkpoint_interval_just_below_the_message_timeout_is_accepted() -> None:
    assert load_conf({INTERVAL: 29_999}).settings.checkpoint_interval_ms == 29_999


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("topology.auto-credentials", ["org.apache.storm.hbase.security.AutoHBase"]),
        ("hbaseCredentialsConfigKeys", ["hbase.conf"]),
        ("hbase.keytab.file", "/etc/hbase.keytab"),
        ("hbase.kerberos.principal", "hbase@REALM"),
    ],
)
def test_a_security_setting_of_storms_hbase_beside_the_providers_is_refused_as_well(setting: str, value: Any) -> None:
    assert refusal(hbase(TABLE, **{setting: value})).message.startswith(f"{setting} asks for security")
    assert load_conf({f"{STATE}.provider": "redis", setting: value})[setting] == value


def test_credentials_for_something_else_than_hbase_are_not_ours() -> None:
    others = {"topology.auto-credentials": ["org.apache.storm.hdfs.security.AutoHDFS"]}
    assert load_conf(hbase(TABLE, **others)).settings.provider.hbase


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("conf.yaml", b"a: [1\n", ("not valid", "line 2")),
        ("conf.yaml", b"- a\n- b\n", ("holds a list",)),
        ("conf.yaml", b"just text", ("holds a str",)),
        ("conf.yaml", b"\xff\xfe\x00", ("not UTF-8",)),
        ("conf.yaml", f"password: {PASSWORD}\n  x: 1\n\tb: @{PASSWORD}".encode(), ("not valid", "line")),
        ("conf.yaml", b"a: !!python/object/apply:os.getcwd []", ("not valid",)),
        ("conf.yaml", b"own: 1\nother: 2\nown: 3\n", ("'own' is there twice",)),
        ("conf.yaml", f"{CONFIG}:\n  own: a\n  own: b\n".encode(), ("'own' is there twice",)),
        ("conf.json", b'{"own": 1, "own": 2}', ("'own' is there twice",)),
        ("conf.json", f'{{"password": "{PASSWORD}", }}'.encode(), ("line 1, column",)),
        ("none.yaml", None, ("cannot be read: No such file",)),
    ],
)
def test_file_that_is_no_configuration(
    tmp_path: Path, name: str, content: bytes | None, parts: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    error = refusal(file=tmp_path / name)
    assert error.message.startswith(f"configuration file {tmp_path / name} ")
    for part in parts:
        assert part in error.message


@pytest.mark.parametrize(
    ("override", "key", "part"),
    [
        ("topology.state.provider", "topology.state.provider", "not of the form key=value"),
        ("=redis", None, "not of the form key=value"),
        ("", None, "not of the form key=value"),
        ("own=[1", "own", "not valid YAML"),
        ("k={own: 1, own: 2}", "k", "'own' is there twice"),
        (f"{CONFIG}.directory.x=1", f"{CONFIG}.directory.x", f"{CONFIG}.directory is no mapping"),
        (f"{JEDIS}.password={PASSWORD}", f"{JEDIS}.password", "passwordEnv or passwordFile"),
        (f"{JEDIS}={{password: {PASSWORD}}}", JEDIS, "passwordEnv or passwordFile"),
        (f"{CONFIG}={{jedisPoolConfig: {{password: {PASSWORD}}}}}", CONFIG, "passwordEnv or passwordFile"),
        (f'{CONFIG}=\'{{"jedisPoolConfig": {{"password": "{PASSWORD}"}}}}\'', CONFIG, "passwordEnv or passwordFile"),
        (f"storm.zookeeper.auth.password={PASSWORD}", "storm.zookeeper.auth.password", "passwordEnv or passwordFile"),
        (f"own={{Password: {PASSWORD}}}", "own", "passwordEnv or passwordFile"),
    ],
)
def test_override_that_is_none_or_shows_a_password_to_every_user(override: str, key: str | None, part: str) -> None:
    error = refusal({CONFIG: {"directory": "d"}}, overrides=[override])
    assert error.key == key
    assert part in error.message


def test_password_is_in_no_repr_and_not_in_what_bolts_see() -> None:
    of_zookeeper = ("storm.zookeeper.auth.password", "storm.zookeeper.topology.auth.payload")
    conf = load_conf({**pool(password=PASSWORD), **dict.fromkeys(of_zookeeper, PASSWORD)})
    assert conf.settings.provider.redis.password is not None
    assert conf.settings.provider.redis.password.reveal() == PASSWORD
    assert PASSWORD not in repr(conf) + repr(dict(conf)) + repr(conf.settings) + repr(vars(conf)["_values"])


@pytest.mark.parametrize(
    ("ways", "part"),
    [
        ({"password": PASSWORD, "passwordEnv": "X"}, f"{JEDIS}.password and {JEDIS}.passwordEnv are set"),
        ({"passwordFile": "x", "passwordEnv": "X"}, f"{JEDIS}.passwordEnv and {JEDIS}.passwordFile are set"),
        ({"passwordEnv": "ANCHORBOLT_TEST_UNSET"}, "ANCHORBOLT_TEST_UNSET, which is not set"),
        ({"passwordEnv": "ANCHORBOLT_TEST_EMPTY"}, "ANCHORBOLT_TEST_EMPTY, which is empty"),
        ({"passwordFile": "{dir}/none"}, "{dir}/none, which cannot be read: No such file"),
        ({"passwordFile": "{dir}"}, "cannot be read: Is a directory"),
        ({"passwordFile": "{dir}/empty"}, "which is empty"),
        ({"passwordFile": "{dir}/binary"}, "which is not UTF-8 text"),
    ],
)
def test_password_that_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: dict[str, str], part: str
) -> None:
    monkeypatch.setenv("ANCHORBOLT_TEST_EMPTY", "")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(PASSWORD.encode() + b"\xff")
    error = refusal(pool(**{key: value.format(dir=tmp_path) for key, value in ways.items()}))
    assert part.format(dir=tmp_path) in error.message


def test_storms_keys_do_not_hide_ours() -> None:
    assert not set(STORM_KEYS) & load_conf().keys()
