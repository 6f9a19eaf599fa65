"""Rewrites the keys of a namespace that was written before keys had a canonical form.

See docs/decisions/equal-keys.md.
"""

from collections.abc import Iterator
from typing import NamedTuple

from anchorbolt.errors import MigrationRefused, SerializationError
from anchorbolt.serialization.codecs import Codec, JsonKeyCodec, MsgpackKeyCodec
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.encoding import older_header
from anchorbolt.util.messages import shortened

_CODECS: dict[str, Codec] = {
    older_header(f"keys {codec.header}, "): codec for codec in (MsgpackKeyCodec(), JsonKeyCodec())
}

Page = list[tuple[bytes, bytes]]


class Rewriting(NamedTuple):
    """How the keys of one namespace are copied."""

    namespace: str
    header: str  # of the copy
    codec: Codec | None  # None if the keys stay as they are

    def pages(self, reader: StateStorage, page_size: int, written: StateStorage | None, attempt: str) -> Iterator[Page]:
        """Yield the entries in the form of the copy.

        With `written`, the namespace with the staged part of the copy, raise `MigrationRefused` for a key that was
        stored under two spellings.
        """
        for page in reader.scan(page_size=page_size):
            keys = [self._rewritten(key) for key, _ in page]
            changed = {new: old for new, (old, _) in zip(keys, page, strict=True) if new != old}
            if written is not None and changed:
                self._check_single(keys, changed, reader, written, attempt)
            yield list(zip(keys, (value for _, value in page), strict=True))

    def _rewritten(self, key: bytes) -> bytes:
        if self.codec is None:
            return key
        try:
            return self.codec.encode(self.codec.decode(key))
        except SerializationError as error:
            raise MigrationRefused(f"{self.namespace}: a key cannot be rewritten: {error.message}") from error

    def _check_single(
        self, keys: list[bytes], changed: dict[bytes, bytes], reader: StateStorage, written: StateStorage, attempt: str
    ) -> None:
        assert self.codec is not None, "keys change only where a codec rewrites them"
        rewritten = list(changed)
        twins = zip(rewritten, reader.get_many(rewritten), written.get_many(rewritten, attempt), strict=True)
        stored_twice = [key for key, *values in twins if values != [None, None] or keys.count(key) > 1]
        for key in stored_twice:
            raise MigrationRefused(
                f"{self.namespace}: the key {shortened(self.codec.decode(key))} is stored under several spellings, one "
                f"of which is {shortened(self.codec.decode(changed[key]))}. Nothing is committed at the target. Put "
                "their values together under one of them, with the version of Anchorbolt that wrote them, and copy "
                "again."
            )


def rewriting(namespace: str, header: str) -> Rewriting:
    """Return how the keys of a namespace with this format header are copied."""
    for older, codec in _CODECS.items():
        if header.startswith(older):
            return Rewriting(namespace, header.replace(older, f"keys {codec.header}, ", 1), codec)
    return Rewriting(namespace, header, None)
