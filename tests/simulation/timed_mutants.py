"""Deliberate breaks of what timers, TTLs and event time need. See `mutants`, which reads this list."""

TIMED_MUTANTS = r"""
# Entries that expire.
an entry that expires is read until the sweep
    state_backends.timed.expiry.begin: expired.append(key) -> pass
a cached entry that expires is read from the cache
    state_backends.entry_cache.begin: self._cache[key] = ABSENT -> pass
entries that have expired are read from the store
    state_backends.timed.expiry.opened: min(parsed.values())[0] > now -> True
entries are read at the time at which they expire
    state_backends.timed.expiry.opened: min(parsed.values())[0] > now -> min(parsed.values())[0] >= now
an entry that has expired is read from the store, beside one that stays
    state_backends.timed.expiry.opened: due[0] > now -> True
an entry is read at the time at which it expires, beside one that stays
    state_backends.timed.expiry.opened: due[0] > now -> due[0] >= now
entries that are read or put are not looked at
    state_backends.timed.expiry._merge: self._look_at(due[0], keys) -> pass
the state shows entries that have expired
    state_backends.timed.expiry.live_entry: due[0] > now -> True
the state shows the index
    state_backends.timed.expiry.live: not key.startswith(INDEX_TAG) and _
    -> (entry := live_entry(key, data, now)) is not None
an entry that is refreshed expires at its first time in the cache
    state_backends.timed.expiry.begin: due is not None and due[0] > now -> False
an entry that is refreshed is forgotten in the cache
    state_backends.timed.expiry.begin: later[due[0]].append(key) -> pass
a later put does not begin the TTL again
    state_backends.timed.expiry._due_at: (at, indexed)
    -> (at if old is None else old[0], indexed)
a stored entry keeps its first due time
    state_backends.timed.expiry._due_at: _header(at, indexed)
    -> _header(at if old is None else old[0], indexed)
an entry that is refreshed is indexed in each wave
    state_backends.timed.expiry._due_at: old is not None and keeps_item(old, at, latest, now) -> False
a refreshed entry does not keep the time of its item
    state_backends.timed.expiry._due_at: indexed = old[1] -> indexed = latest
an entry that is put with a shorter TTL is read from the cache until its former time
    state_backends.timed.expiry._due_at: not now < old[0] <= at -> old[0] <= now
an entry that is put with a shorter TTL is not indexed again
    state_backends.timed.expiry.keeps_item: not now < old[1] <= latest -> not now < old[1]
an entry that is put without a TTL keeps its old one
    state_backends.timed.expiry.headers: own.pop(key, default)
    -> own.pop(key, default) or self._dues.get(key, (None,))[0]
the TTL of a put is ignored
    state_backends.timed.expiry.headers: own.pop(key, default) -> default
the TTL of a put is ignored if nothing is deleted
    state_backends.timed.expiry.headers: default is not None and _ and _ -> default is not None and True not in deleted
a put without a TTL has the TTL of the put before it
    state_backends.timed.expiry.clear_ttl: self._own.pop(key, None) -> pass
an update does not know the header of the entry that it replaces
    state_backends.entry_cache._stage_updates: if unknown: ... -> pass
entries whose headers are forgotten stay in the cache
    state_backends.timed.expiry.keep: dues.keys() & each.keys() -> ()
the due times of a failed wave are known to the next one
    state_backends.timed.expiry.forget: self._dues.clear() -> pass

# The sweep.
nothing is swept
    state_backends.entry_cache.prepare_commit: self.timed.sweep() -> ()
the sweep deletes entries that were refreshed
    state_backends.timed.expiry.sweep: at <= now -> True
the sweep takes an entry without a TTL for one that has a TTL
    state_backends.timed.expiry.sweep: data is None or _ or _ -> data is None
the sweep indexes an entry again for each of its items
    state_backends.timed.expiry.sweep: indexed != item_due -> False
an entry that lives on is not indexed again
    state_backends.timed.expiry.sweep: again.append(...) -> pass
an entry that lives on is indexed under a time that its header does not have
    state_backends.timed.expiry.sweep: updates[key] = joined(moved, data[size:]) -> pass
an entry that is put after its item was swept is not indexed again
    state_backends.timed.expiry.keeps_item: not now < old[1] <= latest -> old[1] > latest
a swept entry is not deleted
    state_backends.timed.expiry.sweep: updates[key] = None -> pass
a task sweeps as many entries as there are
    state_backends.timed.expiry.sweep: self._index.take(IndexClock.EXPIRY, now, SWEPT_PER_WAVE)
    -> self._index.take(IndexClock.EXPIRY, now, 1 << 40)
what a sweep changes is not staged
    state_backends.timed.entries.sweep: self.stage() -> pass
a task that has not had an entry with a TTL in this run sweeps none
    state_backends.timed.entries.begin: scope.has_expiring -> False
it is not known after a wave that entries expire
    checkpoint.transaction._round: frozenset(...) -> frozenset()

# The index.
the index remembers what a failed wave added
    state_backends.timed.entries.forget: self._index.forget() -> pass
a failed wave's changes of timers are staged by the next one
    state_backends.timed.entries.forget: self._updates.clear() -> pass
the cache after a failed wave does not forget the index
    state_backends.entry_cache._forget: self.timed.forget() -> pass
a wave whose only changes are timers counts as finished
    state_backends.entry_cache.begin: self._updates > 0 or self._attempt.is_unsealed or self.timed.has_changes
    -> self._updates > 0 or self._attempt.is_unsealed
timers are not staged without an update of an entry
    state_backends.entry_cache._stage_updates: not self._updates and not self.timed.has_changes -> not self._updates
items that are taken before they are due are dropped
    state_backends.timed.index.take: self.add(clock, early, until) -> pass
items beyond the limit are dropped
    state_backends.timed.index.take: self.add(clock, due[most:], until) -> pass
items are taken in the order in which they were added
    state_backends.timed.index.take: due.sort() -> pass
items that are taken stay in the index
    state_backends.timed.index.take: self._remove(...) -> pass
items that were not flushed are not taken
    state_backends.timed.index.take: self._take_new(clock, until) -> []
a bucket's last chunk is overwritten
    state_backends.timed.index._written: items = [*tail, *items] -> pass
the directory keeps empty buckets
    state_backends.timed.index.flush: directory.pop(bucket, None) -> pass

# Timers.
a timer fires before its time
    state_backends.timed.timers._take: stored.at == item_due -> True
a timer by the clock fires after its time only
    state_backends.timed.timers.take_due: ("processing", self.now) -> ("processing", self.now - 1)
a timer by the watermark fires after its time only
    state_backends.timed.timers.take_due: ("event", self.watermark)
    -> ("event", None if self.watermark is None else self.watermark - 1)
a timer that was cancelled fires
    state_backends.timed.timers._take: stored is None or _ or _
    -> (stored := stored or _Record(clock, item.due, item.due)).indexed != item.due
a timer that was cancelled while timers fire fires
    state_backends.timed.timers.cancel: self._firing.pop(record, None) -> pass
a timer that was replaced while timers fire fires twice
    state_backends.timed.timers.set: self._firing.pop(record, None) -> pass
a cancelled timer stays
    state_backends.timed.timers.cancel: self._changed[record] = None -> pass
a timer that has fired stays in the state
    state_backends.timed.timers._take: self._changed[record] = None -> pass
a timer that was set to a later time is lost
    state_backends.timed.timers._take: self._changed[record] = clock, stored.at -> pass
a timer that was set to a later time is not indexed again
    state_backends.timed.timers._take: _Record(clock, stored.at, _NOT_INDEXED) -> stored
a timer that was set to an earlier time is not indexed again
    state_backends.timed.timers.flush: old is not None and old.clock == clock and old.indexed <= due
    -> old is not None and old.clock == clock
a timer by another clock is not indexed again
    state_backends.timed.timers.flush: old is not None and old.clock == clock and old.indexed <= due
    -> old is not None and old.indexed <= due
a timer that is in the index twice counts twice
    state_backends.timed.timers._take: stored is None or _ or record in self._firing
    -> stored is None or (stored.clock, stored.indexed) != (clock, item.due)
timers fire in the order of the index
    state_backends.timed.timers.take_due: sorted(taken) -> taken
more timers than the limit fire
    state_backends.timed.timers.take_due: most - len(taken) -> most
timers of the wave before still fire
    state_backends.timed.timers.Timers.begin: self.now, self.watermark, self.fired = _ -> self.fired = 0
timers that the wave sets do not fire in it
    state_backends.timed.entries.take_due: self._updates.update(self._timers.flush()) -> pass
timers fire after the state is staged
    engine.task.bolt_task.finish:
    for _ in instance.bolt.fire(): ...
    <-> instance.bolt.handle(CheckpointTuple(self._round.txid, Action.PREPARE))

# The wave's clock, and when a wave is caused.
the clock of a wave goes back
    checkpoint.transaction.begin: max(self.record.clock, int(self._run.clock() * 1000)) -> int(self._run.clock() * 1000)
the clock of a wave is taken again for another round
    checkpoint.transaction._round: times = self.record.times
    -> times = self.record.times
    self._clock = max(self._clock, int(self._run.clock() * 1000))
the record has another clock than the wave
    checkpoint.transaction._decision: self._clock -> int(self._run.clock() * 1000)
the decision forgets the times of bolts
    checkpoint.transaction._decision: {**before.times, **self._times_after(prepared)} -> {}
the decision keeps the old times of bolts
    checkpoint.transaction._decision: {**before.times, **self._times_after(prepared)} -> before.times
the stored record has no clock
    checkpoint.decision.decode: int(content.get("clock", 0)) -> 0
the stored record has no times
    checkpoint.decision.decode: content.get("times", {}).items() -> ()
due timers cause no wave
    engine.sources.driver_spouts.Alarms.poll: any(...) -> False
a timer that the last wave has left waits while the machine's clock is behind
    engine.sources.driver_spouts.Alarms.poll: max(record.clock, int(self._clock() * 1000)) -> int(self._clock() * 1000)
a timer that is due now causes no wave
    checkpoint.times.is_behind: at <= clock -> at < clock
a timer that the watermark has reached causes no wave
    checkpoint.times.is_behind: by_event <= self.watermark -> by_event < self.watermark
a stream that becomes idle causes no wave
    checkpoint.times.is_due: event_time is not None and event_time.idle_ms is not None -> False
the next due time is that of one task
    state_backends.timed.entries.earliest: min(...) -> next(iter(due for due in dues if due is not None), None)

# The watermark.
the watermark goes back
    checkpoint.times.after: max(watermark, reached) -> reached
the watermark has no lag
    checkpoint.times.after: event_time.lag_ms -> 0
the watermark is that of the fastest stream
    checkpoint.times.after: min(...) -> max(each for each in active if each is not None)
a stream that has had no tuples does not hold the watermark back
    checkpoint.times.after: None not in active -> any(each is not None for each in active)
an idle stream holds the watermark back
    checkpoint.times.after: clock - each.clock < idle_ms -> True
streams that are all idle hold the watermark back
    checkpoint.times.after: max((each.event_time for each in latest.values() if _), default=None) -> None
the watermark does not wait for a bolt upstream that is behind
    checkpoint.transaction._times_after: not behind.isdisjoint(event_time.upstream) -> False
the watermark waits only for a bolt directly upstream that is behind
    engine.plan.execution_plan.event_times: frozenset(timed).union(*(upstream[each] for each in above))
    -> frozenset(timed)
a bolt that has timers left by the watermark is not behind
    checkpoint.transaction._times_after: before[name].is_behind(wave, clock) -> False
a late tuple moves the latest event time of its stream back
    checkpoint.times.after: max(seen[stream], known) -> seen[stream]
the latest event time is that of one task
    checkpoint.times.of_tasks: max(latest, seen.get(stream, latest)) -> latest
the event times of a wave are those of the last blob
    engine.task.executors.stateful_executor._note_event_times: max(latest, self._seen.get(stream, latest)) -> latest
event times of the wave before count
    engine.task.executors.stateful_executor.begin: self._seen, self._clock = _ -> self._clock = scope.clock
a time in the far future moves the watermark
    engine.task.executors.stateful_executor._note_event_times: latest is not None and latest > horizon -> False
"""
