"""Base classes for bolts, and the sinks that end a topology."""

from anchorbolt.bolts.arrow import ArrowOutputCollector, BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.bolts.base import (
    BaseBasicBolt,
    BaseRichBolt,
    BaseStatefulBolt,
    FailedException,
    ReportedFailedException,
)
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.bolts.kafka.sink import KafkaSink
from anchorbolt.bolts.sink import DataFrameSink, ParquetSink
from anchorbolt.state_backends.timed.timers import Timer, Timers

__all__ = [
    "ArrowOutputCollector",
    "BaseArrowBolt",
    "BaseBasicBolt",
    "BaseRichBolt",
    "BaseStatefulArrowBolt",
    "BaseStatefulBolt",
    "BasicOutputCollector",
    "DataFrameSink",
    "FailedException",
    "KafkaSink",
    "OutputCollector",
    "ParquetSink",
    "ReportedFailedException",
    "Timer",
    "Timers",
]
