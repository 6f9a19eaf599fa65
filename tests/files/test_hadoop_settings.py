"""What workers are told of a file system, from Hadoop's settings."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from anchorbolt.config import Secret
from anchorbolt.errors import ConfigError
from anchorbolt.files import WorkerLocations
from anchorbolt.files.hadoop_settings import store_of
from anchorbolt.files.stores import Store, open_store

Settings = Mapping[str, str]


def store(location: str, settings: Settings, secrets: Settings | None = None, user: str = "") -> Store:
    return store_of(location, settings.get, (secrets or {}).get, user)


def options(location: str, settings: Settings, secrets: Settings | None = None) -> dict[str, Any]:
    return dict(store(location, settings, secrets).options)


KEYS = {"fs.s3a.access.key": "id", "fs.s3a.secret.key": "key"}


def test_an_endpoint_of_ones_own_is_spoken_to_as_hadoop_does() -> None:
    settings = {"fs.s3a.endpoint": "http://minio:9000", "fs.s3a.path.style.access": "true"}
    assert options("s3a://bucket/a", settings, KEYS) == {
        "endpoint_override": "minio:9000",
        "scheme": "http",
        "access_key": Secret("id"),
        "secret_key": Secret("key"),
    }
    settings = {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}
    found = options("s3a://bucket/a", settings)
    assert (found["scheme"], found["force_virtual_addressing"]) == ("http", True)
    assert options("s3a://bucket/a", {"fs.s3a.endpoint": "minio"})["scheme"] == "https"


def test_the_region_is_the_configured_one_or_that_of_amazons_endpoint() -> None:
    assert options("s3a://bucket/a", {"fs.s3a.endpoint.region": "eu-west-1"}) == {"region": "eu-west-1"}
    of_endpoint = options("s3a://bucket/a", {"fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"})
    assert of_endpoint["region"] == "eu-central-1"
    assert options("s3a://bucket/a", {"fs.s3a.endpoint": "s3.amazonaws.com"}) == {}


def test_a_buckets_own_settings_come_first_and_without_keys_the_worker_uses_its_own() -> None:
    secrets = {**KEYS, "fs.s3a.bucket.mine.access.key": "mine", "fs.s3a.bucket.mine.secret.key": "too"}
    secrets["fs.s3a.bucket.mine.session.token"] = "passing"
    mine = options("s3a://mine/a", {}, secrets)
    assert mine == {"access_key": Secret("mine"), "secret_key": Secret("too"), "session_token": Secret("passing")}
    assert options("s3a://other/a", {}, secrets) == {"access_key": Secret("id"), "secret_key": Secret("key")}
    assert options("s3a://other/a", {}) == {}
    assert store("s3a://other/a", {}).prefix == "other"


SECRETS = {
    "fs.s3a.access.key": "wer-fragt",
    "fs.s3a.secret.key": "sehr-geheim",
    "fs.s3a.session.token": "kurz-gueltig",
    "fs.s3a.proxy.username": "vermittler",
    "fs.s3a.proxy.password": "durch-die-wand",
}


def test_no_key_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"fs.s3a.proxy.host": "proxy"}
    with caplog.at_level(logging.DEBUG):
        opened = store("s3a://bucket/a", settings, SECRETS)
        shown = repr(opened) + str(opened) + repr(WorkerLocations(stores=(("s3a://bucket", opened),)))
    held = repr([value.reveal() for _, value in opened.options if isinstance(value, Secret)])
    assert {each for each in SECRETS.values() if each not in held} == set(), "it is there, so that it could be shown"
    assert {each for each in SECRETS.values() if each in shown + caplog.text} == set()


def test_a_library_that_refuses_a_key_does_not_show_it() -> None:
    refused = Store("s3", "bucket", (("proxy_options", Secret("nonsense://sehr-geheim")), ("region", "r")))
    with pytest.raises(ConfigError) as caught:
        open_store(refused)
    assert "sehr-geheim" not in caught.value.message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, ("node:9870",)),
        ({"dfs.namenode.http-address": "0.0.0.0:1234"}, ("node:1234",)),
        ({"dfs.namenode.http-address": "web:1234"}, ("web:1234",)),
        ({"dfs.namenode.http-address": "web:1234", "fs.defaultFS": "hdfs://node:8020"}, ("web:1234",)),
        ({"dfs.namenode.http-address": "web:1234", "fs.defaultFS": "hdfs://another:8020"}, ("node:9870",)),
        ({"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": "web:9"}, ("web:9",)),
        ({"dfs.http.policy": "https_only"}, ("node:9871",)),
    ],
)
def test_a_name_node_is_found_at_its_web_address(settings: Settings, addresses: tuple[str, ...]) -> None:
    found = store("hdfs://node:8020/a", settings, user="me")
    assert (found.kind, found.addresses) == ("webhdfs", addresses)
    assert dict(found.options) == {"user": "me", "use_https": "dfs.http.policy" in settings}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"fs.s3a.endpoint": "m", "fs.s3a.connection.ssl.enabled": "False"}, {"scheme": "http"}),
        ({"fs.s3a.endpoint": "m", "fs.s3a.connection.ssl.enabled": "none"}, {"scheme": "https"}),
        ({"fs.s3a.endpoint": "m", "fs.s3a.path.style.access": " TRUE "}, {"force_virtual_addressing": None}),
        ({"fs.s3a.proxy.host": "p"}, {"proxy_options": Secret("http://p:80")}),
        ({"fs.s3a.proxy.host": "p", "fs.s3a.proxy.ssl.enabled": "TRUE"}, {"proxy_options": Secret("https://p:443")}),
        ({"fs.s3a.proxy.host": "p", "fs.s3a.proxy.port": "8"}, {"proxy_options": Secret("http://p:8")}),
    ],
)
def test_booleans_and_proxies_are_read_as_hadoop_does(settings: Settings, expected: dict[str, Any]) -> None:
    found = options("s3a://bucket/a", settings)
    assert {name: found.get(name) for name in expected} == expected


def test_a_proxys_user_and_password_are_quoted() -> None:
    secrets = {"fs.s3a.proxy.username": "me@home", "fs.s3a.proxy.password": "a/b"}
    found = options("s3a://bucket/a", {"fs.s3a.proxy.host": "p"}, secrets)
    assert found == {"proxy_options": Secret("http://me%40home:a%2Fb@p:80")}


HADOOPS_PROVIDERS = """
    org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,
    org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,
    software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,
    org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider
