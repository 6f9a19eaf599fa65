"""Serializers as a user could write them, for tests that name them in a configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from anchorbolt.state_backends import Serializer


@dataclass(frozen=True)
class Money:
    amount: int
    currency: str = "EUR"

    def __add__(self, other: int) -> Money:
        return Money(self.amount + other, self.currency)


@dataclass(frozen=True)
class Cell:
    column: int
    row: int


class MoneySerializer(Serializer[Money]):
    """Writes `12 EUR`; anything else is refused."""

    version = 3

    def dumps(self, value: Money) -> bytes:
        return f"{value.amount} {value.currency}".encode()

    def loads(self, data: bytes) -> Money:
        amount, currency = data.decode().split(" ")
        return Money(int(amount), currency)


class CellSerializer(Serializer[Cell]):
    """Canonical: a cell has one encoding."""

    name = "cells"

    def dumps(self, value: Cell) -> bytes:
        return json.dumps([value.column, value.row]).encode()

    def loads(self, data: bytes) -> Cell:
        column, row = json.loads(data)
        return Cell(column, row)


class Careless(Serializer[Any]):
    """Breaks the rules in whichever way the value says."""

    def dumps(self, value: Any) -> Any:
        if value == "raises":
            raise RuntimeError("not this one")
        return {"empty": b"", "text": "text", "tag": b"\xc1v\x00\x09 looks like a tag"}.get(value, b"same")

    def loads(self, data: bytes) -> Any:
        return "tag" if data.startswith(b"\xc1v") else "same"


class NeedsMore(MoneySerializer):
    def __init__(self, currency: str) -> None:
        self.currency = currency


class TakenName(MoneySerializer):
    name = "msgpack"


class BadVersion(MoneySerializer):
    version = 0
