"""The configuration in force, with secrets masked, and where each key comes from."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from anchorbolt.config.declaration import by_key
from anchorbolt.config.masking import ASSIGNED, LOGIN_IN_URL, MASK, SECRET_KEY
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import Settings
from anchorbolt.ui.answers import Configuration, ConfiguredKey
from anchorbolt.ui.model.observation import Observation

_MOST_CHARACTERS = 2000


def masked(value: Any, key: str = "") -> Any:
    """Return a value for JSON. Everything that is or looks like a secret is masked, at any depth."""
    if isinstance(value, Secret) or (SECRET_KEY.fullmatch(key) and value not in (None, "", True, False)):
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
        without_login = LOGIN_IN_URL.sub(f"{MASK}@", value[:_MOST_CHARACTERS])
        return ASSIGNED.sub(rf"\g<1>{MASK}", without_login)
    return f"of type {type(value).__name__}"


def shown_configuration(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration by key, masked."""
    return {key: masked(value, key) for key, value in sorted(conf.items())}


def configuration(seen: Observation) -> Configuration:
    """Return the answer of `/api/v1/topology/{id}/configuration`."""
    known = by_key(Settings)
    keys = [
        ConfiguredKey(
            key=key,
            value=value,
            origin=seen.origins.get(key, "default"),
            known=key in known or key.startswith("topology.state.provider"),
        )
        for key, value in shown_configuration(seen.configuration).items()
    ]
    return Configuration(keys=keys, facts=seen.facts)
