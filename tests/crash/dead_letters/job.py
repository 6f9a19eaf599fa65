"""The job that is killed, as a process of its own: `python -m tests.crash.dead_letters.job CONF.json`.

Rows of text files, read by a stream spout, or of a Redis stream, read by a reliable spout, are checked and counted.
Some are poison: see `tests.crash.dead_letters.rows`. The process ends when its source is empty.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from anchorbolt.spouts import RedisStreamsSpout, Spout, StreamSpout
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.crash.dead_letters.rows import DIES, FAILS, RAISES, RAISES_LATE
from tests.crash.deaths.job import GROUP, NAME, OWN, STREAM, TASKS, run_job
from tests.engine.jobs import RichBolt, StatefulBolt
from tests.servers.redis_server import RedisServer

ROWS = "rows"  # id of the spout


class Checks(RichBolt):
    """Passes on rows, in parts."""

    fields = ("word", "number", "kind")

    def execute(self, tup: Tuple) -> None:
        number, word, kind = tup[0].split(" ")
        if kind == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == FAILS:
            self.collector.fail(tup)
            return
        if kind == RAISES:
            raise ValueError(number)
        self.collector.emit((word, int(number), kind), anchors=tup)
        self.collector.ack(tup)


class Counts(StatefulBolt):
    """Counts the rows of a word, and sums up their numbers: so a lost row cannot make up for one that counts twice."""

    def execute(self, tup: Tuple) -> None:
        key = f"sum {tup['word']}"
        self.state.put(key, self.state.get(key, 0) + tup["number"])
        if tup["kind"] == RAISES_LATE:
            raise ValueError(tup["number"])
        self.count(tup["word"])
        self.collector.ack(tup)


def files_conf(folder: str) -> dict[str, Any]:
    """Return what the job finds in its configuration: text files in a folder, one for each wave."""
    return {OWN: {"folder": folder}}


def stream_conf(server: RedisServer) -> dict[str, Any]:
    """Return what the job finds in its configuration: a stream of a server."""
    return {OWN: {"host": server.host, "port": server.port}}


def _spout(own: Mapping[str, Any]) -> Spout:
    if "folder" not in own:
        return RedisStreamsSpout(STREAM, ["row"], group=GROUP, host=own["host"], port=own["port"])
    return StreamSpout(lambda session: session.readStream.option("maxFilesPerTrigger", 1).text(own["folder"]), ["row"])


def topology(conf: Mapping[str, Any]) -> Topology:
    builder, own = TopologyBuilder(), conf[OWN]
    spout = _spout(own)
    builder.set_spout(ROWS, spout, TASKS if isinstance(spout, RedisStreamsSpout) else None)
    builder.set_bolt("checks", Checks(), TASKS).shuffle_grouping(ROWS)
    builder.set_bolt("count", Counts(), TASKS).fields_grouping("checks", "word")
    return builder.create_topology(NAME)


if __name__ == "__main__":
    run_job(sys.argv[1], topology, ROWS)
