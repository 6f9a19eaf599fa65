"""Finds the secrets in a configuration, so that no page, history or answer shows them. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
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
_SHORTEST_CUT = 100  # characters: no text is cut to fewer without a mark
_MARKS_OF_CUTS = re.compile(r"(?:\n?(?:…|\.{3,}))+\n?")


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
    """Removes known secrets from texts, and parts of secrets at a cut of a text.

    A text may be cut before or after a `…` or `...`, or, if it is long, at its start and end. At a cut, at most three
    characters of a secret stay.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Secrets of fewer than four characters are not removed: they are parts of other words."""
        hidden = {form for each in secrets for form in _forms(each)}
        self._secrets = [each for each in hidden if len(each) >= _SHORTEST_SECRET]

    def without_secrets(self, value: Any) -> Any:
        """Return a JSON value with the secrets removed from its texts. Names of fields and numbers do not change."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return _replaced(value, self._spans(value))
        if isinstance(value, Mapping):
            return {name: self.without_secrets(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.without_secrets(item) for item in value]
        return value

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret, or part of a secret at a cut, in the text."""
        starts, ends = _cuts(text)
        next_ends = (bisect_left(ends, start + _SHORTEST_SECRET) for start in starts)
        between = [(start, ends[at]) for start, at in zip(starts, next_ends, strict=True) if at < len(ends)]
        for secret in self._secrets:
            at = text.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = text.find(secret, at + 1)
            parts = range(_SHORTEST_SECRET, len(secret))  # lengths
            if secret[:_SHORTEST_SECRET] in text:
                yield from ((end - n, end) for end in ends for n in parts if text.endswith(secret[:n], 0, end))
            if secret[-_SHORTEST_SECRET:] in text:
                yield from (
                    (start, start + n) for start in starts for n in parts if text.startswith(secret[-n:], start)
                )
            yield from ((start, end) for start, end in between if end - start in parts and text[start:end] in secret)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in texts: whole, line by line, and as `repr` writes it."""
    yield secret
    yield from secret.splitlines()
    yield repr(secret)[1:-1]


def _cuts(text: str) -> tuple[list[int], list[int]]:
    """Return the positions where a text may continue after a cut, and where it may end before a cut.

    A short text without a mark is whole. It may equal the beginning of a secret by chance, as the name of a bolt may.
    """
    starts, ends = ({0}, {len(text)}) if len(text) >= _SHORTEST_CUT else (set(), set())
    for mark in _MARKS_OF_CUTS.finditer(text):
        # A line end beside a mark comes from `bounded`, or belongs to the secret.
        ends |= {mark.start(), mark.start() + mark[0].startswith("\n")}
        starts |= {mark.end(), mark.end() - mark[0].endswith("\n")}
    return sorted(starts), sorted(ends)


def _replaced(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with `MASK` in place of the spans, which may overlap."""
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])
