"""Translates Hadoop's settings of S3 to the options of `pyarrow.fs`. Pure.

A setting for the identity of the client, or for encryption, is translated or refused: tasks must write with the
driver's rights and encryption.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

from anchorbolt.errors import ConfigError
from anchorbolt.files.paths import Uri
from anchorbolt.files.stores import Option, Store
from anchorbolt.util.secret import Secret

SettingReader = Callable[[str], str | None]
"""Returns a setting of Hadoop by its name; None if it is not set."""


class Settings(NamedTuple):
    """Hadoop's settings of one bucket. In `scopes`, `{}` stands for a setting's name; the first found applies."""

    get: SettingReader
    get_secret: SettingReader
    scopes: tuple[str, ...] = ("{}",)

    def read(self, name: str) -> str:
        return self._first(name, self.get)[1]

    def read_secret(self, name: str) -> str:
        return self._first(name, self.get_secret)[1]

    def is_true(self, name: str, *, default: bool = False) -> bool:
        """Read a boolean as Hadoop does: any text except true and false means the default."""
        return {"true": True, "false": False}.get(self.read(name).lower(), default)

    def refuse(self, name: str, advice: str) -> ConfigError:
        """Return the error that refuses a setting."""
        full = self._first(name, self.get)[0]
        return ConfigError(
            f"{full} is set, and tasks, which write without a JVM, cannot do what it says. {advice}", key=full
        )

    def _first(self, name: str, reader: SettingReader) -> tuple[str, str]:
        for scope in self.scopes:
            full = scope.format(name)
            if found := (reader(full) or "").strip():
                return full, found
        return self.scopes[-1].format(name), ""


_CENTRAL_S3 = ("", "s3.amazonaws.com")
_WITH_KEYS = {"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"}
_OF_ENVIRONMENT = {  # the sources that pyarrow tries without keys
    "EnvironmentVariableCredentialsProvider",
    "ProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "InstanceProfileCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "DefaultCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
}
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_PROVIDERS = "aws.credentials.provider"
_REMOVE = "Remove it, and use what the bucket and the keys allow without it."
_BUCKET_ENCRYPTS = "Remove it, and set the default encryption of the bucket, which then holds for all files."
_REFUSED_OF_S3: Mapping[str, str] = {
    "encryption.algorithm": _BUCKET_ENCRYPTS,
    "server-side-encryption-algorithm": _BUCKET_ENCRYPTS,
    "acl.default": "Remove it, and set the rights on the bucket.",
    "delegation.token.binding": "Remove it, and give keys or the machines' role.",
    "accesspoint.arn": "Remove it, and use the bucket's own name.",
    "custom.signers": _REMOVE,
    "signing-algorithm": _REMOVE,
    "proxy.domain": "Use a proxy without NTLM.",
    "proxy.workstation": "Use a proxy without NTLM.",
    "security.credential.provider.path": "Set hadoop.security.credential.provider.path instead.",
}


def s3(uri: Uri, get: SettingReader, get_secret: SettingReader) -> Store:
    settings = Settings(get, get_secret, (f"fs.s3a.bucket.{uri.authority}.{{}}", "fs.s3a.{}"))
    for name, advice in _REFUSED_OF_S3.items():
        if settings.read(name):
            raise settings.refuse(name, advice)
    for name in ("requester.pays.enabled", "endpoint.fips", "accesspoint.required"):
        if settings.is_true(name):
            raise settings.refuse(name, _REMOVE)
    options: dict[str, Option] = {}
    endpoint, has_tls = settings.read("endpoint"), settings.is_true("connection.ssl.enabled", default=True)
    if "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
        has_tls = scheme.lower() == "https"
    endpoint = endpoint.rstrip("/")
    if region := settings.read("endpoint.region") or _region_in(endpoint):
        options["region"] = region
    if endpoint not in _CENTRAL_S3:
        options |= {"endpoint_override": endpoint, "scheme": "https" if has_tls else "http"}
        if not settings.is_true("path.style.access"):
            options["force_virtual_addressing"] = True
    if host := settings.read("proxy.host"):
        options["proxy_options"] = _proxy(settings, host)
    options |= _s3_credentials(settings)
    return Store("s3", uri.authority, tuple(sorted(options.items())))


def _s3_credentials(settings: Settings) -> dict[str, Option]:
    names = [name.strip().rpartition(".")[2] for name in settings.read(_PROVIDERS).split(",") if name.strip()]
    if names == [_ANONYMOUS]:
        return {"anonymous": True}
    unknown = set(names) - _WITH_KEYS - _OF_ENVIRONMENT - {_ANONYMOUS}
    if unknown:
        raise settings.refuse(
            _PROVIDERS,
            f"It names {', '.join(sorted(unknown))}. Remove it; then keys are used, or the environment, profile or "
            "role of each machine.",
        )
    key, secret = settings.read_secret("access.key"), settings.read_secret("secret.key")
    if not (key and secret) or (names and not _WITH_KEYS.intersection(names)):
        return {}
    found: dict[str, Option] = {"access_key": Secret(key), "secret_key": Secret(secret)}
    token = settings.read_secret("session.token")
    if token and (not names or "TemporaryAWSCredentialsProvider" in names):
        found["session_token"] = Secret(token)
    return found


def _proxy(settings: Settings, host: str) -> Secret:
    has_tls = settings.is_true("proxy.ssl.enabled")
    user, password = settings.read_secret("proxy.username"), settings.read_secret("proxy.password")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    port = settings.read("proxy.port") or (443 if has_tls else 80)
    return Secret(f"{'https' if has_tls else 'http'}://{login}{host}:{port}")


def _region_in(endpoint: str) -> str:
    """Return the region in the name of an Amazon endpoint, such as `s3.eu-central-1.amazonaws.com`."""
    parts = endpoint.split(".")
    is_amazons = len(parts) >= 4 and parts[0] == "s3" and parts[2] == "amazonaws"
    return parts[1] if is_amazons else ""
