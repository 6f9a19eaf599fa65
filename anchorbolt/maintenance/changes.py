"""The record of a change that a command made to the state of a topology: who, when and what.

It becomes durable together with the decision: see `DecisionLog.decide`. The history shows it; `anchorbolt.observe`
copies it to the checkpoint location.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.state_backends.rules import component_of
from anchorbolt.util.messages import shortened

_KEYS = 10
_COMPONENTS = 50


def change_record(
    command: str,
    generation: int,
    txid: int,
    *,
    put: Mapping[str, int] | None = None,
    deleted: Mapping[str, int] | None = None,
    keys: Sequence[Any] = (),
    tasks: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """Return the record of a change that this process makes now, as a line of JSON without its newline.

    Args:
        command: The command, such as `put`; `start` for a rescale at a start.
        generation: The generation that it has claimed.
        txid: The transaction.
        put: The number of entries that it puts, by namespace.
        deleted: The number of entries that it deletes, by namespace.
        keys: The keys, if it changes single keys. The record has the first ten, shortened.
        tasks: The number of tasks before and after, by component that gets another number.
    """
    content = {
        "kind": "change",
        "at": round(time.time(), 3),
        "generation": generation,
        "txid": txid,
        "command": command,
        "by": f"{_user()}@{socket.gethostname()}",
        "put": _by_component(put or {}),
        "deleted": _by_component(deleted or {}),
        "keys": [shortened(key) for key in keys[:_KEYS]],
        "tasks": tasks or {},
    }
    return json.dumps({name: value for name, value in content.items() if value not in ({}, [])}, separators=(",", ":"))


def _by_component(counts: Mapping[str, int]) -> dict[str, int]:
    summed = Counter[str]()
    for namespace, count in counts.items():
        summed[component_of(namespace)] += count
    return {name: count for name, count in summed.most_common(_COMPONENTS) if count}


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a number without a name
        return str(os.getuid())
