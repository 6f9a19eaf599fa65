"""Finds the secrets in a configuration, so that no page, history or answer shows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from anchorbolt.config.declaration import Checked
from anchorbolt.config.secret import Secret

MASK = "***"

# Ends of keys with other content, such as the location of a secret.
_ELSE = r"(?i:env|file|path|location|class|provider|name|type|format|url|uri|enabled)$"

_WORD_ENDS = r"(?:(?<=[a-z])|(?<=[A-Z])(?![A-Z]))(?![a-z])"  # `token` ends in `tokenValue`, but not in `tokenizer`

SECRET_KEY = re.compile(
    rf"(?!.*{_ELSE}).*"
    r"((?i:passwd|passphrase|password|passw|pwd|secret|token|credential|authorization|api.?key|access.?key|private.?key"
    rf"|account.?key)(?i:s?){_WORD_ENDS}.*|(?i:pass|auth|payload|dsn)$)"
)
"""A key with such a word has a secret, unless its end shows other content, as in `topology.ui.tokenEnv`."""

LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")

ASSIGNED = re.compile(
    r"""(?ix)
    ((?:(?:passwd | passphrase | password | pwd | secret | token | (?:api|access|account|private)[._-]?key)s?
        | secret[._-]?key | signature | (?<![a-z])sig | authorization)
     ["']?\s*[=:]\s*(?:(?:basic|bearer)\s+)?\\*["']?)
    (?!(?:true|false|none|null)\b)
    ((?<=")[^"]+ | (?<=')[^']+ | [^\s,;&"']+)"""
)
"""In a text, the name of a secret followed by the secret, as in `password="…"` or `&sig=…`."""

_SHORTEST_SECRET = 4


def secrets_in(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts in a configuration that are secrets by their type or key."""
    is_secret = SECRET_KEY.fullmatch(key)
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, (Mapping, Checked)):
        for name, item in (vars(value) if isinstance(value, Checked) else value).items():
            yield from secrets_in(item, key if is_secret and not re.search(_ELSE, str(name)) else str(name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secrets_in(item, key)
    elif isinstance(value, str):
        if is_secret:
            yield value
            scheme, _, rest = value.partition(" ")
            if scheme.lower() in ("basic", "bearer"):
                yield rest.strip()
        found = [login.removesuffix("@").partition(":")[2] for login in LOGIN_IN_URL.findall(value)]
        for secret in [*found, *(secret.rstrip("\\") for _, secret in ASSIGNED.findall(value))]:
            yield secret
            yield from {unquote(secret)} - {secret}  # the form used by a client that has read it in a URL


class Masking:
    """Removes known secrets from texts. Mask a text before it is cut: a part of a secret would stay."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Secrets of fewer than four characters are not removed: they are parts of other words."""
        hidden = {form for each in secrets for form in _forms(each) if len(form) >= _SHORTEST_SECRET}
        longest_first = sorted(hidden, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if hidden else None

    def text(self, text: str) -> str:
        """Return a text with `MASK` in place of each secret."""
        return text if self._secrets is None else self._secrets.sub(MASK, text)

    def without_secrets(self, value: Any) -> Any:
        """Return a JSON value with the secrets removed from its texts. Names of fields and numbers do not change."""
        if self._secrets is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self.without_secrets(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.without_secrets(item) for item in value]
        return value


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in texts: whole, line by line, and as `repr` writes it."""
    yield secret
    yield from secret.splitlines()
    yield repr(secret)[1:-1]
