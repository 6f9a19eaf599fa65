import java.io.PrintStream;
import java.util.*;
import org.apache.storm.hbase.state.HBaseKeyValueStateProvider;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.state.KeyValueState;

/**
 * Writes or reads states with Storm's own HBaseKeyValueStateProvider, as a topology does. The arguments are the port of
 * ZooKeeper, a table, its column family, and
 *
 * - "write": a task of 2000 committed words that was killed in the commit of the next transaction;
 * - "read" and namespaces: print each entry as [namespace, key, value], found by the iterator and again by get;
 * - "count" and a namespace: commit transaction 5, which is open, and 6 with one new key.
 */
public class HBaseState {
    public static void main(String[] arguments) throws Exception {
        List<String> given = Arrays.asList(arguments);
        if (given.get(3).equals("write")) {
            KeyValueState<Object, Object> words = state(given, "count-3");
            for (long number = 0; number < 2000; number++) words.put("word-" + number, number);
            words.prepareCommit(1);
            words.commit(1);
            words.put("word-1", 1000L);
            words.put("new", 7L);
            words.delete("word-2");
            words.prepareCommit(2);
            KeyValueState<Object, Object> spout = state(given, "$checkpointspout-1");
            spout.put("__state", new CheckPointState(2, CheckPointState.State.COMMITTING));
            spout.commit();
        } else if (given.get(3).equals("count")) {
            KeyValueState<Object, Object> words = state(given, given.get(4));
            words.commit(5);
            words.put("new", 7L);
            words.prepareCommit(6);
            words.commit(6);
        } else {
            PrintStream out = new PrintStream(System.out, true, "UTF-8");
            for (String namespace : given.subList(4, given.size())) {
                KeyValueState<Object, Object> state = state(given, namespace);
                for (Map.Entry<Object, Object> entry : state) {
                    String[] row = {namespace, entry.getKey().toString(), state.get(entry.getKey()).toString()};
                    StringJoiner quoted = new StringJoiner(", ", "[", "]");
                    for (String part : row) quoted.add(KryoForms.quoted(part));
                    out.println(quoted);
                }
            }
        }
        System.exit(0);  // the client of HBase has threads
    }

    @SuppressWarnings("unchecked")
    static KeyValueState<Object, Object> state(List<String> given, String namespace) throws Exception {
        Map<String, Object> hbase = new HashMap<>(), conf = new HashMap<>();
        hbase.put("hbase.zookeeper.quorum", "127.0.0.1");
        hbase.put("hbase.zookeeper.property.clientPort", given.get(0));
        conf.put("hbase", hbase);
        conf.put("topology.state.provider.config", "{\"hbaseConfigKey\": \"hbase\", \"tableName\": \"" + given.get(1)
            + "\", \"columnFamily\": \"" + given.get(2) + "\"}");
        return (KeyValueState<Object, Object>) new HBaseKeyValueStateProvider().newState(namespace, conf, null);
    }
}
