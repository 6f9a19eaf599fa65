"""Deliberate breaks of the protocol's guards, one at a time: the simulation must catch each, or a test of the model.

A mutant names a module, a function in it, and the guard as code that is found there exactly once (`guards`). Where the
code moves or a name changes, change the mutant; where a guard goes, say in the commit why it is not needed any more.
"""

import ast

from tests.simulation.guards import Change, Expression, Statement, Swap, always, changed, never


class Mutant:
    """One break of a function of the library."""

    def __init__(self, name: str, module: str, function: str, *changes: Change) -> None:
        self.name = name
        self.module = f"anchorbolt.{module}"
        self.function = function
        self.changes = changes

    def apply(self) -> ast.Module:
        """Return the module's syntax tree with the break. Raises `GuardNotFound`."""
        return changed(self.module, self.function, self.changes)


_RULES = "state_backends.rules"
_MEMORY = "state_backends.memory"
_RECOVERY = "checkpoint.recovery"
_STARTUP = "checkpoint.startup"
_LOG = "checkpoint.decision_log"
_TRANSACTION = "checkpoint.transaction"
_SPOUT = "checkpoint.spout"
_TASK = "engine.task.bolt_task"
_ATTEMPT = "state_backends.attempt"
_KEY_VALUE = "state_backends.key_value"
_REPORTS = "engine.driver.reports"

