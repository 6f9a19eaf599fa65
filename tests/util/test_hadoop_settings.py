"""What workers are told of a file system, from Hadoop's settings."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.util.locations.hadoop_settings import store_of
from anchorbolt.util.locations.stores import Store
from anchorbolt.util.secret import Secret

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


def test_no_key_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        shown = repr(store("s3a://bucket/a", {}, {**KEYS, "fs.s3a.session.token": "token"}))
        shown += repr(store("abfss://box@account.dfs.core.windows.net/a", {}, {"fs.azure.account.key": "azure-key"}))
    assert not {"'id'", "'key'", "token'", "azure-key"} & set(shown.split("="))
    assert "azure-key" not in shown + caplog.text


def test_azure_has_an_account_and_a_container() -> None:
    host = "account.dfs.core.windows.net"
    found = store(f"abfss://box@{host}/a", {}, {f"fs.azure.account.key.{host}": "key"})
    assert (found.kind, found.prefix) == ("azure", "box")
    assert dict(found.options) == {"account_name": "account", "account_key": Secret("key")}
    with pytest.raises(ConfigError):
        store("abfss://box/a", {})


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, ("node:9870",)),
        ({"dfs.namenode.http-address": "0.0.0.0:1234"}, ("node:1234",)),
        ({"dfs.namenode.http-address": "web:1234"}, ("web:1234",)),
        ({"dfs.namenode.http-address": "web:1234", "fs.defaultFS": "hdfs://node:8020"}, ("web:1234",)),
        ({"dfs.namenode.http-address": "web:1234", "fs.defaultFS": "hdfs://another:8020"}, ("node:9870",)),
        ({"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": "web:9"}, ("web:9",)),
        ({"dfs.http.policy": "HTTPS_ONLY"}, ("node:9871",)),
    ],
)
def test_a_name_node_is_found_at_its_web_address(settings: Settings, addresses: tuple[str, ...]) -> None:
    found = store("hdfs://node:8020/a", settings, user="me")
    assert (found.kind, found.addresses) == ("webhdfs", addresses)
    assert dict(found.options) == {"user": "me", "use_https": "dfs.http.policy" in settings}


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


@pytest.mark.parametrize("location", ["viewfs://x/y", "wasbs://box@account/x", "dbfs:/x"])
def test_a_file_system_without_a_library_for_workers_is_refused(location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store(location, {})
    assert caught.value.key == "topology.checkpoint.location"


def test_hdfs_with_kerberos_is_refused() -> None:
    with pytest.raises(ConfigError, match="Kerberos"):
        store("hdfs://node/x", {"hadoop.security.authentication": "kerberos"})
