"""Deliberate breaks of the guards that reliable spouts need. See `mutants`, which reads this list."""

RELIABLE_MUTANTS = r"""
# The ledger of an acker.
an expired tree times out although it is reset
    tracking.ledger._decide: is_expired and not is_reset -> is_expired
a late ack does not change the tree that is stored
    tracking.ledger._change: tree.ack_val ^ xor -> tree.ack_val
a tree that failed in its first wave stays open
    tracking.ledger._open: (ack_vals != 0) & ~failed -> ack_vals != 0
a complete tree is kept
    tracking.ledger._decide: after.ack_val == 0 -> False
what stays open is not staged
    engine.task.instance.handle: self._state.prepare_commit(...) -> pass

# What a task tells the ackers.
a tuple that its bolt keeps is acked with the others of its blob
    tracking.task_tracker.take_settled: not acked or acked != tuples -> False
the ackers do not get to know of a failed tuple
    tracking.task_tracker.fail: self._news.fail(...) -> pass
a FailedException fails no tree
    engine.task.executors.tracked_execution._fail: self._tracker.fail(...) -> pass
a tuple that its task holds is not added to its trees
    tracking.task_tracker.blobs: self._news.hold(...) -> pass
a tuple of an earlier wave that is acked by its handle stays in its trees
    tracking.task_tracker._settle: self._news.release(...) -> pass

# Where a tree is kept.
a tree that moves to another acker stays in the first one, too
    tracking.placement.moves_to: if owner != before: ... -> pass
a tree that moves is not added to its new acker
    tracking.placement.apply_moves: trees.put(...) -> pass
trees do not move
    engine.task.emitter.forward: self.moves.get(...) -> b""
the trees of an acker that is not needed any more are not read
    engine.sources.open_trees.open_trees: record.parallelism.get(ACKER_ID, 0) -> plan.wiring.ackers
a driver does not record that it adds ackers
    checkpoint.coordinator._record_ackers: ackers > _ -> False

# The rounds of a wave.
a round with failed trees is decided under the policy exclude
    tracking.in_flight.judge: self._excludes and bool(failed) -> False
failed trees are sent again
    engine.task.emitter._send: item not in self.excluded -> True
a failed tree counts as complete under the policy commit
    tracking.in_flight.settlements: failed.update(...) -> pass
a bolt that catches what a full buffer raises loses its rows
    bolts.collector._refuse: self.refused_late = self.refused_late or error -> pass
a row that was refused at once is sent nevertheless
    bolts.collector._send: buffer.pop() -> pass
a refused row of a message that is left out fails again
    engine.task.spout_task.sendable_rows: item in emitter.excluded -> False
a call on another thread counts
    streams.calls.check: self._thread != get_ident() -> False
a wave does not isolate the tuple on which a bolt raises
    engine.driver.isolation.failed: is_new, self._isolates = not self._isolates, True -> is_new = False
a start does not look how many ackers another run has had meanwhile
    engine.sources.rich_spouts._inherit: self._plan.wiring.ackers and _ -> False
messages are settled although their wave has failed
    engine.sources.rich_spouts.end_wave: self._intake = {} -> self._settle_messages(txid)
messages are settled before the decision
    engine.driver.rounds.prepare: spouts is not None and spouts.judge(reports)
    -> spouts is not None and (spouts.judge(reports) or spouts._settle_messages(current.txid) is not None)
the report of an acker counts as often as it arrives
    engine.driver.rounds.check_round: list(...) -> reports

# Open trees.
the message of an open tree is acked with the wave
    tracking.in_flight._settle_chunk: root and not is_open -> root
trees expire before their time
    tracking.in_flight.begin: cohort.deadline <= now -> True
trees of an earlier run never expire
    tracking.in_flight.inherit: self._timeout_s is not None -> False
a tree that is open has no deadline
    tracking.in_flight._keep_deadlines: self._cohorts.append(...) -> pass
trees of an earlier run are kept although nobody can be told of them
    engine.sources.rich_spouts._inherit: [(each.acker, each.root) for each in found if not each.spout] -> []

# Messages that are delivered again.
a message in flight is processed again
    tracking.redelivery.emit: key not in self._emitter -> True
a message that a decision has acked is processed again
    tracking.redelivery.emit: key in self._acked -> False
acks are forgotten before the source knows of them
    tracking.redelivery.settle: self._acked.update(dict.fromkeys(keys, entry)) -> pass
a decision does not name the acks of earlier ones
    tracking.redelivery.unconfirmed: [entry.messages for entry in self._unconfirmed] -> []
confirmed acks stay in the record
    tracking.redelivery.confirm: entry.waiting > 0 -> True
a driver forgets the messages of open trees
    tracking.book.inherit: in_flight = _ -> in_flight = []
a driver forgets the acks of the last decision
    tracking.book.inherit: of_record = _ -> of_record = []
a decision names no acks
    engine.driver.rounds.prepare: {} if spouts is None or repeat else spouts.book.acked() -> {}

# Spouts that a run leaves out.
the acks of a spout that a run leaves out are forgotten
    checkpoint.decision.acked_after: messages.component not in known -> False
the spout of an open tree is forgotten when its id is given to another one
    checkpoint.decision.carried_spout_tasks: names | _ -> names
an open tree keeps the id of a spout that has another one now
    engine.sources.open_trees._task_now: names.get(before) == spout -> True
the messages of open trees whose spout is left out are acked for nobody
    tracking.book.inherit: sorted({*stable, *absent}) -> sorted(stable)
open trees time out although their spout is left out
    tracking.in_flight.inherit: component not in absent -> True
the last record of a run keeps acks that are confirmed
    checkpoint.coordinator.keep_acked: self._write_again(...) -> pass

# What the source is told.
messages whose ids are equal in Python are one
    spouts.message_ids.id_key: pack(...) -> msg_id
a committed message that is delivered again is dropped without an ack
    engine.sources.hosted_spout._is_known: self._again.append(...) -> pass
acks are confirmed before the source knows of them
    engine.sources.hosted_spout._settle_all: self._ack(acked)
    -> self.redelivery is None or self.redelivery.confirm(acked)
    self._ack(acked)
an ack is never confirmed
    engine.sources.hosted_spout._ack: self.redelivery.confirm(msg_ids) -> pass
a message that is settled stays pending
    engine.sources.hosted_spout._settle_all: self.redelivery.finish(...) -> pass
more messages are pending than allowed
    engine.sources.hosted_spout.may_emit: self.pending < most -> True
a dead letter is not acked
    tracking.book.bury: settlement.acked.append(...) -> pass
a message becomes a dead letter one try too early
    tracking.book._is_too_often: failures > self._max_retries -> failures >= self._max_retries
"""
