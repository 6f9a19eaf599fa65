"""`KafkaSink`: rows to topics of Kafka, exactly once.

`sink` is the bolt. `messages` turns tuples into messages, in tasks, before the decision; `reading` reads them from the
outbox, on the driver. `marker` decides whether a wave's messages are already in Kafka, and `publisher` sends them if
not, for as long as `patience` allows. `producer` is the only module that imports Kafka's client.
"""
