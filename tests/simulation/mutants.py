"""Deliberate breaks of the protocol's guards, one at a time: the simulation must catch each, or a test of the model.

Where the code moves or a name changes, change the mutant; where a guard goes, say in the commit why it is not needed
any more.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.chain_mutants import CHAIN_MUTANTS
from tests.simulation.guards import changed
from tests.simulation.hosted_mutants import HOSTED_MUTANTS, PLAYED_MUTANTS
from tests.simulation.reliable_mutants import RELIABLE_MUTANTS
from tests.simulation.scenarios import (
    CHAIN_SEEDS,
    COMMIT_TASK_SEEDS,
    HOSTED_SEEDS,
    RELIABLE_SEEDS,
    TIMED_SEEDS,
    TRANSACTIONAL_SEEDS,
    WORKER_SEEDS,
)
from tests.simulation.timed_mutants import TIMED_MUTANTS
from tests.simulation.transactional.mutants import BATCH_MUTANTS
from tests.simulation.worker_mutants import WORKER_MUTANTS

SEEDS = 150  # before the model's tests, which take as long and catch what shows in few schedules


@dataclass(frozen=True)
class Mutant:
    """One break of a function of the library."""

    name: str
    module: str
    function: str
    change: str
    seeds: Sequence[int]  # the simulations that can catch it

    def apply(self) -> ast.Module:
        """Return the module's syntax tree with the break. Raises `GuardNotFound`."""
        return changed(self.module, self.function, self.change)


