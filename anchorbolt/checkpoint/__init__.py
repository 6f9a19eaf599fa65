"""The three-phase checkpoint, whole, without Spark.

Read it in this order:

1. `state_machine`: the states of a transaction and its moves;
2. `decision`: the decision record, and `decision_log`, which reads and writes it under the driver's fence;
3. `transaction`: one wave's transaction: begin, prepare, decide, commit, roll back;
4. `spout`: the checkpoint spout, which drives every transaction, and recovers after a crash;
5. `startup`, `startup_checks`, `recovery`: what a starting driver reads, refuses, and does about what it finds;
6. `stateful_executor`, `sink_executor`, `forwarder`: the wrappers through which checkpoint tuples reach the bolts;
7. `ports`: what all this needs of an engine.
"""
