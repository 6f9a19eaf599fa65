"""Kills of a job from topic to topic: its driver, its workers, and Kafka itself."""