# The name of a mutant; below it the module and the function, with its class if others have one of this name, and a
# change of it, which `guards.change` explains.
_MUTANTS = r"""
# The rules of a namespace.
no fence is ever refused
    state_backends.rules.check_fence: fence < _.fence -> False
only the generation is compared, not the round
    state_backends.rules.check_fence: fence < metadata.fence -> fence.generation < metadata.fence.generation
stage does not check the fence
    state_backends.rules.next_record: check_write(...) -> pass
seal does not check the fence
    state_backends.rules.sealed_record: check_fence(...) -> pass
commit does not check the fence
    state_backends.rules.check_commit: check_fence(...) -> pass
rollback does not check the fence
    state_backends.rules.check_rollback: check_fence(...) -> pass
the base of an attempt is not checked
    state_backends.rules._check_base: base != _.committed -> False
a repeated commit of the winner is refused
    state_backends.rules.check_commit: _.winner == attempt -> False
a transaction is committed again from another attempt
    state_backends.rules.check_commit: _.winner == attempt -> True
an unsealed attempt can be committed
    state_backends.rules.check_commit: not record.sealed -> False
seal does not compare what was staged
    state_backends.rules.sealed_record: (record.slices, record.checksum) != seal -> False
a slice sent twice is counted twice
    state_backends.rules.next_record: number == record.slices -> number in (record.slices - 1, record.slices)
a slice sent twice is refused
    state_backends.rules.next_record: staged.checksum_after(record.checksum_before) != record.checksum -> True
an attempt reads its own updates without a check of how many are staged
    state_backends.rules.check_reading: not is_staged -> False

# The store in memory.
raise_fence lowers a fence
    state_backends.memory.raise_fence: rules.check_fence(...) -> pass
a claim gives no new generation
    state_backends.memory.claim: self._read().metadata.fence.generation + 1
    -> max(1, self._read().metadata.fence.generation)
commit keeps the attempts that lost
    state_backends.memory.commit: list(store.records) -> [attempt]
rollback drops nothing
    state_backends.memory.rollback: store.drop(...) -> pass
a commit stores tombstones as values
    state_backends.memory.commit: store.put(...) -> store.put(key, value or b"")

# Recovery.
a new driver does not raise the fences before it reads
    checkpoint.coordinator._raise_fences: self._run.namespaces.raise_fence(fence) -> self._run.namespaces.heads()
a new driver reads before it raises the fences
    checkpoint.coordinator._raise_fences: self._run.namespaces.raise_fence(fence)
    -> (self._run.namespaces.heads(), self._run.namespaces.raise_fence(fence))[0]
COMMITTING is not rolled forward
    checkpoint.recovery.plan_recovery: roll_forward[namespace] = verdict.winner -> leftovers.append(namespace)
recovery leaves staged attempts behind
    checkpoint.recovery.plan_recovery: leftovers.append(namespace) -> pass
recovery does not compare the namespaces with the record
    checkpoint.recovery.judge_namespace: (head.committed, head.winner) != _ -> False
recovery does not check that the winner is still staged
    checkpoint.recovery.judge_namespace: staged is None or staged.seal != winner.seal -> False
the copy of the decision is not compared
    checkpoint.recovery.agreed_record: if stored is None: ... -> if stored is None: return DecisionRecord()
an older record than the copy is accepted
    checkpoint.recovery.agreed_record: stored.txid < copied.txid -> False
another driver's decision under the same fence is ignored
    checkpoint.recovery.check_same_decision: _decision(known) == _decision(record) -> True
a copy that a newer driver removes during the search is missed
    checkpoint.decision_log.read: gone.add(...) -> break
a driver that cannot read the decision does not check whether it was overtaken
    checkpoint.decision_log.check:
    try: ...
    finally: ...
    -> stored, copied = self._load()
    self._check_claim()

# The waves.
a fenced driver releases a fence that another driver holds too
    checkpoint.coordinator._run_wave: self._run.log.abandon() -> pass
a driver releases a fence that another driver holds too
    checkpoint.decision_log.check_unchanged: self.abandon() -> pass
a driver without a wave to run does not check whether a newer one has come
    checkpoint.decision_log.check_not_overtaken: self._check_claim(...) -> pass
a driver that misses a batch does not check whether a newer one committed it
    checkpoint.coordinator.is_committed: self._run.log.check_unchanged(...) -> pass
a committed batch is run again
    checkpoint.coordinator.is_committed: batch.batch_id <= record.batch_id -> False
the copy is written before the decision
    checkpoint.decision_log.decide: self.write(...) <-> self.copy(record)
namespaces commit before the decision is durable
    checkpoint.transaction.decide:
    self._run.log.decide(...)
    -> self._run.namespaces.commit(self.fence, record.txid, record.winners)
    self._run.log.decide(record)
COMMITTED is written before the namespaces have committed
    checkpoint.transaction.commit:
    self._run.namespaces.commit(...)
    -> self._run.log.write(record.marked_committed())
    self._run.namespaces.commit(fence, self.txid, namespaces)
sinks publish after COMMITTED is written
    checkpoint.transaction.commit: self._run.outbox.publish(...) <-> self._run.log.write(...)
a failed round is not rolled back
    checkpoint.transaction.roll_back: self._run.namespaces.roll_back(...) -> pass
every round of a driver has the same fence
    checkpoint.decision_log.next_fence: self._fence.seq + 1 -> 1

# What Spark or the network lost.
a loss counts as a try of the batch
    checkpoint.losses.bear: not isinstance(error, InfrastructureLost) or self.is_used_up -> True
a failure of the batch counts as a loss
    checkpoint.losses.bear: not isinstance(error, InfrastructureLost) -> False
losses are borne for ever
    checkpoint.losses.note: self.number > self._least and now - self._began >= self._patience_s -> False
losses are borne a few times only, whatever the time
    checkpoint.losses.note: now - self._began >= self._patience_s -> True
losses are borne for the time only, however few there are
    checkpoint.losses.note: self.number > self._least -> True
the time of losses begins anew with each of them
    checkpoint.losses.note: if self._began is None: ... -> self._began = now
a round is tried again at once after a loss
    checkpoint.losses.bear: sleep(pause_s) -> pass
tuples are suspected as soon as an executor is lost
    checkpoint.coordinator._run_wave: transaction.suspects_tuples = losses.is_used_up
    -> transaction.suspects_tuples = True
tuples are never suspected of ending their executors
    checkpoint.coordinator._run_wave: transaction.suspects_tuples = losses.is_used_up -> pass
tuples are suspected of what they cannot have done
    engine.driver.rounds._suspected: current.suspects_tuples and error.while_running -> current.suspects_tuples
a lost executor starts the search for a tuple
    engine.driver.rounds._suspected: current.suspects_tuples and error.while_running -> error.while_running
a task that Spark ran again is held against the batch
    engine.driver.rounds.check_round:
    if sent.get(component, NOTHING) != received.get(component, NOTHING): ...
    -> if sent.get(component, NOTHING) != received.get(component, NOTHING): raise WaveFailed("", txid=txid)
a loss counts as a try of a transactional batch
    engine.driver.batch_tries.failed: isinstance(error, InfrastructureLost) and not current.suspects_tuples -> False
hooks are tried again after a few losses only
    engine.driver.rounds.Hooks.send: losses.bear(...) -> False

# The reports of a round.
what tasks received is not compared with what was sent
    engine.driver.rounds.check_round: sent.get(component, NOTHING) != _ -> False
only the numbers of blobs are compared with what was sent
    engine.driver.rounds.check_round: received.get(component, NOTHING) -> \
    sent.get(component, NOTHING) if sent.get(component, NOTHING)[0] == received.get(component, NOTHING)[0] else NOTHING
what is sent does not show the attempt
    engine.task.messages.tally: blake2b(text.encode(), digest_size=8) -> blake2b(source.encode(), digest_size=8)
a task may report twice
    engine.driver.rounds.check_round: if _ != report.attempt: ... -> attempts[report.task] = report.attempt
a missing task is not noticed
    engine.driver.rounds.check_round: if missing: ... -> pass
a failed task counts as one that has prepared
    engine.driver.rounds.check_round: if failures: ... -> pass

# The tasks.
a task does not notice two attempts of one upstream task
    engine.task.bolt_task._check_attempt: if _ != attempt: ... -> self._attempts[source] = attempt
a task that failed does not tell the bolts behind it
    engine.task.bolt_task.finish: emitter.give_up() -> pass
a task prepares although one in front of it failed
    engine.task.bolt_task.receive:
    if isinstance(message, GaveUpMessage): ...
    -> if isinstance(message, GaveUpMessage): return
a batch that arrives twice is executed twice
    engine.task.bolt_task._in_order: if message.number < expected: ... -> if message.number < expected: yield message
an instance is used again although its namespace changed
    engine.task.instances._usable_again: instance.position == _ -> True
an instance that failed is used again
    engine.task.instances._usable_again: not instance.attempt -> False
an instance is used again after a round that was rolled back
    engine.task.instances._has_lost: current.was_rolled_back(instance.fence) -> False
an instance is used again in the same round
    engine.task.instances._has_lost: instance.fence == current.fence -> False
an instance is used again after an attempt that lost
    engine.task.instances._has_lost: winner not in (None, instance.attempt) -> False
an instance that has changed its namespace takes it for unchanged
    engine.task.instance.position: _ if _ else _ -> self.base
a process caches as much as if each of its tasks had it for itself
    state_backends.entry_cache._surplus: max(surplus, entries - self._cache_entries) -> entries - self._cache_entries
tasks that take turns empty each other's caches
    state_backends.cache_budget._make_room: share if _ else 0 -> 0
an idle task keeps its share of the budget
    state_backends.cache_budget._make_room: share if _ else 0 -> share
a state that gives up entries forgets updates that were never staged
    state_backends.entry_cache.evict: self._drop_oldest(entries) -> self._dirty.clear()
staged updates are not read from the cache
    state_backends.entry_cache._stage_updates: self._cache.update(...) -> pass
a stale cache of committed values is used
    state_backends.entry_cache.begin: self._cache_position != _ -> False
values of a wave that did not finish stay in the cache
    state_backends.entry_cache.begin: unfinished -> False
a task does not compare its namespace with the driver's record
    state_backends.attempt._compare_head: self._refuse_regressed(...) -> pass
values are read without the read position
    state_backends.attempt.read: self._storage.get_many(keys, attempt, at) -> self._storage.get_many(keys, attempt)
pages are scanned without the read position
    state_backends.attempt.scan: self._storage.scan(attempt, at=at) -> self._storage.scan(attempt)
reads do not see what the attempt has staged
    state_backends.attempt._read_position: scope.attempt if _ else None -> None
"""

