"""What a configuration is refused for, and that no message shows a password."""

import traceback
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.loading import load_conf
from anchorbolt.config.storm_keys import STORM_KEYS
from anchorbolt.errors import ConfigError

CONFIG = "topology.state.provider.config"
JEDIS = f"{CONFIG}.jedisPoolConfig"
CLUSTER = f"{CONFIG}.jedisClusterConfig"
PASSWORD = "hunter2-never-shown"
URL = f"redis://me:{PASSWORD}@store:6379"


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


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("topology.state.provder", "topology.state.provider"),
        ("topology.state.checkpoint.interval", "topology.state.checkpoint.interval.ms"),
        ("topology.max.batch.retry", "topology.max.batch.retries"),
        ("topology.message.timeout.sec", "topology.message.timeout.secs"),
        ("topology.worker", "topology.workers"),
        ("storm.zookeper.servers", "storm.zookeeper.servers"),
    ],
)
def test_unknown_key_names_the_nearest_known_one(key: str, nearest: str) -> None:
    for error in (refusal({key: 1}), refusal(overrides=[f"{key}=1"])):
        assert error.key == key
        assert f"unknown configuration key {key!r}. Did you mean {nearest!r}?" in error.message


@pytest.mark.parametrize(
    "key", ["topolgy.state.provider", "Topology.state.provider", "toplogy.max.batch.retries", "topolgy.state.provder"]
)
def test_a_key_of_ones_own_that_is_a_misspelt_known_one_is_refused(key: str) -> None:
    for error in (refusal({key: "redis"}), refusal(overrides=[f"{key}=redis"])):
        assert error.key == key
        assert "Did you mean 'topology." in error.message


def test_unknown_key_like_no_other_tells_how_to_name_ones_own() -> None:
    error = refusal({"anchorbolt.xyzzy": 1})
    assert "must not start with 'topology.'" in error.message
    assert "Did you mean" not in error.message


@pytest.mark.parametrize(
    ("inner", "key", "nearest"),
    [
        ({"keyclass": "A"}, f"{CONFIG}.keyclass", f"{CONFIG}.keyClass"),
        ({"dir": "A"}, f"{CONFIG}.dir", None),
        ({"jedisPoolConfig": {"prot": 1}}, f"{JEDIS}.prot", f"{JEDIS}.port"),
        ({"jedisPoolConfig": {"tls": {"certt": "a"}}}, f"{JEDIS}.tls.certt", f"{JEDIS}.tls.cert"),
        ({"jedisClusterConfig": {"maxRedirection": 1}}, f"{CLUSTER}.maxRedirection", f"{CLUSTER}.maxRedirections"),
        ({"jedisClusterConfig": {"tls": {"certt": "a"}}}, f"{CLUSTER}.tls.certt", f"{CLUSTER}.tls.cert"),
    ],
)
def test_unknown_inner_key_names_the_nearest_known_one(inner: Any, key: str, nearest: str | None) -> None:
    error = refusal({CONFIG: inner})
    assert error.key == key
    assert f"unknown configuration key {key!r}." in error.message
    assert nearest is None or f"Did you mean {nearest!r}?" in error.message
    assert "Known here are: " in error.message


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("topology.state.checkpoint.interval.ms", 99, ("is 99,", "milliseconds, at least 100")),
        ("topology.state.checkpoint.interval.ms", "1000", ("is '1000',", "whole number")),
        ("topology.state.checkpoint.interval.ms", 1000.5, ("is 1000.5,",)),
        ("topology.state.checkpoint.interval.ms", True, ("is True,",)),
        ("topology.message.timeout.secs", 0, ("is 0,", "seconds")),
        ("topology.max.batch.retries", -1, ("is -1,", "at least 0")),
        ("topology.checkpoint.accept.new.query", "yes", ("is 'yes',", "true or false")),
        ("topology.checkpoint.accept.new.query", 1, ("is 1,", "true or false")),
        ("topology.checkpoint.location", "", ("is '',", "a path or a URI")),
        ("topology.checkpoint.location", ["a"], ("of type list", "a path or a URI")),
        ("topology.state.cache.max.entries", -1, ("is -1,",)),
        ("topology.state.pending.max.entries", 0, ("is 0,", "at least 1")),
        ("topology.transfer.blob.bytes", 10, ("is 10,", "from 1024 to 268435456")),
        ("topology.transfer.buffer.tuples", 0, ("is 0,", "at least 1")),
        ("topology.state.namespace.prefix", "a:b", ("is 'a:b',", "A-Z a-z 0-9")),
        ("topology.state.namespace.prefix", ".a", ("is '.a',",)),
        ("topology.state.namespace.prefix", "a\n", (r"is 'a\n',",)),
        ("topology.state.provider", 7, ("is 7,", "name of a state provider")),
    ],
)
def test_bad_value_names_key_value_and_what_is_accepted(key: str, value: Any, parts: tuple[str, ...]) -> None:
    error = refusal({key: value})
    assert error.key == key
    assert error.message.startswith(f"{key} is ")
    for part in parts:
        assert part in error.message


