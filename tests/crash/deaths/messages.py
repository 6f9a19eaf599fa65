"""The messages of a run: drawn from a seed, put into the stream, and counted in plain Python."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import redis

from tests.crash.deaths.job import FIELDS, STREAM

_WORDS = [f"word{number}" for number in range(2000)]
_APART = 5000  # the halves of a pair are mostly closer than so many messages
_AT_ONCE = 5000


class Message(NamedTuple):
    """A message. Each text is one of two halves of a pair."""

    pair: str
    half: str
    text: str


def messages(seed: int, number: int) -> list[Message]:
    """Return this many messages, an even number. Some halves are far from each other."""
    random = Random(f"messages {seed}")
    drawn: list[tuple[float, Message]] = []
    for pair in range(number // 2):
        for half in "ab":
            text = " ".join(random.choices(_WORDS, k=random.randint(1, 3)))
            place = random.random() * number if random.random() < 0.01 else 2 * pair + random.random() * _APART
            drawn.append((place, Message(str(pair), half, text)))
    return [message for _, message in sorted(drawn)]


def counts(all_messages: list[Message]) -> Counter[str]:
    """Return how often each word occurs."""
    return Counter(word for message in all_messages for word in message.text.split())


def load(client: redis.Redis, all_messages: list[Message]) -> None:
    """Add the messages to the stream."""
    add_entries(client, (dict(zip(FIELDS, message, strict=True)) for message in all_messages))


def add_entries(client: redis.Redis, entries: Iterable[Mapping[Any, Any]]) -> None:
    """Add entries to the stream, with ids that count from 1."""
    waiting = iter(enumerate(entries, 1))
    while some := list(islice(waiting, _AT_ONCE)):
        with client.pipeline(transaction=False) as pipeline:
            for number, entry in some:
                pipeline.xadd(STREAM, dict(entry), id=f"{number}-0")
            pipeline.execute()
