"""Reads passwords from the environment and from files."""

import os
from collections.abc import Mapping
from typing import Any

from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError

_LARGEST_PASSWORD_FILE = 65_536


def password_of(group: str, ways: Mapping[str, Any]) -> Secret | None:
    """Return the password that the keys `password`, `passwordEnv` and `passwordFile` below `group` give.

    Raises `ConfigError` if several of them are set, or the password cannot be read or is empty.
    """
    used = [way for way, value in ways.items() if value is not None]
    if len(used) > 1:
        raise ConfigError(
            f"{group} has {' and '.join(used)}. Use one of them, best passwordEnv or passwordFile.",
            key=f"{group}.{used[1]}",
        )
    if ways["passwordEnv"] is not None:
        return password_in_variable(f"{group}.passwordEnv", ways["passwordEnv"])
    if ways["passwordFile"] is not None:
        return password_in_file(f"{group}.passwordFile", ways["passwordFile"])
    password: Secret | None = ways["password"]
    return password if password is not None and password.reveal() else None


def password_in_variable(key: str, name: str) -> Secret:
    """Return the password in an environment variable; `key` is the setting that names the variable."""
    value = os.environ.get(name)
    if not value:
        state = "not set" if value is None else "empty"
        raise ConfigError(
            f"{key} names the environment variable {name}, which is {state}. Set it where Anchorbolt is started.",
            key=key,
        )
    return Secret(value)


def password_in_file(key: str, path: str) -> Secret:
    """Return the password in a file, without a line end after it; `key` is the setting that names the file."""
    problem, text = "", ""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST_PASSWORD_FILE).rstrip("\r\n")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # it holds the file's bytes: the error below must not have it as its context
        problem = "is not UTF-8 text"
    if not problem and not text:
        problem = "is empty"
    if problem:
        raise ConfigError(f"{key} names {path}, which {problem}. Put the password into it, on this machine.", key=key)
    return Secret(text)
