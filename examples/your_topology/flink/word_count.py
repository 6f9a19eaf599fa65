import sys

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.state import ValueStateDescriptor


class CountWords(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, word, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{word} {count}"


def main(source, sink, checkpoints):
    conf = Configuration()
    conf.set_string("state.backend.type", "rocksdb")
    conf.set_string("execution.checkpointing.interval", "1s")
    conf.set_string("execution.checkpointing.dir", checkpoints)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    env.set_parallelism(2)
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source)
    sentences = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), "sentences")
    words = sentences.flat_map(str.split, output_type=Types.STRING()).name("split")
    counts = words.key_by(str).process(CountWords(), output_type=Types.STRING()).name("count")
    out = FileSink.for_row_format(sink, Encoder.simple_string_encoder())
    counts.sink_to(out.build()).name("out")
    env.execute("word-count")


if __name__ == "__main__":
    main(*sys.argv[1:])
