"""Two counters that are states of a user's own, in files: by Storm's four methods, and keeping attempts apart."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.errors import FaultInjected, StateRegressed
from anchorbolt.state_backends import AttemptState, State
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, Fence
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams import TopologyContext, Tuple
from anchorbolt.streams.hashing import destination_of, stable_hash


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace a file, as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def read(path: Path) -> dict[str, Any]:
    nothing = {"txid": NOTHING_COMMITTED, "attempt": "", "counts": {}}
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else nothing
    return content


class _Counts:
    """What both have in common: committed counts in a file, and what was added since in memory."""

    fail_after_commit: list[int] = []  # noqa: RUF012 - txids at which the next commit raises, when it is done

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._committed = folder / "committed.json"
        self.committed = read(self._committed)
        self.added: Counter[str] = Counter()

    def add(self, word: str) -> None:
        self.added[word] += 1

    def count(self, word: str) -> int:
        return int(self.committed["counts"].get(word, 0)) + self.added[word]

    def _content(self, txid: int, attempt: str) -> dict[str, Any]:
        counts = Counter(self.committed["counts"])
        counts.update(self.added)
        return {"txid": txid, "attempt": attempt, "counts": counts}

    def _commit(self, prepared: Path, txid: int) -> None:
        content = read(prepared)
        if content["txid"] != txid:
            raise StateRegressed(f"{prepared} holds txid {content['txid']}, not {txid}")
        write(self._committed, content)
        prepared.unlink()
        if txid in self.fail_after_commit:
            self.fail_after_commit.remove(txid)
            raise FaultInjected("the driver dies between the user's commit and ours")


class StormCounts(_Counts, State):
    """Storm's contract, no more: one place for what is prepared."""

    calls: list[tuple[int, str, Any]] = []  # noqa: RUF012 - shared by all objects

    def _call(self, name: str, txid: Any = None) -> None:
        self.calls.append((id(self), name, txid))

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._prepared = folder / "prepared.json"

    def prepare_commit(self, txid: int) -> None:
        self._call("prepare_commit", txid)
        write(self._prepared, self._content(txid, ""))

    def commit(self, txid: int | None = None) -> None:
        assert txid is not None, "the framework never calls it without"
        self._call("commit", txid)
        if read(self._committed)["txid"] < txid:
            self._commit(self._prepared, txid)
        self.committed = read(self._committed)
        self.added.clear()

    def rollback(self) -> None:
        self._call("rollback")
        self._prepared.unlink(missing_ok=True)

    def close(self) -> None:
        self._call("close")


class AttemptCounts(_Counts, AttemptState):
    """A file for each attempt."""

    def _prepared(self, attempt: str) -> Path:
        [path] = [*self.folder.glob(f"prepared-*-{attempt}.json"), self.folder / "none"][:1]
        return path

    def begin(self, scope: AttemptScope) -> None:
        super().begin(scope)
        self.committed = read(self._committed)
        self.added.clear()
        found = (self.committed["txid"], self.committed["attempt"])
        if found != (scope.committed, scope.winner):
            raise StateRegressed(f"{self.folder} is at {found}, not at {(scope.committed, scope.winner)}. Restore it.")

    def prepare_commit(self, txid: int) -> None:
        fence, attempt = self.scope.fence, self.scope.attempt
        path = self.folder / f"prepared-{fence.generation}-{fence.seq}-{attempt}.json"
        write(path, self._content(txid, attempt))

    def commit_attempt(self, txid: int, attempt: str) -> None:
        if read(self._committed)["txid"] < txid:
            self._commit(self._prepared(attempt), txid)

    def split(self, tasks: int) -> list[dict[str, int]]:
        counts: dict[str, int] = self.committed["counts"]
        parts: list[dict[str, int]] = [{} for _ in range(tasks)]
        for word, count in counts.items():
            parts[destination_of(stable_hash(word), tasks)][word] = count
        return parts

    def merge(self, parts: Sequence[dict[str, int]]) -> None:
        self.committed["counts"] = {word: count for part in parts for word, count in part.items()}

    def drop_attempts(self, fence: Fence) -> None:
        for path in self.folder.glob("prepared-*.json"):
            _, generation, seq, _ = path.name.split("-")
            if Fence(int(generation), int(seq)) < fence:
                path.unlink(missing_ok=True)


class CustomProvider(SqliteStateProvider):
    """Gives the bolts `storm` and `attempts` the states above; the others, and all bookkeeping, are in SQLite."""

    def __init__(self, directory: str, custom: str) -> None:
        super().__init__(directory)
        self.custom = custom

    def new_state(self, namespace: str, context: TopologyContext) -> State | None:
        folder = Path(self.custom) / namespace.replace(":", "_")
        kinds: dict[str, type[StormCounts | AttemptCounts]] = {"storm": StormCounts, "attempts": AttemptCounts}
        kind = kinds.get(context.this_component_id)
        return None if kind is None else kind(folder)


class CountInCustom(BaseStatefulBolt[Any]):
    """Counts words in one of these states; raises on a word of `failures`, as often as that says."""

    seen: list[tuple[str, int]] = []  # noqa: RUF012 - what pre_commit saw
    failures: Counter[str] = Counter()  # noqa: RUF012 - shared by the instances

    def init_state(self, state: StormCounts | AttemptCounts) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.add(tup["word"])
        if self.failures[tup["word"]]:
            self.failures[tup["word"]] -= 1
            raise RuntimeError(f"fails on {tup['word']}")


class CountWithHooks(CountInCustom):
    def pre_commit(self, txid: int) -> None:
        self.seen.append((type(self.state).__name__, txid))

    def pre_rollback(self) -> None:
        self.seen.append((type(self.state).__name__, -1))


def committed_counts(custom: Path, topology: str, component: str, tasks: int) -> Counter[str]:
    """What the tasks of a bolt have committed, all together."""
    found: Counter[str] = Counter()
    for index in range(tasks):
        found.update(read(custom / f"{topology}_{component}-{index}" / "committed.json")["counts"])
    return found
