import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

public class WordCount {
    public static class Sentences extends BaseRichSpout {
        private SpoutOutputCollector collector;
        private BufferedReader lines;
        private long number;
        private final Map<Object, String> pending = new HashMap<>();

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
            try {
                lines = Files.newBufferedReader(Path.of((String) conf.get("word_count.input")));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void nextTuple() {
            try {
                String line = lines.readLine();
                if (line != null) {
                    pending.put(number, line);
                    collector.emit(new Values(line), number++);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void ack(Object id) {
            pending.remove(id);
        }

        @Override
        public void fail(Object id) {
            collector.emit(new Values(pending.get(id)), id);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("sentence"));
        }
    }

    public static class SplitSentence extends BaseBasicBolt {
        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            for (String word : tuple.getStringByField("sentence").split(" ")) {
                collector.emit(new Values(word));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    public static class CountWords extends BaseStatefulBolt<KeyValueState<String, Long>> {
        private OutputCollector collector;
        private KeyValueState<String, Long> counts;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void initState(KeyValueState<String, Long> state) {
            counts = state;
        }

        @Override
        public void execute(Tuple tuple) {
            String word = tuple.getStringByField("word");
            long count = counts.get(word, 0L) + 1;
            counts.put(word, count);
            collector.emit(tuple, new Values(word, count));
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "count"));
        }
    }

    public static class Output extends BaseBasicBolt {
        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            System.out.println(tuple.getStringByField("word") + " " + tuple.getLongByField("count"));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }

    public static void main(String[] args) throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new Sentences());
        builder.setBolt("split", new SplitSentence(), 2).shuffleGrouping("sentences");
        builder.setBolt("count", new CountWords(), 2).fieldsGrouping("split", new Fields("word"));
        builder.setBolt("out", new Output()).globalGrouping("count");

        Config conf = new Config();
        conf.put("word_count.input", args[0]);
        conf.put(Config.TOPOLOGY_STATE_PROVIDER, "org.apache.storm.redis.state.RedisKeyValueStateProvider");
        conf.put(Config.TOPOLOGY_STATE_PROVIDER_CONFIG,
            "{\"jedisPoolConfig\": {\"host\": \"localhost\", \"port\": " + args[1] + "}}");
        conf.put(Config.TOPOLOGY_STATE_CHECKPOINT_INTERVAL, 1000);
        StormSubmitter.submitTopology("word-count", conf, builder.createTopology());
    }
}