MUTANTS = (
    # The rules of a namespace.
    Mutant("no fence is ever refused", _RULES, "check_fence", never("fence < _.fence")),
    Mutant(
        "only the generation is compared, not the round",
        _RULES,
        "check_fence",
        Expression("fence < metadata.fence", "fence.generation < metadata.fence.generation"),
    ),
    Mutant("stage does not check the fence", _RULES, "next_record", Statement("check_write(...)")),
    Mutant("seal does not check the fence", _RULES, "sealed_record", Statement("check_fence(...)")),
    Mutant("commit does not check the fence", _RULES, "check_commit", Statement("check_fence(...)")),
    Mutant("rollback does not check the fence", _RULES, "check_rollback", Statement("check_fence(...)")),
    Mutant("the base of an attempt is not checked", _RULES, "_check_base", never("base != _.committed")),
    Mutant("a repeated commit of the winner is refused", _RULES, "check_commit", never("_.winner == attempt")),
    Mutant(
        "a transaction is committed again from another attempt", _RULES, "check_commit", always("_.winner == attempt")
    ),
    Mutant("an unsealed attempt can be committed", _RULES, "check_commit", never("not record.sealed")),
    Mutant(
        "seal does not compare what was staged",
        _RULES,
        "sealed_record",
        never("(record.slices, record.checksum) != seal"),
    ),
    Mutant(
        "a slice sent twice is counted twice",
        _RULES,
        "next_record",
        Expression("number == record.slices", "number in (record.slices - 1, record.slices)"),
    ),
    Mutant(
        "a slice sent twice is refused",
        _RULES,
        "next_record",
        always("staged.checksum_after(record.checksum_before) != record.checksum"),
    ),
    Mutant(
        "an attempt reads its own updates without a check of how many are staged",
        _RULES,
        "check_reading",
        never("not is_staged"),
    ),
    # The store in memory.
    Mutant("raise_fence lowers a fence", _MEMORY, "raise_fence", Statement("rules.check_fence(...)")),
    Mutant(
        "a claim gives no new generation",
        _MEMORY,
        "claim",
        Expression("self._read().metadata.fence.generation + 1", "max(1, self._read().metadata.fence.generation)"),
    ),
    Mutant("commit keeps the attempts that lost", _MEMORY, "commit", Expression("list(store.records)", "[attempt]")),
    Mutant("rollback drops nothing", _MEMORY, "rollback", Statement("store.drop(...)")),
    Mutant(
        "a commit stores tombstones as values",
        _MEMORY,
        "commit",
        Statement("store.entries.pop(...)", 'store.entries[key] = b""'),
    ),
    # Recovery.
    Mutant(
        "a new driver does not raise the fences before it reads",
        _STARTUP,
        "raise_fence",
        Expression("self._namespaces.raise_fence(fence)", "self._namespaces.heads()"),
    ),
    Mutant(
        "a new driver reads before it raises the fences",
        _STARTUP,
        "raise_fence",
        Expression(
            "self._namespaces.raise_fence(fence)", "(self._namespaces.heads(), self._namespaces.raise_fence(fence))[0]"
        ),
    ),
    Mutant(
        "COMMITTING is not rolled forward",
        _RECOVERY,
        "plan_recovery",
        Statement("roll_forward[namespace] = verdict.winner", "leftovers.append(namespace)"),
    ),
    Mutant(
        "recovery leaves staged attempts behind", _RECOVERY, "plan_recovery", Statement("leftovers.append(namespace)")
    ),
    Mutant(
        "recovery does not compare the namespaces with the record",
        _RECOVERY,
        "judge_namespace",
        never("(head.committed, head.winner) != _"),
    ),
    Mutant(
        "recovery does not check that the winner is still staged",
        _RECOVERY,
        "judge_namespace",
        never("staged is None or staged.seal != winner.seal"),
    ),
    Mutant(
        "the copy of the decision is not compared",
        _RECOVERY,
        "agreed_record",
        Statement("if stored is None: ...", "if stored is None: return DecisionRecord()"),
    ),
    Mutant("an older record than the copy is accepted", _RECOVERY, "agreed_record", never("stored.txid < copied.txid")),
    Mutant(
        "another driver's decision under the same fence is ignored",
        _RECOVERY,
        "check_unchanged",
        always("_decision(known) == _decision(record)"),
    ),
    Mutant(
        "a copy that a newer driver removes during the search is missed",
        "checkpoint.location",
        "read",
        Statement("gone.add(...)", "break"),
    ),
    Mutant(
        "a driver that cannot read the decision does not check whether it was overtaken",
        _LOG,
        "check",
        Statement("try: ...\nfinally: ...", "stored, copied = self._load()\nself._check_claim(self._fence)"),
    ),
    # The waves.
    Mutant(
        "a fenced driver releases a fence that another driver holds too",
        _SPOUT,
        "run_wave",
        Statement("self._log.abandon()"),
    ),
    Mutant(
        "a driver releases a fence that another driver holds too", _LOG, "check_unchanged", Statement("self.abandon()")
    ),
    Mutant(
        "a driver without a wave to run does not check whether a newer one has come",
        _LOG,
        "check_not_overtaken",
        Statement("self._check_claim(...)"),
    ),
    Mutant(
        "a driver that misses a batch does not check whether a newer one committed it",
        _SPOUT,
        "is_committed",
        Statement("self._log.check_unchanged(...)"),
    ),
    Mutant("a committed batch is run again", _SPOUT, "is_committed", never("batch.batch_id <= record.batch_id")),
    Mutant(
        "the copy is written before the decision",
        _LOG,
        "decide",
        Swap("self._retry.until_available(...)", "self.copy(record)"),
    ),
    Mutant(
        "namespaces commit before the decision is durable",
        _TRANSACTION,
        "decide",
        Statement(
            "self._log.decide(...)",
            "self._ports.namespaces.commit(self.fence, record.txid, record.winners)\n"
            "self._log.decide(self.fence, record)",
        ),
    ),
    Mutant(
        "COMMITTED is written before the namespaces have committed",
        _TRANSACTION,
        "commit",
        Statement(
            "self._ports.namespaces.commit(...)",
            "self._log.mark_committed(fence, record.committed())\n"
            "self._ports.namespaces.commit(fence, self.txid, namespaces)",
        ),
    ),
    Mutant(
        "sinks publish after COMMITTED is written",
        _TRANSACTION,
        "commit",
        Swap("self._ports.outbox.publish(...)", "self._log.mark_committed(...)"),
    ),
    Mutant(
        "a failed round is not rolled back",
        _TRANSACTION,
        "roll_back",
        Statement("self._ports.namespaces.roll_back(...)"),
    ),
    Mutant("every round of a driver has the same fence", _LOG, "next_fence", Expression("self._fence.seq + 1", "1")),
    # The reports of a round.
    Mutant(
        "attempts seen downstream are not compared with those that won",
        _REPORTS,
        "check_round",
        never("report.seen != expected"),
    ),
    Mutant(
        "a task may report twice",
        _REPORTS,
        "check_round",
        Statement("if _ != report.attempt: ...", "attempts[report.task] = report.attempt"),
    ),
    Mutant("a missing task is not noticed", _REPORTS, "check_round", Statement("if missing: ...")),
    Mutant("a failed task counts as one that has prepared", _REPORTS, "check_round", Statement("if failures: ...")),
    # The tasks.
    Mutant(
        "a task does not notice two attempts of one upstream task",
        _TASK,
        "_check_attempt",
        Statement("if _ != attempt: ...", "self._report.seen[source] = attempt"),
    ),
    Mutant("a task does not wait for barriers", _TASK, "_check_aligned", Statement("if missing or short: ...")),
    Mutant(
        "a batch that arrives twice is executed twice",
        _TASK,
        "_in_order",
        Statement("if message.number < expected: ...", "if message.number < expected: yield message"),
    ),
    Mutant(
        "an instance is used again after any wave",
        "engine.task.instances",
        "_usable_again",
        always("instance.attempt == winner"),
    ),
    Mutant("a stale cache of committed values is used", _KEY_VALUE, "begin", never("self._cache_position != _")),
    Mutant("values of a wave that did not finish stay in the cache", _KEY_VALUE, "begin", never("unfinished")),
    Mutant(
        "a task does not compare its namespace with the driver's record",
        _ATTEMPT,
        "_compare_head",
        Statement("self._refuse_regressed(...)"),
    ),
    Mutant(
        "values are read without the read position",
        _ATTEMPT,
        "read",
        Expression("self._storage.get_many(keys, attempt, at)", "self._storage.get_many(keys, attempt)"),
    ),
    Mutant(
        "pages are scanned without the read position",
        _ATTEMPT,
        "scan",
        Expression("self._storage.scan(attempt, at=at)", "self._storage.scan(attempt)"),
    ),
    Mutant(
        "reads do not see what the attempt has staged",
        _ATTEMPT,
        "_overlay",
        Expression("self.scope.attempt if _ else None", "None"),
    ),
)
