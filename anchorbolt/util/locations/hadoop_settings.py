"""Translates Hadoop's settings of a file system to those of the library that workers use. Pure.

Only settings that say where a file system is and who asks are translated. A worker without a key for an object store
uses that of its environment, as Hadoop does.
"""

from collections.abc import Callable

from anchorbolt.errors import ConfigError
from anchorbolt.util.locations.paths import Uri, uri_of
from anchorbolt.util.locations.stores import Option, Store
from anchorbolt.util.secret import Secret

SettingReader = Callable[[str], str | None]
"""Returns a setting of Hadoop by its name; None if it is not set."""

_WEB_PORT, _SECURE_WEB_PORT = 9870, 9871  # Hadoop's own defaults for `dfs.namenode.http-address` and `…https-address`
_CENTRAL_S3 = ("", "s3.amazonaws.com")


def store_of(location: str, get: SettingReader, get_secret: SettingReader, user: str = "") -> Store:
    """Return the store of a remote location.

    Args:
        location: The location, qualified.
        get: Reads a setting of Hadoop's configuration.
        get_secret: Reads a password or key, which may be in a credential provider of Hadoop's.
        user: The user's name on HDFS.

    Raises:
        ConfigError: Workers cannot open this kind of file system, or need a setting that is not there.
    """
    uri = uri_of(location)
    translate = None if uri is None else _TRANSLATIONS.get(uri.scheme)
    if uri is None or translate is None:
        raise ConfigError(
            f"tasks cannot write to {location!r}: without a JVM they can use hdfs:, s3a:, gs: and abfss:. Name a "
            "location on one of these, or a directory that is mounted on every machine.",
            key="topology.checkpoint.location",
        )
    return translate(uri, get, get_secret, user)


def _s3(uri: Uri, get: SettingReader, get_secret: SettingReader, user: str) -> Store:
    def read(name: str, reader: SettingReader = get) -> str:
        found = reader(f"fs.s3a.bucket.{uri.authority}.{name}") or reader(f"fs.s3a.{name}")
        return (found or "").strip()

    options: dict[str, Option] = {}
    endpoint, has_tls = read("endpoint"), read("connection.ssl.enabled") != "false"
    if "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
        has_tls = scheme == "https"
    endpoint = endpoint.rstrip("/")
    if region := read("endpoint.region") or _region_in(endpoint):
        options["region"] = region
    if endpoint not in _CENTRAL_S3:
        options |= {"endpoint_override": endpoint, "scheme": "https" if has_tls else "http"}
        if read("path.style.access") != "true":
            options["force_virtual_addressing"] = True
    key, secret = read("access.key", get_secret), read("secret.key", get_secret)
    if key and secret:
        options |= {"access_key": Secret(key), "secret_key": Secret(secret)}
        if token := read("session.token", get_secret):
            options["session_token"] = Secret(token)
    return Store("s3", uri.authority, tuple(sorted(options.items())))


def _region_in(endpoint: str) -> str:
    """Return the region that an endpoint of Amazon names, such as `s3.eu-central-1.amazonaws.com`."""
    parts = endpoint.split(".")
    is_amazons = len(parts) >= 4 and parts[0] == "s3" and parts[2] == "amazonaws"
    return parts[1] if is_amazons else ""


def _gs(uri: Uri, get: SettingReader, get_secret: SettingReader, user: str) -> Store:
    return Store("gs", uri.authority)


def _azure(uri: Uri, get: SettingReader, get_secret: SettingReader, user: str) -> Store:
    container, _, host = uri.authority.partition("@")
    account = host.partition(".")[0]
    if not account:
        raise ConfigError(f"{uri.root} names no account. Write abfss://container@account.dfs.core.windows.net/path.")
    options: dict[str, Option] = {"account_name": account}
    if key := get_secret(f"fs.azure.account.key.{host}") or get_secret("fs.azure.account.key"):
        options["account_key"] = Secret(key)
    return Store("azure", container, tuple(sorted(options.items())))


def _hdfs(uri: Uri, get: SettingReader, get_secret: SettingReader, user: str) -> Store:
    if get("hadoop.security.authentication") == "kerberos":
        raise ConfigError(
            f"tasks cannot write to {uri.root}: it asks for Kerberos, which they do not speak yet. Use another file "
            "system for the checkpoint location, or a mounted directory.",
            key="topology.checkpoint.location",
        )
    if not uri.authority:
        raise ConfigError(f"{uri.root}{uri.path} names no NameNode. Write hdfs://host:port/path, or set fs.defaultFS.")
    has_tls = get("dfs.http.policy") == "HTTPS_ONLY"
    options: dict[str, Option] = {"use_https": has_tls, **({"user": user} if user else {})}
    return Store("webhdfs", "", tuple(sorted(options.items())), _web_addresses(uri, get, has_tls=has_tls))


def _web_addresses(uri: Uri, get: SettingReader, *, has_tls: bool) -> tuple[str, ...]:
    setting = f"dfs.namenode.{'https' if has_tls else 'http'}-address"
    if nodes := get(f"dfs.ha.namenodes.{uri.authority}"):
        names = [f"{setting}.{uri.authority}.{node.strip()}" for node in nodes.split(",")]
        missing = [name for name in names if not get(name)]
        if missing:
            raise ConfigError(
                f"tasks write to {uri.root} by WebHDFS, and {', '.join(missing)} is not set. Set it in Spark's Hadoop "
                "configuration, with spark.hadoop. before its name.",
                key=missing[0],
            )
        return tuple(str(get(name)) for name in names)
    default = uri_of(get("fs.defaultFS") or "")
    # One that is set for another HDFS says nothing about this one.
    is_of_this = default is None or default.scheme != "hdfs" or default.authority == uri.authority
    configured = (get(setting) if is_of_this else None) or ""
    host, _, port = configured.rpartition(":")
    if host in ("", "0.0.0.0"):  # the default means: wherever the NameNode is
        host = uri.authority.partition(":")[0]
    return (f"{host}:{port or (_SECURE_WEB_PORT if has_tls else _WEB_PORT)}",)


_TRANSLATIONS = {"s3a": _s3, "s3": _s3, "gs": _gs, "abfss": _azure, "abfs": _azure, "hdfs": _hdfs}
