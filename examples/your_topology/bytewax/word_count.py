from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow


def add_one(count, _word):
    count = (count or 0) + 1
    return count, count


def dataflow(source, sink):
    flow = Dataflow("word-count")
    sentences = op.input("sentences", flow, FileSource(Path(source)))
    words = op.flat_map("split", sentences, str.split)
    keyed = op.key_on("by-word", words, str)
    counts = op.stateful_map("count", keyed, add_one)
    lines = op.map("lines", counts, lambda item: (item[0], f"{item[0]} {item[1]}"))
    op.output("out", lines, FileSink(Path(sink)))
    return flow
