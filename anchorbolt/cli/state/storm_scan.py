"""`anchorbolt state scan --codec storm-kryo`: entries that Storm wrote to Redis, as lines or as JSON."""

import json
from base64 import b64encode
from typing import Any

from anchorbolt.cli.state.text import SHOWN_CHARACTERS, print_notes, print_scan, remark
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools.inspect.json_format import as_text, printable
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.redis.errors import Advice
from anchorbolt.state_backends.redis.hashes import RedisHashes
from anchorbolt.storm.state_reader import StormEntry, StormOptions, StormPart, StormState


def scan_storm(provider: StateProvider, name: str, options: StormOptions, *, limit: int | None, as_json: bool) -> None:
    with _hashes_of(provider) as hashes:
        state = StormState(hashes, name, options)
        if state.form is not None:
            text = ", as Base64 text" if state.form.base64 else ""
            print_notes([f"written by {state.form.generation.label}{text}"])
        if state.txids:
            txids = ", ".join(f"{each} {txid!r}" for each, txid in sorted(state.txids.items()))
            print_notes([f"{name}$txid: {txids}"])
        entries = (entry for page in state.pages() for entry in page)
        lines = (json.dumps(_content(each)) if as_json else _line(each) for each in entries)
        print_scan(name, lines, limit, state.count if limit is None else min(limit, state.count))


def _hashes_of(provider: StateProvider) -> RedisHashes:
    if not isinstance(provider, RedisStateProvider | RedisClusterStateProvider):
        raise ConfigError(
            f"Storm's hashes are in Redis, but the configuration names {provider.describe()}. Set "
            "topology.state.provider to redis or redis-cluster.",
            key=PROVIDER_CONFIG,
        )
    return RedisHashes(provider.address, Advice(not_ours="Name a namespace of Storm's"))


def enum_constants(text: str) -> tuple[str, list[str]]:
    """Return the class and the constants of an option `--enum`."""
    name, equals, constants = text.partition("=")
    if not (name and equals and constants):
        raise ConfigError(f"{text!r} is not of the form CLASS=A,B,C: the constants of an enum in their order.")
    return name, constants.split(",")


def _line(entry: StormEntry) -> str:
    remarks = ["prepared" if entry.prepared else "", entry.key.problem, entry.value.problem]
    return f"{_text(entry.key)}: {_text(entry.value)}{remark(remarks)}"


def _text(part: StormPart) -> str:
    if part.value is None:
        return as_text(part.data, SHOWN_CHARACTERS)
    return printable(part.value.describe(SHOWN_CHARACTERS))


def _content(entry: StormEntry) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, part in (("key", entry.key), ("value", entry.value)):
        if part.value is None:
            content[name] = {"$bytes": b64encode(part.data).decode()}
            content[f"{name}_problem"] = part.problem
        else:
            content[name] = part.value.to_json()
    return {**content, "prepared": True} if entry.prepared else content
