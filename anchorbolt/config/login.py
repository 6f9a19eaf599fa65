"""What it takes to log in to a store: passwords from the environment or a file, and the files of TLS."""

from __future__ import annotations

import os

from anchorbolt.config.provider_keys import RedisLogin, TlsConfig
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import TlsSettings
from anchorbolt.errors import ConfigError

_LARGEST_PASSWORD_FILE = 65_536


def tls_settings(key: str, tls: TlsConfig | None) -> TlsSettings | None:
    """Return the settings below `tls` of an inner key.

    Raises:
        ConfigError: There is a private key without a certificate.
    """
    if tls is None:
        return None
    if tls.key is not None and tls.cert is None:
        raise ConfigError(
            f"{key}.tls.key is set, but cert is not. Name the certificate that the key belongs to.",
            key=f"{key}.tls.key",
        )
    return TlsSettings(ca=tls.ca, cert=tls.cert, key=tls.key, verify=tls.verify)


def password_of(key: str, login: RedisLogin) -> Secret | None:
    """Return the password below an inner key, from wherever it lies.

    Raises:
        ConfigError: Several places are named, or the one that is cannot be read or is empty.
    """
    ways = ("password", "passwordEnv", "passwordFile")
    used = [way for way in ways if getattr(login, way) is not None]
    if len(used) > 1:
        raise ConfigError(
            f"{key} has {' and '.join(used)}. Use one of them, best passwordEnv or passwordFile.",
            key=f"{key}.{used[1]}",
        )
    if login.passwordEnv is not None:
        return password_in_variable(f"{key}.passwordEnv", login.passwordEnv)
    if login.passwordFile is not None:
        return password_in_file(f"{key}.passwordFile", login.passwordFile)
    return login.password if login.password is not None and login.password.reveal() else None


def password_in_variable(key: str, name: str) -> Secret:
    """Return the password in an environment variable, which `key` names.

    Raises:
        ConfigError: It is not set, or empty.
    """
    value = os.environ.get(name)
    if not value:
        state = "not set" if value is None else "empty"
        raise ConfigError(
            f"{key} names the environment variable {name}, which is {state}. Set it where Anchorbolt is started.",
            key=key,
        )
    return Secret(value)


def password_in_file(key: str, path: str) -> Secret:
    """Return the password that a file holds, which `key` names; a line break at its end is not part of it.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    problem, text = "", ""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST_PASSWORD_FILE).rstrip("\r\n")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # holds the file's bytes, so the error below is raised apart from it
        problem = "is not UTF-8 text"
    if not problem and not text:
        problem = "is empty"
    if problem:
        raise ConfigError(
            f"{key} names {path}, which {problem}. Put the password into it, on this machine.",
            key=key,
        )
    return Secret(text)
