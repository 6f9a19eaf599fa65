"""Deliberate breaks of the guards of rich spouts in workers that stay. See `mutants`, which reads this list.

Left out, because it needs the timing of two threads: `HostedSpouts._hold` says that a task has not drained after it has
paused the task and before it takes over the number of the order; a status has `pending` of before `_empty`.
"""

HOSTED_MUTANTS = r"""
# What the driver knows of a task.
a worker is asked for tuples although it is lost
    engine.workers.spouts.ask: self._is_hosted and _ -> self.is_waiting or self.has_stable_ids
a loss between two waves is noticed too late
    engine.workers.spouts.ask: self._forget(()) -> pass
all intakes have the same number
    engine.workers.spouts.ask: self.number += 1 -> self.number = 1
the answer to an earlier request counts
    engine.workers.spouts.take: said.intake[0] == self.number -> True
a lost worker is waited for
    engine.workers.spouts._answered: self.was_lost or _ -> self._answer is not None and is_answer(self._answer)
acks of a lost worker's messages go to its replacement
    engine.workers.spouts.settle: self.was_lost or _ -> not (acked or failed)
all messages of an intake are acked although some are not
    engine.workers.spouts.settle: not failed and _ and _ -> not failed
the messages of an intake are acked although others are
    engine.workers.spouts.settle: all(map(is_, acked, of_intake)) -> True
all messages of an intake are acked although some fail
    engine.workers.spouts.settle: not failed and _ and _
    -> len(acked) == len(of_intake) and all(map(is_, acked, of_intake))
acks that a lost worker has not made count as those of its replacement
    engine.workers.spouts.RemoteHost.lose: self._unsettled.clear() -> pass
a replacement's acks are counted from those of a lost worker
    engine.workers.spouts.RemoteHost.lose: self._settled = 0 -> pass
nobody notices that a worker is lost
    engine.workers.spouts.RemoteHost.lose: self._is_hosted, self.was_lost = _ -> self._is_hosted = False
a task that has not been started is opened
    engine.workers.spouts.RemoteHost.came: self._is_wanted -> True
a replacement does not repeat acks
    engine.workers.spouts.RemoteHost.open: self.redelivery.acked if _ else _ -> []

# When acks are forgotten.
an ack is forgotten as soon as the source has it
    engine.workers.spouts.note: self._spouts.confirmed.append(partial(redelivery.confirm, acked))
    -> later.append(partial(redelivery.confirm, acked))
acks that are repeated are forgotten as soon as the source has them
    engine.workers.spouts.note: self._spouts.confirmed.append(partial(redelivery.confirm, self._to_ack_again))
    -> later.append(partial(redelivery.confirm, self._to_ack_again))
acks are forgotten before they are repeated
    engine.workers.spouts.note: said.status.has_acked_again and _ and _
    -> redelivery is not None and self._to_ack_again
an ack is forgotten at the next wave
    engine.workers.spouts.WorkerSpouts.confirm: ready = self._confirmed_before
    -> ready, self.confirmed = [*self._confirmed_before, *self.confirmed], []
each task that is asked for tuples forgets acks
    engine.workers.spouts.ask: self is self._spouts.hosts[0] -> True
acks of the last waves stay in the record
    engine.workers.spouts.RemoteHost.close: self._spouts.confirm() -> pass
acks count as made when the worker is told to make them
    engine.workers.hosted_spouts.status: self._orders_to_settle - len(self._settled) -> self._orders_to_settle

# Messages that a source delivers again.
a message that is delivered again is processed again
    engine.workers.spouts.take: self._drop_known(self.redelivery) -> pass
a worker keeps tuples that the driver drops
    engine.workers.spouts._drop_known: self._order(Order.DROP, dropped, again, repeated) -> pass
dropped tuples are only told
    engine.workers.hosted_spouts.drop: self.intake[number] = _ -> pass
a message that was acked is not acked again
    engine.workers.spouts._drop_known: what is Known.ACKED -> False
a message that is dropped stays pending
    engine.workers.spouts._drop_known: what is Known.IN_FLIGHT -> False
a worker counts a dropped message as pending
    engine.workers.hosted_spouts.drop: self.relay.repeated += repeated -> pass
dropped messages do not count as an order to settle
    engine.workers.spouts._drop_known: self._unsettled.append(...) -> pass
no task is told that another one has received its message
    engine.workers.spouts._drop_known: host.recall() -> pass
a replacement is told what others have received of the lost worker
    engine.workers.spouts.recall: self.redelivery is not None and not self.was_lost -> self.redelivery is not None
a message that another task has received stays pending
    engine.workers.hosted_spouts.take_recalled: self._finished += len(recalled) -> pass
messages of a wave that are lost with a worker stay in flight
    engine.workers.spouts._forget: self.redelivery.lose(self.task[1], msg_ids) -> pass
the messages of a lost task stay in flight
    tracking.redelivery.lose: self._lost += _ -> pass
a lost task gets acks
    tracking.redelivery.lose: self._emitter.update(...) -> pass
a lost task is told which messages others have received
    tracking.redelivery.lose: self._recalled.pop(...) -> pass
lost messages fail in each wave
    tracking.redelivery.settle: self._lost = [] -> pass
a message that comes twice in an intake counts twice
    tracking.redelivery.emit_all: len(new) == len(keys) -> True
a message in flight that comes in an intake counts again
    tracking.redelivery.emit_all: new.keys().isdisjoint(self._emitter) -> True
a message that was acked and comes in an intake counts again
    tracking.redelivery.emit_all: new.keys().isdisjoint(self._acked) -> True
the first task that received a message gets its ack
    tracking.redelivery.emit: before != task_index -> False

# Without stable message ids.
a replacement acks what a lost worker emitted
    engine.workers.hosted_spouts.settle_all: [msg_id for msg_id in acked if _] -> list(acked)
messages of open trees are not known any more
    engine.workers.hosted_spouts.settle_all: self._note_unsettled() -> pass
messages of a wave that has failed are not known any more
    engine.workers.hosted_spouts.take_as: self._note_unsettled() -> pass

# What the driver hears.
the states of the spouts are told only with an answer
    engine.workers.hosted_spouts._watch: host.status() != host.said -> False
"""