@pytest.mark.parametrize(
    ("pool", "key", "parts"),
    [
        ({"port": 0}, f"{JEDIS}.port", ("is 0,", "from 1 to 65535")),
        ({"port": 65536}, f"{JEDIS}.port", ("is 65536,",)),
        ({"port": "6379"}, f"{JEDIS}.port", ("is '6379',",)),
        ({"timeout": 0}, f"{JEDIS}.timeout", ("is 0,", "milliseconds")),
        ({"database": -1}, f"{JEDIS}.database", ("is -1,",)),
        ({"host": ""}, f"{JEDIS}.host", ("is '',",)),
        ({"password": 12345}, f"{JEDIS}.password", ("of type int", "quotes")),
        ({"tls": True}, f"{JEDIS}.tls", ("is True,", "ca, cert, key, verify")),
        ({"tls": {"verify": "no"}}, f"{JEDIS}.tls.verify", ("is 'no',", "true or false")),
        ({"tls": {"key": "me.key"}}, f"{JEDIS}.tls.key", ("cert is not",)),
    ],
)
def test_bad_inner_value_names_the_dotted_key(pool: Any, key: str, parts: tuple[str, ...]) -> None:
    error = refusal({CONFIG: {"jedisPoolConfig": pool}})
    assert error.key == key
    for part in parts:
        assert part in error.message


@pytest.mark.parametrize("value", ["7", "[1]", '"text"', "not json", 5, ["a"]])
def test_providers_configuration_that_is_no_mapping(value: Any) -> None:
    error = refusal({CONFIG: value})
    assert error.key == CONFIG
    assert "Write a mapping, or a JSON object in a string." in error.message


@pytest.mark.parametrize("name", ["mesgpack", "", "org.apache.storm.state.MySerializer", "a..B", "a.b-c"])
@pytest.mark.parametrize("key", ["keySerializerClass", "valueSerializerClass"])
def test_serializer_that_does_not_exist(key: str, name: str) -> None:
    error = refusal({CONFIG: {key: name}})
    assert error.key == f"{CONFIG}.{key}"
    assert f"is {name!r}, but must be msgpack, json, " in error.message
    assert "the dotted name of a Serializer class of yours." in error.message


def test_provider_that_does_not_exist() -> None:
    error = refusal({"topology.state.provider": "rediss"})
    assert "is 'rediss', which is unknown. Did you mean 'redis'?" in error.message
    assert "memory, sqlite, redis" in error.message
    java = refusal({"topology.state.provider": "org.apache.storm.redis.state.RedisKeyValueStateProvder"})
    assert "Did you mean 'org.apache.storm.redis.state.RedisKeyValueStateProvider'?" in java.message


@pytest.mark.parametrize(
    ("inner", "part"),
    [
        ({}, f"{CONFIG}.tableName is not set"),
        ({"tableName": "t"}, f"{CONFIG}.columnFamily is not set"),
        ({"tableName": "t", "columnFamily": "f", "hbaseConfigKey": "hbase.conf"}, "'hbase.conf' is not set"),
        ({"tableName": "t", "columnFamily": "f", "hbaseConfigKey": "window"}, "'window' is of type int"),
        ({"thriftConfig": {"transprt": "framed"}}, f"Did you mean '{CONFIG}.thriftConfig.transport'?"),
        ({"thriftConfig": {"transport": "http"}}, "must be buffered or framed"),
        ({"thriftConfig": {"sasl": True}}, "SASL and Kerberos are not supported"),
        ({"thriftConfig": {"kerberosPrincipal": "hbase@REALM"}}, "SASL and Kerberos are not supported"),
        ({"kerberos": {"keytab": "/etc/k"}}, "SASL and Kerberos are not supported"),
        ({"thriftConfig": {"tls": {"key": "k"}}, "tableName": "t", "columnFamily": "f"}, "cert is not"),
    ],
)
def test_hbase_needs_a_table_and_a_family_and_its_keys_are_checked(inner: dict[str, Any], part: str) -> None:
    error = refusal({"topology.state.provider": "hbase", CONFIG: inner, "window": 5})
    assert part in error.message


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hbase.security.authentication", "kerberos"),
        ("hadoop.security.authentication", "Kerberos"),
        ("storm.keytab.file", "/etc/storm.keytab"),
        ("storm.kerberos.principal", "storm@REALM"),
        ("hbase.rpc.protection", "privacy"),
        ("hbase.master.kerberos.principal", "hbase/_HOST@REALM"),
        ("hbase.client.netty.tls.enabled", True),
        ("hbase.thrift.security.qop", "auth-conf"),
        ("zookeeper.sasl.client", "true"),
    ],
)
def test_a_security_setting_of_storms_hbase_is_refused_rather_than_ignored(setting: str, value: object) -> None:
    inner = {"tableName": "t", "columnFamily": "f", "hbaseConfigKey": "hbase.conf"}
    conf = {"topology.state.provider": "hbase", CONFIG: inner, "hbase.conf": {setting: value}}
    error = refusal(conf)
    assert error.message.startswith(f"hbase.conf.{setting} asks for security")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("topology.auto-credentials", ["org.apache.storm.hbase.security.AutoHBase"]),
        ("hbaseCredentialsConfigKeys", ["hbase.conf"]),
        ("hbase.keytab.file", "/etc/hbase.keytab"),
        ("hbase.kerberos.principal", "hbase@REALM"),
    ],
)
def test_a_security_setting_of_storms_hbase_beside_the_providers_is_refused_as_well(
    setting: str, value: object
) -> None:
    inner = {"tableName": "t", "columnFamily": "f"}
    error = refusal({"topology.state.provider": "hbase", CONFIG: inner, setting: value})
    assert error.message.startswith(f"{setting} asks for security")
    assert load_conf({"topology.state.provider": "redis", setting: value})[setting] == value


