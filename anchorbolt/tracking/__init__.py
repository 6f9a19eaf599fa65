"""Finds the tuple trees that a wave leaves open, by XOR like Storm's ackers; tracks where each message is.

Pure: no Spark, no threads, no clock.

Each tracked tuple descends from one or more roots, the ids of trees. Each copy of a tuple that is sent to a task has an
id. A tree's XOR takes each id when the tuple is sent and again when it is acked, so it is zero once all tuples are
acked. A wave executes all tuples that it sends, so an id that is sent and acked in one wave cancels. A task therefore
adds only the ids of the tuples that it holds at the wave's end, and adds them again when it acks these tuples in a
later wave.

Read the modules in this order:

1. `streams.lineage`: ids of tuples, drawn in blocks, and the roots and ids of the tuples of a blob;
2. `contributions`: a task's additions to the trees in a wave; `blob`: their encoding for the ackers;
3. `task_tracker`: collects a task's contributions as it acks and fails tuples;
4. `placement`: which acker is responsible for a root;
5. `stored_trees`: a tree that is open between waves, its bytes, and the state of an acker;
6. `ledger`: merges the contributions of all tasks, and finds the trees that are complete, failed, timed out or open;
7. `verdict`: what the ledger reports to the driver;
8. `book`: where each message is, on the driver. `in_flight` has the messages of the wave and of open trees,
   `redelivery` those of a source with stable ids until it knows of their acks, `failed_messages` counts failures;
9. `settlements`: the acks and fails of messages after a wave has committed.

`sorted_roots` has the operations on arrays that the others share, `emission_times` the emit times of messages.
"""