PLAYED_MUTANTS = r"""
# What the simulation does not show, or in few schedules: tests with one of the two sides catch it.
the answer of a lost worker counts
    engine.workers.spouts._answered: None if self.was_lost else self._answer -> self._answer
the answer to an earlier request has the tuples of a dead letter
    engine.workers.spouts._fetch: said.fetched[:2] == (number, position) -> True
the answer to an earlier order to hold counts
    engine.workers.spouts.is_drained: self._status.hold == self._hold -> True
all orders to hold have the same number
    engine.workers.spouts._set_hold: self._hold += 1 -> pass
a replacement is not held
    engine.workers.spouts.RemoteHost.open: self._order_hold() -> pass
a worker does not say which order to hold it has obeyed
    engine.workers.hosted_spouts.HostedSpouts._hold: host.hold = number -> pass
the tuples of a lost worker hold spouts back
    engine.workers.spouts.RemoteHost.lose: self._flow.take(...) -> pass
a lost worker's tuples still wait
    engine.workers.spouts.RemoteHost.lose: self._status, self.waiting_since = _ -> pass
tuples are sent although their worker has others now
    engine.workers.hosted_spouts.rows: host is None or host.number != number -> host is None
a dead letter has tuples of another intake
    engine.workers.hosted_spouts.obey: number == host.number -> True
acks are never forgotten
    engine.workers.spouts.ask: self._spouts.confirm() -> pass
the messages of an intake are acked although others are, with ids that Python calls equal
    engine.workers.spouts.settle: all(map(is_, acked, of_intake)) -> acked == of_intake
messages are acked one by one although they are all of an intake
    engine.workers.spouts.settle: None if is_all else acked -> acked
a replacement drops what a lost worker had
    engine.workers.spouts._drop_known: not self.was_lost -> True
a replacement fails what a lost worker emitted
    engine.workers.hosted_spouts.settle_all: [msg_id for msg_id in failed if _] -> list(failed)
the tuples of a wave after a loss stay in the worker
    engine.workers.spouts.ask: self.keeps_intake = _ -> pass
the driver keeps all tuples after a loss
    engine.workers.spouts.ask: self._lost_intakes = 0 -> pass
a lost intake counts as if it was not lost
    engine.workers.spouts.ask: any(...) and not self._is_intake_lost -> any(chunk.size for chunk in self._intake)
an intake that is lost while it is fetched was emitted
    engine.workers.spouts.take: self._intake = [] -> pass
without stable ids, a tuple ends its worker again and again
    engine.workers.spouts.RemoteHost.forget: self._lost_intakes > self._most_lost and _ -> False
"""
