"""Finds the tuple trees that a wave leaves open, as Storm's ackers do: by XOR; and knows where each message is.

Pure: no Spark, no threads, no clock.

Each tracked tuple descends from one or more roots, the ids of trees. Each copy of a tuple that is sent to a task has an
id. The XOR of all ids of a tree, each taken when it is sent and again when it is acked, is zero once all is acked. A
wave executes all that it sends, so an id that is sent and acked in one wave cancels. A task therefore adds only the ids
of the tuples that it holds at the wave's end, and adds them again when it acks these tuples in a later wave.

Read the modules in this order:

1. `streams.ids`: ids of tuples, drawn in blocks; `streams.lineage`: the roots and ids of the tuples of a blob;
2. `contributions`: what a task adds to the trees in a wave; `blob` is its form on the way to the ackers;
3. `task_tracker`: collects a task's contributions as it acks and fails tuples;
4. `placement`: which acker is responsible for a root;
5. `stored_trees`: a tree that is open between waves, its bytes, and the state of an acker;
6. `ledger`: merges the contributions of all tasks, and finds what is complete, failed, timed out or still open;
7. `verdict`: what the ledger reports to the driver;
8. `book`: where each message is, on the driver: `in_flight` has those of the wave and of open trees, `redelivery` those
   of a source with stable ids until it knows of their acks, `failed_messages` counts how often each has failed;
9. `settlements`: what becomes of messages when a wave has committed.

`sorted_roots` has the operations on arrays that the others share, `emission_times` says when messages were emitted.
"""
