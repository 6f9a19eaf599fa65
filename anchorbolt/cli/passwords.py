"""Keeps passwords out of the command line, where every user of the machine can read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from anchorbolt.errors import ConfigError

__all__ = ["refuse_passwords"]

_IN_KEY = re.compile(r"password\s*$", re.IGNORECASE)
_IN_VALUE = re.compile(r"password['\"\s\\]*:", re.IGNORECASE)


def refuse_passwords(overrides: Iterable[str]) -> None:
    """Refuse a `key=value` whose key, or a key inside its value, ends in `password`, before anything else reads it.

    Raises:
        ConfigError: There is one; the message names the key, never the value.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        if _IN_KEY.search(key) or _IN_VALUE.search(value):
            raise ConfigError(
                f"--set {key.strip()}: a password on the command line can be read by every user of this machine, so "
                "it is refused (and this one should be changed). Name an environment variable that holds it with "
                "passwordEnv, or a file with passwordFile.",
                key=key.strip(),
            )
