"""`KafkaSink`: rows to topics of Kafka, exactly once.

`sink` is the bolt. `messages` turns tuples into messages, in tasks, before the decision. `marker` decides whether a
wave's messages are in Kafka already. `producer` is the only module that imports Kafka's client.
"""
