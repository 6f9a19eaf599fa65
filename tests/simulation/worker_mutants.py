"""Deliberate breaks of the guards of rounds in workers that stay. See `mutants`, which reads this list.

Left out, because the simulation cannot tell the difference:

- `WorkerRounds._drop` gives the instances of a phase that was given up to the next one: that is for emitters that are
  still in a call on another thread, and here there is one thread.
- `WorkerRound` gives tasks of different components one attempt id: a namespace or a file belongs to one task.
"""

WORKER_MUTANTS = r"""
# What the driver knows of a round.
an older worker takes the slot of a newer one
    engine.workers.rounds.with_member: known.incarnation >= member.incarnation -> False
a worker that registers again under its incarnation changes the table
    engine.workers.rounds.with_member: known.incarnation >= member.incarnation
    -> known.incarnation > member.incarnation
blobs are expected before the tasks of stream spouts have ended
    engine.workers.rounds._next_levels: self._level == 0 and self._has_feed -> False
blobs are expected before all workers have ended the level before
    engine.workers.rounds._next_levels: not self._waits_for[self._level] -> True
the blobs of workers are not counted
    engine.workers.rounds.RoundProgress.ended: self._sent.update(...) -> pass
the blobs of stream spouts are not counted
    engine.workers.rounds.feed_ended: self._sent.update(...) -> pass

# A round in a worker.
a level ends before its blobs have arrived
    engine.workers.worker_round.WorkerRound.step: expected is None or received < expected -> expected is None
a level ends before the driver says what to expect
    engine.workers.worker_round.WorkerRound.step: expected is None or received < expected
    -> expected is not None and received < expected
more blobs than were sent are taken
    engine.workers.worker_round.WorkerRound.step: received > expected -> False
bolts see tuples before the metadata of their batch is stored
    engine.workers.worker_round.WorkerRound.step: not self._is_held -> True
blobs to other workers are not counted
    engine.workers.worker_round._out: self._sent[level, slot] += 1 -> pass
blobs to other workers are counted at each level again
    engine.workers.worker_round._end: self._sent, self._reports = _ -> self._reports = []
blobs that arrive are not counted
    engine.workers.worker_round.Arrivals.put: self.received[frame.level] += 1 -> pass
a task does not execute in the commit phase what it has kept
    engine.workers.worker_round.WorkerRound.__init__: self._arrivals.inboxes[level].put(...) -> pass
a round that was given up keeps its blobs
    engine.workers.worker_round.WorkerRound.close: self._arrivals.close() -> pass

# The rounds of a worker.
late blobs of an earlier round are kept
    engine.workers.worker_rounds.arrive: frame.round > self._last -> True
blobs that come before their round are dropped
    engine.workers.worker_rounds.arrive: self._early[frame.round].put(frame) -> pass
a round begins without the blobs that came before it
    engine.workers.worker_rounds._begin: self._early.pop(number) if _ else _ -> Arrivals(self._space)
a round that begins keeps the blobs of earlier ones
    engine.workers.worker_rounds._begin: self._early.pop(each).close() -> pass
a round that has begun does not make the blobs of earlier ones late
    engine.workers.worker_rounds._begin: self._last = number -> pass
several batches are processed with the same instances
    engine.workers.worker_rounds._begin: if is_processing: ... -> pass
a round goes on although it was given up
    engine.workers.worker_rounds.obey: self._drop(number) -> pass
blobs of a round that was given up before it began are kept
    engine.workers.worker_rounds.obey: self._last = max(self._last, number) -> pass
the driver does not hear that a worker gives a round up
    engine.workers.worker_rounds._give_up: self._tell(...) -> pass
the driver does not hear of a lost connection
    engine.workers.worker_rounds.cannot_reach: self._tell(...) -> pass
the driver hears only of a round that runs that a connection is lost
    engine.workers.worker_rounds.cannot_reach: self._tell(...)
    -> [self._tell(Frame(Kind.LOST, number, payload=pack([slot, reason]))) for number in self._rounds]
a round goes on over a new connection
    engine.workers.worker_rounds.WorkerRounds._send: (frame.round, slot) not in self._cut -> True
a worker that was replaced is let in
    engine.workers.worker_rounds.is_old: known.incarnation != incarnation -> False
a worker that knows a newer table is sent away
    engine.workers.worker_rounds.is_old: number <= self.table.number -> True
"""
