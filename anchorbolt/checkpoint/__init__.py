"""The three-phase checkpoint, without Spark. A wave's transaction is decided in `transaction`, by `Transaction.decide`.

Read the modules in this order:

1. `state_machine`: the phases of a transaction and their order;
2. `decision`: the decision record; `decision_log` reads and writes it under the driver's fence;
3. `transaction`: the transaction of one wave: begin, prepare, decide, commit, roll back;
4. `spout`: the checkpoint spout, which runs the transactions of all waves, and recovers after a crash;
5. `startup`, `startup_checks`, `recovery`: how a starting driver reads the store, checks it, and plans the recovery;
6. `stateful_executor`, `sink_executor`, `forwarder`: wrap the bolts, and handle the checkpoint tuples;
7. `custom_state`: the checkpoint of custom states; `location`: the decision's copy at the checkpoint location;
8. `ports`: the interfaces that an engine implements.
"""