"""


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        (HADOOPS_PROVIDERS, {"access_key", "secret_key", "session_token"}),
        ("org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider", {"access_key", "secret_key", "session_token"}),
        ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", {"access_key", "secret_key"}),
        ("com.amazonaws.auth.EnvironmentVariableCredentialsProvider", set()),
        ("org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider", set()),
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", {"anonymous"}),
    ],
)
def test_keys_are_used_if_the_providers_of_credentials_use_them(providers: str, expected: set[str]) -> None:
    secrets = {**KEYS, "fs.s3a.session.token": "passing"}
    assert options("s3a://bucket/a", {"fs.s3a.aws.credentials.provider": providers}, secrets).keys() == expected


S3 = "s3a://bucket/a"


@pytest.mark.parametrize(
    ("location", "name", "value"),
    [
        (S3, "fs.s3a.encryption.algorithm", "SSE-KMS"),
        (S3, "fs.s3a.bucket.bucket.encryption.algorithm", "SSE-C"),
        (S3, "fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"),
        (S3, "fs.s3a.aws.credentials.provider", "my.own.Provider, x.SimpleAWSCredentialsProvider"),
        (S3, "fs.s3a.proxy.domain", "office"),
        (S3, "fs.s3a.acl.default", "PublicRead"),
        (S3, "fs.s3a.requester.pays.enabled", "True"),
        (S3, "fs.s3a.security.credential.provider.path", "jceks://file/x"),
    ],
)
def test_a_setting_that_tasks_cannot_follow_is_refused(location: str, name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store(location, {name: value})
    assert caught.value.key == name
    assert name in caught.value.message


def test_a_name_node_of_a_name_service_that_listens_everywhere_is_at_its_rpc_address() -> None:
    settings = {
        "dfs.ha.namenodes.jobs": "a, b",
        "dfs.namenode.http-address.jobs.a": "0.0.0.0:1234",
        "dfs.namenode.rpc-address.jobs.a": "one:8020",
        "dfs.namenode.rpc-address.jobs.b": "two:8020",
    }
    assert store("hdfs://jobs/x", settings).addresses == ("one:1234", "two:9870")
    del settings["dfs.namenode.rpc-address.jobs.a"]
    with pytest.raises(ConfigError) as caught:
        store("hdfs://jobs/x", settings)
    assert caught.value.key == "dfs.namenode.http-address.jobs.a"


def test_a_name_service_has_the_addresses_of_all_its_name_nodes() -> None:
    settings = {
        "dfs.ha.namenodes.jobs": "a, b",
        "dfs.namenode.http-address.jobs.a": "one:9870",
        "dfs.namenode.http-address.jobs.b": "two:9870",
    }
    assert store("hdfs://jobs/x", settings).addresses == ("one:9870", "two:9870")
    del settings["dfs.namenode.http-address.jobs.b"]
    with pytest.raises(ConfigError) as caught:
        store("hdfs://jobs/x", settings)
    assert caught.value.key == "dfs.namenode.http-address.jobs.b"


@pytest.mark.parametrize("location", ["viewfs://x/y", "abfss://box@account/x", "gs://bucket/x", "dbfs:/x"])
def test_a_file_system_without_a_library_for_workers_is_refused(location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store(location, {})
    assert caught.value.key == "topology.checkpoint.location"


def test_hdfs_with_kerberos_is_refused() -> None:
    for value in ("kerberos", "Kerberos", "KERBEROS "):
        with pytest.raises(ConfigError, match="Kerberos"):
            store("hdfs://node/x", {"hadoop.security.authentication": value})
