"""What a crashed and finished run has left, compared with what it must be."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from anchorbolt.config import load_conf
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.testing.conformance.base import entries
from tests.crash.job import NAME, expected_counts, expected_rows

_ENCODING = EntryEncoding(NAME, MsgpackCodec(), MsgpackCodec())


def state_of(conf: Mapping[str, Any], component: str, name: str = NAME) -> tuple[dict[str, Any], list[str]]:
    """Return the whole state of a component of the topology `name`, and the namespaces that keep staged attempts."""
    provider = provider_from(load_conf(conf).settings, shared_by_processes=True, shared_by_machines=False)
    state: dict[str, Any] = {}
    leftovers = []
    for namespace in sorted(provider.namespaces()):
        with closing(provider.open(namespace)) as storage:
            if storage.head().attempts:
                leftovers.append(namespace)
            if namespace.startswith(f"{name}:{component}-"):
                for key, data in entries(storage).items():
                    held = _ENCODING.cached_value(_ENCODING.key_from(key), data)
                    state[_ENCODING.key_from(key)] = _ENCODING.value_from(key, held)
    return state, leftovers


def lost_and_twice(folder: Path, conf: Mapping[str, Any], waves: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Count what is missing, and what is there too often, among the words counted and the rows of the sink."""
    counted = Counter(state_of(conf, "count")[0])
    rows, wanted_rows = Counter(rows_in(folder)), Counter(expected_rows(waves))
    wanted = expected_counts(waves)
    lost = (wanted - counted).total() + (wanted_rows - rows).total()
    return lost, (counted - wanted).total() + (rows - wanted_rows).total()


def differences(
    folder: Path, conf: Mapping[str, Any], waves: Sequence[Sequence[str]], *, tidy: bool = True
) -> list[str]:
    """Say in which ways a run's outcome is not what it must be, the rest of dead attempts included if it is `tidy`."""
    found = []
    counts, leftovers = state_of(conf, "count")
    if counts != expected_counts(waves):
        found.append(f"the counts are {counts}, not {expected_counts(waves)}")
    lengths, _ = state_of(conf, "lengths")
    wanted: dict[str, int] = dict(Counter(str(len(word)) for wave in waves for word in wave))
    if lengths != wanted | {"prepared": len(waves) - 1}:
        found.append(f"the lengths are {lengths}, not {wanted}")
    if leftovers and tidy:
        found.append(f"{', '.join(leftovers)} keep leftovers of dead attempts")
    rows = rows_in(folder)
    if rows != expected_rows(waves):
        found.append(f"the sink has {len(rows)} rows that are not the {len(expected_rows(waves))} expected")
    rounds = [path.name for path in (folder / "checkpoint" / "anchorbolt" / "outbox").iterdir()]
    if len(rounds) > 1 and tidy:
        found.append(f"the outbox keeps the rounds {rounds}")
    return found


def rows_in(folder: Path) -> list[tuple[int, str, int]]:
    """Return what the sink holds: the wave, the word, and its count then; sorted."""
    return sorted(
        (int(path.name.split("-")[1]), row["word"], row["count"])
        for path in (folder / "out").glob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    )
