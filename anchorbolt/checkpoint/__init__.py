"""The three-phase checkpoint, without Spark. A wave's transaction is decided in `transaction`, by `Transaction.decide`.

Read the modules in this order:

1. `state_machine`: the phases of a transaction and their order;
2. `decision`: the decision record; `decision_log` reads, writes and copies it under the driver's fence;
3. `transaction`: the transaction of one wave: begin, prepare, decide, commit, roll back;
4. `coordinator`: runs the transactions of all waves, and recovers after a crash;
5. `startup`, `recovery`: the reasons to refuse a start, and the plan of the recovery;
6. `namespaces`, `outbox`: commit the state, and publish the rows of the sinks;
7. `custom_state`: the checkpoint of custom states;
8. `letters`: dead letters;
9. `ports`: the interface that an engine implements. The tasks' code is in `engine.task.executors`.
"""
