"""Which texts of a configuration are secrets, so that no page, history or answer shows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from anchorbolt.config.declaration import Checked
from anchorbolt.config.secret import Secret

MASK = "***"

SECRET_KEY = re.compile(
    r"(?i)(?!.*(env|file|path|location|class)$).*"
    r"(pass(word|wd|phrase)?$|passw|secret|token|credential|payload|api.?key|access.?key|private.?key|account.?key"
    r"|auth$|pwd|dsn)"
)
"""A key with such a name holds a secret, unless it says where the secret is, as `topology.ui.tokenEnv` does."""

LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")

_SHORTEST_SECRET = 4


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
        if SECRET_KEY.fullmatch(key):
            yield value
        for login in LOGIN_IN_URL.findall(value):
            _, _, password = login.removesuffix("@").partition(":")
            yield password


class Masking:
    """Removes known secrets from texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Texts of less than four characters are not removed: they are parts of other words."""
        hidden = {each for each in secrets if len(each) >= _SHORTEST_SECRET}
        self._secrets = sorted(hidden, key=len, reverse=True)  # because one secret may hold another

    def without_secrets(self, value: Any) -> Any:
        """Return a value of JSON whose texts hold no secret. Names of fields and numbers are left as they are."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, Mapping):
            return {name: self.without_secrets(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.without_secrets(item) for item in value]
        return value
