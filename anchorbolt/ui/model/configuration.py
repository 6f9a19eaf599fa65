"""The configuration in force, with secrets masked, and where each key comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from anchorbolt.config.declaration import Checked, by_key
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import Settings
from anchorbolt.ui.model.observation import Observation

MASK = "***"

# A key with such a name holds a secret, unless it says where the secret is. `topology.ui.tokenEnv` is not masked.
_SECRET_KEY = re.compile(
    r"(?i)(?!.*(env|file|path|location|class)$).*"
    r"(pass(word|wd|phrase)?$|passw|secret|token|credential|payload|api.?key|access.?key|private.?key|auth$|pwd|dsn)"
)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")
_ASSIGNED = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|api_?key)\s*[=:]\s*[\"']?)[^\s,;&\"']+")
_MOST_CHARACTERS = 2000


def masked(value: Any, key: str = "") -> Any:
    """Return a value that JSON can hold, without what is or looks like a secret at any depth."""
    if isinstance(value, Secret) or (_SECRET_KEY.fullmatch(key) and value not in (None, "", True, False)):
        return MASK
    if isinstance(value, Mapping):
        return {str(name): masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [masked(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        without_login = _LOGIN_IN_URL.sub(f"{MASK}@", value[:_MOST_CHARACTERS])
        return _ASSIGNED.sub(rf"\g<1>{MASK}", without_login)
    return f"of type {type(value).__name__}"


def shown_configuration(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration by key, masked."""
    return {key: masked(value, key) for key, value in sorted(conf.items())}


def configuration(seen: Observation) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/configuration`."""
    known = by_key(Settings)
    shown = shown_configuration(seen.configuration)
    return {
        "keys": [
            {
                "key": key,
                "value": value,
                "origin": seen.origins.get(key, "default"),
                "known": key in known or key.startswith("topology.state.provider"),
            }
            for key, value in shown.items()
        ],
        "facts": seen.facts,
    }


def secrets_in(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts in a configuration that are secrets by their type or key, so that nothing else shows them."""
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, (Mapping, Checked)):
        for name, item in (vars(value) if isinstance(value, Checked) else value).items():
            yield from secrets_in(item, str(name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secrets_in(item, key)
    elif isinstance(value, str):
        if _SECRET_KEY.fullmatch(key):
            yield value
        for login in _LOGIN_IN_URL.findall(value):
            _, _, password = login.removesuffix("@").partition(":")
            yield password
