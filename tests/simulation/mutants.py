"""Deliberate breaks of the protocol's guards, one at a time: the simulation must catch each, or a test of the model.

A mutant is a piece of the package's source and what stands in its place.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """One break.

    Attributes:
        name: What is broken.
        file: The file below the package.
        old: What stands there, exactly once.
        new: What the mutant has instead.
    """

    name: str
    file: str
    old: str
    new: str


_TRANSITIONS = "state_backends/rules.py"
_MEMORY = "state_backends/memory.py"
_RECOVERY = "checkpoint/recovery.py"
_WAVES = "engine/driver/coordinator.py"
_STAGE = "engine/task/bolt_task.py"
_ATTEMPT = "state_backends/attempt.py"
_KEY_VALUE = "state_backends/key_value.py"
_REPORTS = "engine/driver/reports.py"

MUTANTS = (
    Mutant("no fence is ever refused", _TRANSITIONS, "    if fence < books.fence:", "    if False:"),
    Mutant(
        "only the generation is compared, not the round",
        _TRANSITIONS,
        "    if fence < books.fence:",
        "    if fence.generation < books.fence.generation:",
    ),
    Mutant(
        "stage does not look at the fence",
        _TRANSITIONS,
        "    check_write(namespace, books, fence, codec)\n    _check_not_promoted",
        "    _check_not_promoted",
    ),
    Mutant(
        "seal does not look at the fence",
        _TRANSITIONS,
        "    check_fence(namespace, books, fence)\n    if record is None:\n        raise _stale",
        "    if record is None:\n        raise _stale",
    ),
    Mutant(
        "commit does not look at the fence",
        _TRANSITIONS,
        "    check_fence(namespace, books, fence)\n    if books.committed == txid",
        "    if books.committed == txid",
    ),
    Mutant(
        "rollback does not look at the fence",
        _TRANSITIONS,
        '    check_fence(namespace, books, fence)\n    _check_not_promoted(namespace, books, "")',
        '    _check_not_promoted(namespace, books, "")',
    ),
    Mutant(
        "raise_fence lowers a fence",
        _MEMORY,
        "            rules.check_fence(self.namespace, self._read().books, fence)\n"
        "            self._write(fence)\n",
        "            self._write(fence)\n",
    ),
    Mutant(
        "the base of an attempt is not checked",
        _TRANSITIONS,
        "    if base != books.committed:",
        "    if False:",
    ),
    Mutant(
        "a commit that is done is refused when it is repeated",
        _TRANSITIONS,
        "        if books.winner == attempt:\n            return False\n",
        "",
    ),
    Mutant(
        "an unsealed attempt can be committed", _TRANSITIONS, "    if not record.sealed:", "    if False:"
    ),
    Mutant(
        "seal does not compare what was staged",
        _TRANSITIONS,
        "    if (record.slices, record.checksum) != seal:",
        "    if False:",
    ),
    Mutant(
        "a slice sent twice is counted twice",
        _TRANSITIONS,
        "    if slice_number == record.slices:",
        "    if slice_number in (record.slices - 1, record.slices):",
    ),
    Mutant(
        "a slice sent twice is refused",
        _TRANSITIONS,
        "    if slice_checksum(items, record.checksum_before) != record.checksum:",
        "    if True:",
    ),
    Mutant(
        "a transaction is committed once more, from another attempt",
        _TRANSITIONS,
        "        if books.winner == attempt:\n            return False\n",
        "        return False\n",
    ),
    Mutant(
        "commit keeps the attempts that lost",
        _MEMORY,
        "            for staged in list(store.records):\n                store.drop(staged)\n            store.books",
        "            store.drop(attempt)\n            store.books",
    ),
    Mutant(
        "rollback drops nothing",
        _MEMORY,
        "            for attempt in dropped:\n                store.drop(attempt)\n            return len",
        "            return len",
    ),
    Mutant(
        "a commit stores tombstones as values",
        _MEMORY,
        "                if value is None:\n                    store.entries.pop(key, None)\n                else:",
        '                if value is None:\n                    store.entries[key] = b""\n                else:',
    ),
    Mutant(
        "a new driver does not raise the fences before it reads",
        "engine/driver/startup.py",
        "        heads = self._namespaces.raise_fence(fence)\n",
        "        heads = self._namespaces.heads()\n",
    ),
    Mutant(
        "a new driver reads before it raises the fences",
        "engine/driver/startup.py",
        "        heads = self._namespaces.raise_fence(fence)\n",
        "        heads = self._namespaces.heads()\n        self._namespaces.raise_fence(fence)\n",
    ),
    Mutant(
        "COMMITTING is not rolled forward",
        _RECOVERY,
        "            roll_forward[namespace] = verdict.winner\n",
        "            leftovers.append(namespace)\n",
    ),
    Mutant(
        "recovery leaves staged attempts behind",
        _RECOVERY,
        "            leftovers.append(namespace)\n    state",
        "            pass\n    state",
    ),
    Mutant(
        "recovery does not compare the namespaces with the record",
        _RECOVERY,
        "    if (head.committed, head.winner) != (expected.txid, expected.attempt):",
        "    if False:",
    ),
    Mutant(
        "recovery does not look whether the winner is still staged",
        _RECOVERY,
        "        if staged is None or staged.seal != winner.seal:",
        "        if False:",
    ),
    Mutant(
        "the copy of the decision is not compared",
        _RECOVERY,
        '    if stored is None:\n        raise _regressed(None, f"a decision record',
        '    if stored is None:\n        return DecisionRecord()\n        raise _regressed(None, f"a decision record',
    ),
    Mutant(
        "a copy that a newer driver removes while it is looked for is missed",
        "checkpoint/location.py",
        "            gone.add(generations[-1])\n",
        "            break\n",
    ),
    Mutant(
        "an older record than the copy is accepted",
        _RECOVERY,
        "    if stored.txid < copied.txid:",
        "    if False:",
    ),
    Mutant(
        "what another driver decided under the same fence is not looked at",
        _RECOVERY,
        "_decision(known) == _decision(record)",
        "True",
    ),
    Mutant(
        "a driver that cannot read the decision does not look whether it was overtaken",
        "checkpoint/decision_log.py",
        "        finally:\n            self.check_claim(fence)",
        "        except StateUnavailable:\n            raise\n        self.check_claim(fence)",
    ),
    Mutant(
        "a fenced driver lets go of a fence that another one holds as well",
        _WAVES,
        "                self._fence = NO_FENCE  # as in",
        "                pass  # as in",
    ),
    Mutant(
        "a driver lets go of a fence that another one holds as well",
        _WAVES,
        "            self._fence = NO_FENCE  # another",
        "            pass  # another",
    ),
    Mutant(
        "a driver that has no wave to run does not look whether a newer one has come",
        _WAVES,
        "        try:\n            self._spout.check_claim(self._fence)",
        "        try:\n            pass",
    ),
    Mutant(
        "a driver that misses a batch does not look whether a newer one committed it",
        _WAVES,
        "            self._check_unchanged(self._fence)  # nothing is lost",
        "            pass  # nothing is lost",
    ),
    Mutant(
        "the copy is written before the decision",
        _WAVES,
        "        self._patience.until_available(lambda: self._spout.write(self._fence, record))\n"
        "        reach(FaultPoint.DECIDED, txid=record.txid)\n        self._write_copy(record)\n",
        "        self._write_copy(record)\n"
        "        self._patience.until_available(lambda: self._spout.write(self._fence, record))\n"
        "        reach(FaultPoint.DECIDED, txid=record.txid)\n",
    ),
    Mutant(
        "namespaces commit before the decision is durable",
        _WAVES,
        "        self._decide(decision)\n        committed = perf_counter()",
        "        self._namespaces.commit(self._fence, decision.txid, decision.winners)\n"
        "        self._decide(decision)\n        committed = perf_counter()",
    ),
    Mutant(
        "COMMITTED is written before the namespaces have committed",
        _WAVES,
        "        self._namespaces.commit(fence, record.txid, winners)\n        reach",
        "        self._patience.until_available(lambda: self._spout.write(fence, record.committed()))\n"
        "        self._namespaces.commit(fence, record.txid, winners)\n        reach",
    ),
    Mutant(
        "sinks publish after COMMITTED is written",
        _WAVES,
        "        self._outbox.publish(record, lambda: self._check_claim(fence))\n"
        "        committed = record.committed()\n"
        "        self._patience.until_available(lambda: self._spout.write(fence, committed))\n",
        "        committed = record.committed()\n"
        "        self._patience.until_available(lambda: self._spout.write(fence, committed))\n"
        "        self._outbox.publish(record, lambda: self._check_claim(fence))\n",
    ),
    Mutant(
        "a failed round is not rolled back",
        _WAVES,
        "        self._namespaces.roll_back(self._next_fence())\n        reach",
        "        reach",
    ),
    Mutant(
        "every round of a driver has the same fence",
        _WAVES,
        "        self._fence = Fence(self._fence.generation, self._fence.seq + 1)\n",
        "        self._fence = Fence(self._fence.generation, 1)\n",
    ),
    Mutant(
        "the driver claims no new generation",
        _MEMORY,
        "self._write(Fence(self._read().books.fence.generation + 1, 0))",
        "self._write(Fence(max(1, self._read().books.fence.generation), 0))",
    ),
    Mutant(
        "a committed batch is run again",
        _WAVES,
        "        return batch.batch_id <= record.batch_id\n",
        "        return False\n",
    ),
    Mutant(
        "attempts seen downstream are not compared with those that won",
        _REPORTS,
        "        if report.seen != expected:",
        "        if False:",
    ),
    Mutant(
        "a task may report twice",
        _REPORTS,
        "        if attempts.setdefault(report.task, report.attempt) != report.attempt:",
        "        attempts[report.task] = report.attempt\n        if False:",
    ),
    Mutant("a missing task is not noticed", _REPORTS, "    if missing:\n", "    if False:\n"),
    Mutant(
        "a task does not notice two attempts of one upstream task",
        _STAGE,
        "        if self._report.seen.setdefault(source, attempt) != attempt:",
        "        self._report.seen[source] = attempt\n        if False:",
    ),
    Mutant("barriers are not waited for", _STAGE, "        if missing or short:", "        if False:"),
    Mutant(
        "a batch that arrives twice is executed twice",
        _STAGE,
        "        if message.number < expected:",
        "        if message.number < expected:\n            yield message\n        if False:",
    ),
    Mutant(
        "a failed task is taken for one that has prepared", _REPORTS, "    if failures:\n", "    if False:\n"
    ),
    Mutant(
        "an instance is used again whatever wave it saw last",
        "engine/task/instances.py",
        "    return not isinstance(instance.executor, StatefulBoltExecutor) or instance.attempt == previous",
        "    return True",
    ),
    Mutant(
        "a stale cache of committed values is used",
        _KEY_VALUE,
        "        if unfinished or self._known_at != (scope.committed, scope.winner):",
        "        if unfinished:",
    ),
    Mutant(
        "values of a wave that did not finish stay in the cache",
        _KEY_VALUE,
        "        if unfinished or self._known_at != (scope.committed, scope.winner):",
        "        if self._known_at != (scope.committed, scope.winner):",
    ),
    Mutant(
        "a task does not look where its namespace stands",
        _ATTEMPT,
        "        self._refuse_regressed(head, cause)\n",
        "",
    ),
    Mutant(
        "values are read wherever the namespace stands",
        _ATTEMPT,
        "self._storage.get_many(keys, attempt, at)",
        "self._storage.get_many(keys, attempt)",
    ),
    Mutant(
        "pages are scanned wherever the namespace stands",
        _ATTEMPT,
        "self._storage.scan(attempt, at=at)",
        "self._storage.scan(attempt)",
    ),
    Mutant(
        "values are read wherever an attempt stands with its own updates",
        _TRANSITIONS,
        "    if found[:2] != at[:2] or not is_staged:",
        "    if found[:2] != at[:2]:",
    ),
    Mutant(
        "reads do not see what the attempt has staged",
        _ATTEMPT,
        "        return self.scope.attempt if self._slices and self._committed is None else None",
        "        return None",
    ),
)
