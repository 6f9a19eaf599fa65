"""Translates Hadoop's settings of a file system to settings of the workers' client library. Pure.

Only settings for the address of a file system, the identity of the client, and encryption are translated or refused. A
worker without a key for an object store uses the key of its environment, as Hadoop does.
"""

import re

from anchorbolt.errors import ConfigError
from anchorbolt.files.hadoop_s3 import SettingReader, Settings, s3
from anchorbolt.files.paths import S3_SCHEMES, Uri, uri_of
from anchorbolt.files.stores import Option, Store

_ANY_HOST = ("", "0.0.0.0", "[::]", "::")
_HAS_PORT = re.compile(r":[0-9]+$")
_WEB_PORT, _SECURE_WEB_PORT = 9870, 9871  # Hadoop's own defaults for `dfs.namenode.http-address` and `…https-address`


def store_of(location: str, get: SettingReader, get_secret: SettingReader, user: str = "") -> Store:
    """Return the store of a remote location.

    Args:
        location: The qualified location.
        get: Reads a setting of Hadoop's configuration.
        get_secret: Reads a password or key, which may be in one of Hadoop's credential providers.
        user: The user's name on HDFS.

    Raises:
        ConfigError: Workers cannot open this kind of file system, or a required setting is missing.
    """
    uri = uri_of(location)
    if uri is not None and uri.scheme == "hdfs":
        return _hdfs(uri, Settings(get, get_secret), user)
    if uri is None or uri.scheme not in S3_SCHEMES:
        raise cannot_be_used(location)
    return s3(uri, get, get_secret)


def is_known(location: str) -> bool:
    """Return whether a qualified remote location is on a kind of file system that runs can use."""
    uri = uri_of(location)
    return uri is not None and uri.scheme in ("hdfs", *S3_SCHEMES)


def cannot_be_used(location: str) -> ConfigError:
    """Return the error for a location for which `is_known` is False."""
    return ConfigError(
        f"location {location!r} cannot be used: the places of a run are on hdfs: or s3a:, or in a directory that is "
        "mounted on every machine. Name such a location.",
        key="topology.checkpoint.location",
    )


def _hdfs(uri: Uri, settings: Settings, user: str) -> Store:
    if settings.read("hadoop.security.authentication").lower() == "kerberos":
        raise ConfigError(
            f"tasks cannot write to {uri.root}: it asks for Kerberos, which they do not speak yet. Use another file "
            "system for the checkpoint location, or a mounted directory.",
            key="topology.checkpoint.location",
        )
    if not uri.authority:
        raise ConfigError(f"{uri.root}{uri.path} names no NameNode. Write hdfs://host:port/path, or set fs.defaultFS.")
    has_tls = settings.read("dfs.http.policy").upper() == "HTTPS_ONLY"
    options: dict[str, Option] = {"use_https": has_tls, **({"user": user} if user else {})}
    return Store("webhdfs", "", tuple(sorted(options.items())), _web_addresses(uri, settings, has_tls=has_tls))


def _web_addresses(uri: Uri, settings: Settings, *, has_tls: bool) -> tuple[str, ...]:
    setting = f"dfs.namenode.{'https' if has_tls else 'http'}-address"
    default_port = _SECURE_WEB_PORT if has_tls else _WEB_PORT
    if nodes := settings.read(f"dfs.ha.namenodes.{uri.authority}"):
        found = []
        for node in nodes.split(","):
            suffix = f"{uri.authority}.{node.strip()}"
            rpc = settings.read(f"dfs.namenode.rpc-address.{suffix}")
            address = _address(settings.read(f"{setting}.{suffix}"), rpc, default_port)
            if address is None:
                raise ConfigError(
                    f"tasks write to {uri.root} by WebHDFS, and {setting}.{suffix} does not name the NameNode's host, "
                    f"nor does dfs.namenode.rpc-address.{suffix}. Set it in Spark's Hadoop configuration, with "
                    "spark.hadoop. before its name.",
                    key=f"{setting}.{suffix}",
                )
            found.append(address)
        return tuple(found)
    default = uri_of(settings.read("fs.defaultFS"))
    # Ignore the address of another HDFS.
    is_of_this = default is None or default.scheme != "hdfs" or default.authority == uri.authority
    address = _address(settings.read(setting) if is_of_this else "", uri.authority, default_port)
    assert address is not None, "a URI without a host was refused"
    return (address,)


def _address(web: str, node: str, default_port: int) -> str | None:
    """Return the web address of a NameNode; the host is that of the address `node` if `web` has none."""
    host, _, port = web.rpartition(":")
    if host in _ANY_HOST:  # the default means: the host of the NameNode
        host = node.rpartition(":")[0] if _HAS_PORT.search(node) else node
    return None if host in _ANY_HOST else f"{host}:{port or default_port}"