_COMMIT_TASK_MUTANTS = r"""
a commit task that failed counts as one that has committed
    engine.driver.state_commits._run: if failures: ... -> pass
a commit task without a report counts as one that has committed
    engine.driver.state_commits._run: if missing: ... -> pass
a commit task that failed does not say so
    engine.task.commit_task.run_commit_task: report.failure = as_failure(...) -> pass
a commit task reports before it commits
    engine.task.commit_task.run_commit_task: opened.commit(...) -> pass
a commit task raises the fence itself
    engine.task.commit_task.run_commit_task: opened.commit(...)
    -> opened.commit(max(head.fence for head in opened.heads().values()), current.txid, group.winners)
commit tasks are given up at their first failure
    engine.driver.state_commits.commit: failures > self._max_retries -> True
"""


def _mutant(name: str, broken: str, *, seeds: Sequence[int]) -> Mutant:
    place, change = broken.split(":", 1)
    module, function = place.rsplit(".", 1)
    if module.rpartition(".")[2].lstrip("_")[0].isupper():  # a class
        module, name_of_class = module.rsplit(".", 1)
        function = f"{name_of_class}.{function}"
    change = change.replace("\n    ", "\n").strip()
    return Mutant(name, f"anchorbolt.{module}", function, change, seeds)


def _mutants(text: str, seeds: Sequence[int]) -> list[Mutant]:
    blocks = re.split(r"\n(?=\w)", re.sub(r"^(#.*)?\n", "", text, flags=re.MULTILINE))
    return [_mutant(*block.split("\n    ", 1), seeds=seeds) for block in blocks]


MUTANTS = [
    *_mutants(_MUTANTS, range(SEEDS)),
    *_mutants(_COMMIT_TASK_MUTANTS, COMMIT_TASK_SEEDS[: 2 * SEEDS]),
    *_mutants(RELIABLE_MUTANTS, RELIABLE_SEEDS[: 2 * SEEDS]),
    *_mutants(BATCH_MUTANTS, TRANSACTIONAL_SEEDS[: 8 * SEEDS]),
    *_mutants(WORKER_MUTANTS, WORKER_SEEDS[: 2 * SEEDS]),
    *_mutants(HOSTED_MUTANTS, HOSTED_SEEDS[: 2 * SEEDS]),
    *_mutants(CHAIN_MUTANTS, CHAIN_SEEDS[: 2 * SEEDS]),
    *_mutants(TIMED_MUTANTS, TIMED_SEEDS[: 2 * SEEDS]),
    *_mutants(PLAYED_MUTANTS, ()),
]
