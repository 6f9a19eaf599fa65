"""`KafkaSink`: rows to topics of Kafka, exactly once.

`sink` is the bolt. `messages` turns tuples into messages, in tasks, before the decision. `marker` decides whether a
wave's messages are already in Kafka; if not, `publisher` reads them from the outbox, on the driver, and sends them, for
as long as `Patience` allows. `producer` is the only module that imports Kafka's client.
"""