def test_credentials_for_something_else_than_hbase_are_not_ours() -> None:
    inner = {"tableName": "t", "columnFamily": "f"}
    others = {"topology.auto-credentials": ["org.apache.storm.hdfs.security.AutoHDFS"]}
    assert load_conf({"topology.state.provider": "hbase", CONFIG: inner, **others}).settings.provider.hbase


@pytest.mark.parametrize("interval", [30_000, 30_001])
def test_checkpoint_interval_that_is_not_below_the_message_timeout(interval: int) -> None:
    error = refusal({"topology.state.checkpoint.interval.ms": interval})
    assert f"is {interval}, which is not below topology.message.timeout.secs, 30 s" in error.message
    assert load_conf({"topology.state.checkpoint.interval.ms": 29_999}).settings.checkpoint_interval_ms == 29_999


@pytest.mark.parametrize("key", ["topology", "storm", "anchorbolt"])
def test_nested_keys_are_not_taken_for_the_authors_own(key: str) -> None:
    assert "Write keys in full" in refusal({key: {"state": {"provider": "redis"}}}).message


def test_topologys_name_is_no_configuration() -> None:
    assert "create_topology(name)" in refusal({"topology.name": "jobs"}).message


def test_key_that_is_no_string() -> None:
    assert "the configuration key 5 is of type int" in refusal({5: 1}).message
    assert f"{CONFIG}." in refusal({CONFIG: {5: 1}}).message


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"a: [1\n", ("not valid", "line 2")),
        (b"- a\n- b\n", ("holds a list",)),
        (b"just text", ("holds a str",)),
        (b"\xff\xfe\x00", ("not UTF-8",)),
        (f"password: {PASSWORD}\n  x: 1\n\tb: @{PASSWORD}".encode(), ("not valid", "line")),
        (b"a: !!python/object/apply:os.getcwd []", ("not valid",)),
    ],
)
def test_file_that_is_no_configuration(tmp_path: Path, content: bytes, parts: tuple[str, ...]) -> None:
    file = tmp_path / "conf.yaml"
    file.write_bytes(content)
    error = refusal(file=file)
    assert error.message.startswith(f"configuration file {file} ")
    for part in parts:
        assert part in error.message


def test_file_that_is_no_json(tmp_path: Path) -> None:
    file = tmp_path / "conf.json"
    file.write_text(f'{{"password": "{PASSWORD}", }}')
    assert "line 1, column" in refusal(file=file).message


def test_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(file=tmp_path / "none.yaml").message


@pytest.mark.parametrize("override", ["topology.state.provider", "=redis", ""])
def test_override_that_is_no_pair(override: str) -> None:
    assert "not of the form key=value" in refusal(overrides=[override]).message


def test_override_whose_value_is_no_yaml() -> None:
    error = refusal(overrides=["own=[1"])
    assert error.key == "own"
    assert "not valid YAML" in error.message


def test_override_below_what_is_no_mapping() -> None:
    error = refusal({CONFIG: {"directory": "d"}}, overrides=[f"{CONFIG}.directory.x=1"])
    assert f"{CONFIG}.directory is no mapping" in error.message


