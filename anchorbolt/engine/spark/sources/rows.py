"""Makes the streaming DataFrame of all stream spouts, and names each spout's source if Spark can."""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.sources.known import KnownSources, source_name
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.errors import TopologyError
from anchorbolt.files import Folder
from anchorbolt.spouts.base import StreamSpout
from anchorbolt.topology.graph import SpoutSpec

CAN_NAME = hasattr(DataStreamReader, "name")
"""Whether this Spark can name sources, as 4.2 and later can."""

_NAMES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_UNNAMED = "UNNAMED_STREAMING_SOURCES"


def known_sources(plan: ExecutionPlan, folder: Folder) -> KnownSources:
    """Return the sources that a checkpoint location knows for the stream spouts of a topology.

    Raises `QueryChanged` if the topology cannot continue there.
    """
    known = KnownSources(folder, list(plan.graph.stream_spouts), can_name=CAN_NAME)
    known.check()
    return known


def source_rows(
    session: SparkSession, plan: ExecutionPlan, stage: Callable[[str], RemoteStage], known: KnownSources
) -> DataFrame:
    """Return the blobs of all stream spouts of a topology, as one streaming DataFrame.

    `stage` returns the stage that runs the tasks of a spout.

    Raises `TopologyError` if Spark cannot run a spout, or if its source is not a streaming DataFrame with a column per
    field.
    """
    if CAN_NAME:
        session.conf.set(_NAMES, str(known.are_named).lower())
    frames = []
    for component, spec in plan.graph.stream_spouts.items():
        frame = _source_frame(_NamingSession(session, component) if known.are_named else session, component, spec)
        if spec.parallelism is not None:
            frame = frame.coalesce(spec.parallelism)
        frames.append(frame.mapInArrow(stage(component), ENVELOPE_SCHEMA))
    return reduce(DataFrame.union, frames)


class _NamingSession(SparkSession):
    """A copy of a session that names each source of `readStream` after a spout."""

    def __init__(self, session: SparkSession, spout: str) -> None:
        self.__dict__.update(session.__dict__)
        self._spout = spout
        self._sources = 0

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802
        self._sources += 1
        return super().readStream.name(source_name(self._spout, self._sources))


def _source_frame(session: SparkSession, component: str, spec: SpoutSpec) -> DataFrame:
    def refusal(problem: str) -> TopologyError:
        return TopologyError(f"spout {component!r}: {problem}", component=component)

    spout = spec.spout
    assert isinstance(spout, StreamSpout)
    try:
        frame = spout.source(session)
    except Exception as error:
        if _UNNAMED in str(error):
            raise refusal(
                "its source has no name, which Spark needs to find it again at the checkpoint location. Make it by "
                "readStream of the session that the source function gets."
            ) from error
        raise refusal(
            f"its source function raised {type(error).__name__}: {error}. It is called once, on the driver, with the "
            "engine's session."
        ) from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = type(frame).__name__
        raise refusal(f"its source returned {returned}, not a streaming DataFrame. Use spark.readStream.")
    if len(frame.columns) != len(spout.fields):
        raise refusal(
            f"its fields are {', '.join(spout.fields)}, but its source has the columns {', '.join(frame.columns)}. "
            "Name one field per column."
        )
    return frame
