"""Deliberate breaks of the guards that transactional topologies need. See `mutants`, which reads this list."""

BATCH_MUTANTS = r"""
# The metadata of batches.
metadata that the emitters found is not stored
    transactional.batches.pipeline.tell: self._store(...) -> pass
metadata of a whole batch is not stored
    transactional.batches.pipeline._begin: self._store(...) -> pass
a batch follows one whose metadata is not stored yet
    transactional.batches.pipeline.tell: self._store(...) <-> flight.is_known = True
a batch follows one whose metadata is not known
    transactional.batches.pipeline._last: flight.metadata if flight.is_known else None -> flight.metadata
all batches have one slot
    transactional.batches.metadata.slot_of: holder <= committed -> True
a slot is free before its batch has committed
    transactional.batches.metadata.slot_of: holder <= committed -> holder <= committed + 1
a slot is never free again
    transactional.batches.metadata.slot_of: holder <= committed -> False
a driver does not know the slots that an earlier one has filled
    transactional.batches.metadata.__init__: self._txids = _ -> self._txids = {}
a driver does not use the metadata that an earlier one has stored
    transactional.batches.pipeline.open: dict(self._slots.found) -> {}
a batch that is tried again gets other metadata
    transactional.batches.pipeline.give_up: self._stored[flight.txid] = flight.metadata -> pass
a batch that is tried again keeps metadata that is not durable
    transactional.batches.pipeline.give_up: not self._coordinator.is_opaque and flight.is_known
    -> not self._coordinator.is_opaque and (flight.is_known or len(flight.told) == flight.metadata.number_of_partitions)
an opaque batch that is tried again keeps its metadata
    transactional.batches.pipeline.give_up: not self._coordinator.is_opaque and flight.is_known -> flight.is_known
an opaque batch keeps its metadata over a restart
    transactional.batches.pipeline.open: not self._coordinator.is_opaque -> True
an older driver writes metadata
    state_backends.rules.check_write: check_fence(...) -> pass
the record does not hold the metadata of its batch
    engine.driver.rounds._run_batch: batch.metadata.encode() -> b''
the record holds the metadata of the last batch in flight
    engine.driver.rounds._run_batch: batch.metadata.encode()
    -> self._pipeline._flights[max(self._pipeline._flights)][0].metadata.encode()

# The partitions of a batch.
a partition that has emitted is empty when it is tried again
    transactional.batches.flights.starts: PartitionStart(...)
    -> PartitionStart(partition, self.last.partitions.get(partition), None, again)
a partition that has emitted emits a new batch when it is tried again
    transactional.batches.flights.starts: again and partition in metadata.emitted -> False
a partition that was empty emits when it is tried again
    transactional.batches.flights.starts: again and partition not in metadata.emitted -> False
a partition that was empty emits its batch before when it is tried again
    transactional.batches.flights.starts: again and partition in metadata.emitted
    -> again and partition in metadata.partitions
a partition that emits nothing loses its position
    transactional.batches.flights.Flight.tell: {**self.last.partitions, **emitted} -> emitted
a task of the spout emits all partitions
    transactional.batches.flights.starts: range(task[1], metadata.number_of_partitions, tasks)
    -> range(metadata.number_of_partitions)

# The batches in flight.
more batches are pending than allowed
    transactional.batches.pipeline.fill: len(self._flights) < self._most -> len(self._flights) <= self._most
batches behind a failed one go on
    transactional.batches.pipeline.give_up: each >= txid -> each == txid
two tries of a batch have one fence
    transactional.batches.pipeline._begin: self._log.next_fence() -> self._log._fence
a task of an earlier try tells its metadata
    transactional.batches.pipeline._flight_of: flight is None or flight.fence != current.fence -> flight is None
a task of the spout that runs twice finds two batches
    transactional.batches.flights.Flight.tell: if known != metadata: ... -> pass
the metadata that is stored is not compared with that of the tasks that won
    transactional.batches.flights.check_reported: dict(reported) != expected -> False
a batch that is tried again waits until it is ready
    transactional.batches.pipeline._begin: is_new = _ -> is_new = True
an emitter forgets batches that have not committed
    engine.task.emitter_task._emit: batch.committed + 1 -> self._round.txid + 1

# The two phases.
the reports of the processing phase are not checked
    engine.driver.rounds._run_batch: check_round(...) -> processed
the reports of the commit phase are not checked
    engine.driver.rounds._run_tasks: check_round(...) -> reports
a committer finishes its batch in the processing phase
    engine.task.instances._wrapped: is_late and processing -> False
an emitter does not commit
    engine.task.executors.batch_executors.EmitterCommit.handle: self._commit(...) -> pass

# Hand-offs.
an instance is not compared with what its task wrote
    transactional.batches.hand_off.HandOffs.read_instance: not compare_digest(digest, wanted.digest()) -> False
tuples are not compared with what their task wrote
    transactional.batches.hand_off.HandOffs.read_blobs: not compare_digest(file.read(), digest.digest()) -> False
the commit phase begins with a new instance
    engine.task.executors.batch_executors.BatchBoltExecutor.begin_batch:
    hand_off is not None and hand_off.holds_instance
    -> False
tuples that are kept are executed on a bolt that could not begin its batch
    engine.task.bolt_task.execute_kept: self.report.failure is not None -> False
hand-offs of a try that was given up stay
    transactional.batches.pipeline._ended: current is not flight -> False
kept tuples are not executed
    engine.task.bolt_task.execute_kept: yield from self._execute_and_send(...) -> yield from ()
what a late bolt emits in the processing phase is not sent
    engine.task.executors.batch_executors.HandingBatchExecutor.handle: self._flush() -> pass

# Values outside.
a batch that is tried again counts twice in a transactional value
    transactional.values.update_transactional: stored.txid == txid -> False
a batch that is tried again counts twice in an opaque value
    transactional.values.update_opaque: stored.txid == txid -> False
what an earlier try did to a key is not taken back
    transactional.maps.OpaqueMap.multi_update: key in stored and stored[key].txid == txid -> False

# Tasks of a committer whose journals a later run needs.
another number of tasks may commit a batch that is half committed
    checkpoint.coordinator.begin_batches: if waits: ... -> pass
a run that has not committed a waiting batch forgets who began to
    engine.sources.batch_source.finished: not self._pipeline.waits -> True
"""