@pytest.mark.parametrize(
    "override",
    [
        f"{JEDIS}.password={PASSWORD}",
        f"{JEDIS}={{password: {PASSWORD}}}",
        f"{CONFIG}={{jedisPoolConfig: {{password: {PASSWORD}}}}}",
        f'{CONFIG}=\'{{"jedisPoolConfig": {{"password": "{PASSWORD}"}}}}\'',
        f"storm.zookeeper.auth.password={PASSWORD}",
        f"own={{Password: {PASSWORD}}}",
    ],
)
def test_password_on_a_command_line_is_refused(override: str) -> None:
    assert "passwordEnv or passwordFile" in refusal(overrides=[override]).message


def test_password_that_is_broken_json_is_not_shown() -> None:
    refusal({CONFIG: f'{{"jedisPoolConfig": {{"password": "{PASSWORD}"}}'})
    refusal({CONFIG: {"jedisPoolConfig": f"redis://me:{PASSWORD}@store"}})
    refusal({CONFIG: {"jedisPoolConfig": {"password": [PASSWORD]}}})
    refusal({CONFIG: {"jedisClusterConfig": f"redis://me:{PASSWORD}@store"}})
    refusal({CONFIG: {"jedisClusterConfig": {"password": PASSWORD, "nodes": "x"}}})
    refusal({CONFIG: {"jedisClusterConfig": {"password": PASSWORD, "nodes": ["x"]}}})
    refusal({CONFIG: {"jedisPoolConfig": {"password": PASSWORD, "port": "x"}}})
    refusal({CONFIG: {"jedisPoolConfig": {"passwrd": PASSWORD}}})


@pytest.mark.parametrize(
    ("inner", "key", "part"),
    [
        ({"jedisPoolConfig": {"host": URL}}, f"{JEDIS}.host", "name or address of the server"),
        ({"jedisPoolConfig": {"host": f"me:{PASSWORD}@store"}}, f"{JEDIS}.host", "name or address"),
        ({"jedisClusterConfig": {"nodes": [URL]}}, f"{CLUSTER}.nodes", "each as host:port"),
        ({"jedisClusterConfig": {"nodes": ["a:1", f"{URL}/0"]}}, f"{CLUSTER}.nodes", "each as host:port"),
        ({"jedisClusterConfig": {"nodes": URL}}, f"{CLUSTER}.nodes", "each as host:port"),
        ({"thriftConfig": {"host": URL}}, f"{CONFIG}.thriftConfig.host", "name or address of the Thrift"),
    ],
)
def test_a_url_in_place_of_a_host_is_refused_and_the_password_in_it_not_shown(
    inner: dict[str, Any], key: str, part: str
) -> None:
    error = refusal({"topology.state.provider": "redis", CONFIG: inner})
    assert error.key == key
    assert error.message.startswith(f"{key} is of type ")
    assert part in error.message


def test_password_is_in_no_repr_and_not_in_what_bolts_see() -> None:
    conf = load_conf(
        {
            CONFIG: {"jedisPoolConfig": {"password": PASSWORD}},
            "storm.zookeeper.auth.password": PASSWORD,
            "storm.zookeeper.topology.auth.payload": PASSWORD,
        }
    )
    assert conf.settings.provider.redis.password is not None
    assert conf.settings.provider.redis.password.reveal() == PASSWORD
    assert PASSWORD not in repr(conf) + repr(dict(conf)) + repr(conf.settings) + repr(vars(conf)["_values"])


@pytest.mark.parametrize(
    ("ways", "parts"),
    [
        (
            {"password": PASSWORD, "passwordEnv": "X"},
            ("jedisPoolConfig.password and ", "jedisPoolConfig.passwordEnv are set"),
        ),
        (
            {"passwordFile": "x", "passwordEnv": "X"},
            ("jedisPoolConfig.passwordEnv and ", "jedisPoolConfig.passwordFile are set"),
        ),
        ({"passwordEnv": "ANCHORBOLT_TEST_UNSET"}, ("ANCHORBOLT_TEST_UNSET, which is not set",)),
        ({"passwordEnv": "ANCHORBOLT_TEST_EMPTY"}, ("ANCHORBOLT_TEST_EMPTY, which is empty",)),
        ({"passwordFile": "{dir}/none"}, ("{dir}/none, which cannot be read: No such file",)),
        ({"passwordFile": "{dir}"}, ("cannot be read: Is a directory",)),
        ({"passwordFile": "{dir}/empty"}, ("which is empty",)),
        ({"passwordFile": "{dir}/binary"}, ("which is not UTF-8 text",)),
    ],
)
def test_password_that_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: dict[str, str], parts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ANCHORBOLT_TEST_EMPTY", "")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(PASSWORD.encode() + b"\xff")
    error = refusal({CONFIG: {"jedisPoolConfig": {k: v.format(dir=tmp_path) for k, v in ways.items()}}})
    for part in parts:
        assert part.format(dir=tmp_path) in error.message


def test_storms_keys_do_not_hide_ours() -> None:
    assert not set(STORM_KEYS) & load_conf().keys()
