"""`KafkaSink`, which sends each wave's tuples to a topic of Kafka, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.bolts.kafka.marker import LostMarker
from anchorbolt.bolts.kafka.messages import (
    COLUMNS,
    TOPIC_NAMES,
    Format,
    MessageFormat,
    Serializer,
    is_topic,
    outbox_schema,
    serializer_of,
)
from anchorbolt.bolts.kafka.publisher import Publisher
from anchorbolt.bolts.sink import DataFrameSink, SinkRun, never_called
from anchorbolt.config.secret import Secret
from anchorbolt.errors import TopologyError
from anchorbolt.util.messages import shortened

_DEFAULTS: Mapping[str, Any] = {
    "transaction.timeout.ms": 300_000,
    "partitioner": "murmur2_random",  # like Kafka's Java client: equal keys go to equal partitions
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": 1_000_000,  # the client's own default
    # With the default, `rebootstrap`, a transaction may hang after all brokers were away:
    # https://github.com/confluentinc/librdkafka/issues/5511
    "metadata.recovery.strategy": "none",
}
_OWN_SETTINGS = {
    "bootstrap.servers": "Pass the servers as bootstrap_servers.",
    "metadata.broker.list": "Pass the servers as bootstrap_servers.",
    "transactional.id": "Pass it as transactional_id.",
    **dict.fromkeys(("group.id", "enable.auto.commit", "isolation.level"), "The sink sets it for its marker."),
    **dict.fromkeys(
        ("enable.idempotence", "acks", "request.required.acks", "delivery.report.only.error", "on_delivery"),
        "A transactional producer sets it.",
    ),
    **dict.fromkeys(("error_cb", "logger"), "The sink needs it."),
}


class KafkaSink(DataFrameSink):
    """Sends the tuples it receives as messages to Kafka, each exactly once for consumers with `read_committed`.

    Needs `pip install anchorbolt[kafka]` on the driver. Tasks turn tuples into messages and write them to the outbox.
    Once a wave is decided, the driver sends its messages in one transaction of Kafka, together with a marker that names
    the wave; a driver that finds the marker does not send them again. Within a partition, messages of a wave come
    before messages of later waves, and the messages of one task are in order.

    The topic must exist. The marker is the committed offset, in partition 0 of `marker_topic`, of a consumer group with
    the name of the `transactional.id`; no consumer may use that group.

    While Kafka does not answer, a wave waits for `topology.message.timeout.secs` after its last progress; then the run
    ends with `SinkUnavailable`, and the next run sends the wave. `docs/kafka.md` describes limits and security.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str | None = None,
        *,
        value: str | Sequence[str] = "value",
        key: str | Sequence[str] | None = None,
        headers: str | None = None,
        partition: str | None = None,
        topic_field: str | None = None,
        value_serializer: Format | Serializer = "str",
        key_serializer: Format | Serializer = "str",
        settings: Mapping[str, Any] | None = None,
        transactional_id: str | None = None,
        marker_topic: str | None = None,
        lost_marker: LostMarker = "stop",
    ) -> None:
        """Create a sink. Connects to nothing yet.

        Args:
            bootstrap_servers: Some of the servers, each as `host:port`: a list, or a comma-separated text.
            topic: The topic of all messages.
            value: The field with the message's value; or a list of fields, passed to the serializer as a dict. None in
                the field gives a message without a value.
            key: The same for the message's key; by default messages have no key.
            headers: A field with a dict, or a list of pairs, of names and values: text, bytes or None.
            partition: A field with the number of the partition. Without it, or if its value is None, Kafka's client
                chooses by the key, like the Java client, or at random.
            topic_field: A field with the message's topic, instead of `topic`. All these topics must exist.
            value_serializer: `"str"` (the text of any value except bytes, as UTF-8), `"bytes"`, `"json"`, or a function
                that returns bytes, text or None. It is called in tasks, never for None.
            key_serializer: The same for the key.
            settings: Properties of Kafka's C client, such as `security.protocol` or `compression.type`. They stay on
                the driver and are never shown. A text value may be a `Secret`.
            transactional_id: Default `<topology>:<component>`. All runs of the sink must use the same id, and no other
                producer may use it: two sinks of a topology with the same id and a common server are refused.
            marker_topic: Default `topic`; required with `topic_field`. The topic must never be deleted.
            lost_marker: What to do with a decided wave if its marker is lost: `"stop"` with `StateRegressed`, `"send"`
                the wave (perhaps again), or `"skip"` it. Check the topic, then set this for one run.

        Raises:
            TopologyError: An argument is invalid.
        """
        super().__init__(never_called, schema=outbox_schema())
        servers = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
        self.bootstrap_servers = ",".join(_names("bootstrap_servers", servers))
        if (topic is None) == (topic_field is None):
            raise _refusal("topic", topic, "Pass either topic or topic_field.")
        named = {
            "topic": topic,
            "topic_field": topic_field,
            "headers": headers,
            "partition": partition,
            "transactional_id": transactional_id,
            "marker_topic": marker_topic,
        }
        for name, given in named.items():
            if given is not None and (not isinstance(given, str) or not given):
                raise _refusal(name, given, "Pass a string that is not empty.")
        for name in ("topic", "marker_topic"):
            if named[name] is not None and not is_topic(named[name]):
                raise _refusal(name, named[name], f"Pass {TOPIC_NAMES}.")
        marks = marker_topic or topic
        if marks is None:
            raise _refusal("marker_topic", None, "Pass the name of a topic: topic_field may name several topics.")
        if lost_marker not in ("stop", "send", "skip"):
            raise _refusal("lost_marker", lost_marker, "Pass 'stop', 'send' or 'skip'.")
        self.transactional_id = transactional_id
        self._marker_topic = marks
        self._lost_marker = lost_marker
        self._settings = {**_DEFAULTS, **_checked_settings({} if settings is None else settings)}
        self._format = MessageFormat(
            topic=topic,
            topic_field=topic_field,
            value=value if isinstance(value, str) else _names("value", value),
            key=key if key is None or isinstance(key, str) else _names("key", key),
            headers=headers,
            partition=partition,
            value_serializer=_serializer("value_serializer", value_serializer),
            key_serializer=_serializer("key_serializer", key_serializer),
            max_bytes=self._settings["message.max.bytes"],
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the settings, which stay on the driver."""
        return super().__getstate__() | {"_settings": {}}

    def exclusive(self, topology: str, component: str) -> Sequence[str]:
        """Return the `transactional.id` at each of the servers: two producers with one id fence each other off."""
        identity = self._identity(topology, component)
        servers = (server.strip().lower() for server in self.bootstrap_servers.split(","))
        return [f"the transactional_id {identity!r} at {server}" for server in servers]

    def begin_run(self, run: SinkRun) -> Publisher:
        """Connect, and compare the marker with the state."""
        publisher = Publisher(
            run,
            servers=self.bootstrap_servers,
            identity=self._identity(run.topology, run.component),
            topic=self._marker_topic,
            settings=self._settings,
            lost_marker=self._lost_marker,
            open_at=run.locations.open,
        )
        publisher.begin()
        return publisher

    def _identity(self, topology: str, component: str) -> str:
        return self.transactional_id or f"{topology}:{component}"

    def outbox_columns(
        self, fields: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the messages of these tuples."""
        return COLUMNS, self._format.columns(fields, columns)


def _names(argument: str, given: Sequence[str]) -> tuple[str, ...]:
    advice = "Pass a string, or a list of different strings."
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or not given:
        raise _refusal(argument, given, advice)
    if any(not isinstance(name, str) or not name for name in given) or len(set(given)) < len(given):
        raise _refusal(argument, given, advice)
    return tuple(given)


def _serializer(argument: str, given: Format | Serializer) -> Serializer:
    try:
        return serializer_of(given)
    except ValueError as error:
        raise _refusal(argument, given, str(error)) from None


def _checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with every text as a `Secret`. Error messages do not contain their values."""
    if not isinstance(settings, Mapping):
        raise TopologyError(
            f"KafkaSink: settings is a {type(settings).__name__}. Pass a dict of the client's properties."
        )
    checked: dict[str, Any] = {}
    for name, value in settings.items():
        if not isinstance(name, str) or not (isinstance(value, str | int | float | Secret) or callable(value)):
            raise TopologyError(
                f"KafkaSink: the setting {name!r} is a {type(value).__name__}. Pass names as strings, and values as "
                "strings, numbers or callbacks."
            )
        if name in _OWN_SETTINGS or name.startswith("kafka."):
            advice = _OWN_SETTINGS.get(name, "Pass it without the prefix 'kafka.'.")
            raise TopologyError(f"KafkaSink: {name!r} cannot be set. {advice}")
        checked[name] = Secret(value) if isinstance(value, str) else value
    largest = checked.get("message.max.bytes", 1)
    if isinstance(largest, Secret):
        largest = checked["message.max.bytes"] = int(largest.reveal()) if largest.reveal().isdecimal() else 0
    if type(largest) is not int or largest < 1:
        raise TopologyError("KafkaSink: the setting 'message.max.bytes' is not a number of bytes. Pass a whole number.")
    return checked


def _refusal(argument: str, given: object, advice: str) -> TopologyError:
    return TopologyError(f"KafkaSink: {argument} is {shortened(given)}. {advice}")
