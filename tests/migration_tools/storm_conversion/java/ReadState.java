import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.storm.redis.state.RedisKeyValueStateProvider;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.state.Serializer;
import redis.clients.jedis.Jedis;

/**
 * Reads states with Storm's own RedisKeyValueStateProvider, as a topology does, and prints them: one line of JSON for
 * each line of standard input, which names a namespace, its keyClass and its valueClass, between tabs.
 *
 * The arguments are the port of Redis, and "text" for the releases that keep Base64 text. The keys are those in Redis,
 * decoded by Storm. Each is then looked up by `get`, for which Storm encodes it again.
 */
public class ReadState {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        boolean text = arguments.length > 1;
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Jedis jedis = new Jedis("127.0.0.1", port)) {
            for (String line; (line = in.readLine()) != null;) {
                String[] parts = line.split("\t", -1);
                out.println("{\"namespace\": " + KryoForms.quoted(parts[0]) + ", \"entries\": "
                    + entries(jedis, port, text, parts[0], parts[1], parts[2]) + "}");
            }
        }
        System.exit(0);  // the pools of connections have threads
    }

    static List<String> entries(Jedis jedis, int port, boolean text, String namespace, String keyClass,
            String valueClass) throws Exception {
        String pool = "\"jedisPoolConfig\": {\"host\": \"127.0.0.1\", \"port\": " + port
            + ", \"timeout\": 10000, \"database\": 0, \"password\": null}";
        String classes = (keyClass.isEmpty() ? "" : ", \"keyClass\": \"" + keyClass + "\"")
            + (valueClass.isEmpty() ? "" : ", \"valueClass\": \"" + valueClass + "\"");
        Map<String, Object> conf = new HashMap<>();
        conf.put("topology.state.provider.config", "{" + pool + classes + "}");
        @SuppressWarnings("unchecked")
        KeyValueState<Object, Object> state =
            (KeyValueState<Object, Object>) new RedisKeyValueStateProvider().newState(namespace, conf, null);
        Serializer<?> serializer = serializer(state);
        List<String> entries = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        for (String name : new String[] {namespace, namespace + "$prepare"}) {
            for (byte[] field : jedis.hkeys(name.getBytes(StandardCharsets.UTF_8))) {
                if (!seen.add(new String(field, StandardCharsets.ISO_8859_1))) continue;
                Object key = serializer.deserialize(text ? Base64.getMimeDecoder().decode(field) : field);
                entries.add("[" + form(key) + ", " + form(state.get(key)) + "]");
            }
        }
        return entries;
    }

    /** The serializer of the keys: of the state in Storm 1.0, later of its encoder. */
    static Serializer<?> serializer(Object state) throws Exception {
        try {
            return (Serializer<?>) field(state, "keySerializer");
        } catch (NoSuchFieldException later) {
            return (Serializer<?>) field(field(state, "encoder"), "keySerializer");
        }
    }

    static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    static String form(Object value) {
        if (value instanceof CheckPointState) {
            CheckPointState state = (CheckPointState) value;
            return "{\"t\": \"checkpointstate\", \"txid\": \"" + state.getTxid() + "\", \"state\": \""
                + state.getState() + "\"}";
        }
        return KryoForms.form(value, new ArrayList<>());
    }
}
