import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.io.Output;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DayOfWeek;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import org.objenesis.strategy.InstantiatorStrategy;
import org.objenesis.strategy.StdInstantiatorStrategy;

/**
 * Writes what Kryo, configured as Storm 2 does it outside of a topology, makes of more values than the fixtures beside
 * the repository have, and what they are: one line of JSON each, on standard output. README.md says how it was run.
 */
public class KryoForms {
    enum Colour { RED, GREEN, BLUE }

    enum Body { ONE { int f() { return 1; } }, TWO; int f() { return 0; } }

    static class Count { int count = 4; }

    static Kryo kryo() throws Exception {
        Kryo kryo = new Kryo();
        kryo.setRegistrationRequired(false);
        Class<?> strategy;
        try {
            strategy = Class.forName("com.esotericsoftware.kryo.util.DefaultInstantiatorStrategy");
        } catch (ClassNotFoundException kryo4) {
            strategy = Class.forName("com.esotericsoftware.kryo.Kryo$DefaultInstantiatorStrategy");
        }
        kryo.setInstantiatorStrategy((InstantiatorStrategy)
            strategy.getConstructor(InstantiatorStrategy.class).newInstance(new StdInstantiatorStrategy()));
        kryo.register(Optional.class);
        return kryo;
    }

    static void write(String name, Object value) throws Exception {
        Output output = new Output(2000, 2_000_000);
        kryo().writeClassAndObject(output, value);
        StringBuilder hex = new StringBuilder();
        for (byte each : output.toBytes()) hex.append(String.format("%02x", each));
        System.out.println("{\"name\": " + quoted(name) + ", \"bytes\": \"" + hex + "\", \"form\": "
            + form(value, new ArrayList<>()) + "}");
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : "" + c);
        }
        return out.append('"').toString();
    }

    static String form(Object value, List<Object> inside) {
        for (Object outer : inside) if (outer == value) return "{\"t\": \"cycle\"}";
        List<Object> path = new ArrayList<>(inside);
        if (value == null) return "{\"t\": \"null\"}";
        String name = value.getClass().getName();
        String named = "\"class\": " + quoted(name);
        if (value instanceof String) return "{\"t\": \"string\", \"v\": " + quoted((String) value) + "}";
        if (value instanceof StringBuilder || value instanceof StringBuffer)
            return "{\"t\": \"string\", " + named + ", \"v\": " + quoted(value.toString()) + "}";
        if (value instanceof Integer) return "{\"t\": \"int\", \"v\": \"" + value + "\"}";
        if (value instanceof Long || value instanceof Short || value instanceof Byte)
            return "{\"t\": \"" + name.substring(10).toLowerCase() + "\", \"v\": \"" + value + "\"}";
        if (value instanceof Double) return "{\"t\": \"double\", \"v\": \"" + value + "\", \"bits\": \""
            + String.format("%016x", Double.doubleToRawLongBits((Double) value)) + "\"}";
        if (value instanceof Float) return "{\"t\": \"float\", \"v\": \"" + value + "\", \"bits\": \""
            + String.format("%08x", Float.floatToRawIntBits((Float) value)) + "\"}";
        if (value instanceof Boolean) return "{\"t\": \"boolean\", \"v\": " + value + "}";
        if (value instanceof Character) return "{\"t\": \"char\", \"v\": " + quoted("" + value) + ", \"code\": "
            + (int) (Character) value + "}";
        if (value instanceof byte[]) return "{\"t\": \"bytes\", \"v\": \""
            + Base64.getEncoder().encodeToString((byte[]) value) + "\"}";
        if (value instanceof BigInteger) return "{\"t\": \"biginteger\", \"v\": \"" + value + "\"}";
        if (value instanceof BigDecimal) return "{\"t\": \"bigdecimal\", \"v\": \"" + value + "\", \"unscaled\": \""
            + ((BigDecimal) value).unscaledValue() + "\", \"scale\": " + ((BigDecimal) value).scale() + "}";
        if (value.getClass() == Date.class) return "{\"t\": \"date\", \"v\": \"" + ((Date) value).getTime() + "\"}";
        if (value instanceof UUID) return "{\"t\": \"uuid\", \"v\": \"" + value + "\"}";
        if (value instanceof Enum) return "{\"t\": \"enum\", " + named + ", \"v\": " + quoted(((Enum<?>) value).name())
            + ", \"ordinal\": " + ((Enum<?>) value).ordinal() + "}";
        path.add(value);
        List<String> forms = new ArrayList<>();
        if (value instanceof Optional) {
            Object held = ((Optional<?>) value).orElse(null);
            return "{\"t\": \"optional\", \"v\": " + form(held, path) + ", \"present\": " + (held != null) + "}";
        }
        if (value instanceof Map) {
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet())
                forms.add("[" + form(each.getKey(), path) + ", " + form(each.getValue(), path) + "]");
            return "{\"t\": \"map\", " + named + ", \"v\": " + forms + "}";
        }
        if (value instanceof Collection) {
            for (Object each : (Collection<?>) value) forms.add(form(each, path));
            return "{\"t\": \"" + (value instanceof Set ? "set" : "list") + "\", " + named + ", \"v\": " + forms + "}";
        }
        if (value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) forms.add(form(Array.get(value, i), path));
            return "{\"t\": \"array\", " + named + ", \"v\": " + forms + "}";
        }
        return "{\"t\": \"object\", " + named + "}";
    }

    static <T extends Collection<Object>> T add(T into, Object... values) {
        into.addAll(Arrays.asList(values));
        return into;
    }

    static List<Object> list(Object... values) {
        return add(new ArrayList<>(), values);
    }

    static <T extends Map<Object, Object>> T put(T into, Object... pairs) {
        for (int i = 0; i < pairs.length; i += 2) into.put(pairs[i], pairs[i + 1]);
        return into;
    }

    public static void main(String[] arguments) throws Exception {
        boolean references = arguments[0].equals("4");
        Comparator<Object> reverse = Collections.reverseOrder();
        write("ArrayDeque", add(new ArrayDeque<>(), "a", 1));
        write("Vector", add(new Vector<>(), "a", 1));
        write("Stack", add(new Stack<>(), "a", 1));
        write("LinkedList", add(new LinkedList<>(), "a", null, 1));
        write("LinkedHashSet", add(new LinkedHashSet<>(), "a", "b"));
        write("TreeSet", add(new TreeSet<>(), "a", "b"));
        write("TreeSet, empty", new TreeSet<>());
        write("TreeSet, reverse", add(new TreeSet<>(reverse), 1, 2));
        write("TreeSet, without case", add(new TreeSet(String.CASE_INSENSITIVE_ORDER), "x"));
        write("TreeSet, natural", add(new TreeSet(Comparator.naturalOrder()), "x"));
        write("two TreeSets, reverse", list(add(new TreeSet<>(reverse), 1, 2), add(new TreeSet<>(reverse), 3)));
        write("TreeMap", put(new TreeMap<>(), "a", 1, "b", 2L));
        write("TreeMap, empty", new TreeMap<>());
        write("TreeMap, reverse", put(new TreeMap<>(reverse), "a", 1));
        write("LinkedHashMap", put(new LinkedHashMap<>(), "a", 1, null, null, 2L, list("x")));
        write("Hashtable", put(new Hashtable<>(), "a", 1));
        write("ConcurrentHashMap", put(new ConcurrentHashMap<>(), "a", 1));
        write("ConcurrentSkipListMap", put(new ConcurrentSkipListMap<>(), "a", 1));
        write("ConcurrentSkipListSet", add(new ConcurrentSkipListSet<>(), "a"));
        write("IdentityHashMap", put(new IdentityHashMap<>(), "a", 1));
        write("WeakHashMap", put(new WeakHashMap<>(), "a", 1));
        write("Properties", put(new Properties(), "a", "b"));
        write("CopyOnWriteArrayList", add(new CopyOnWriteArrayList<>(), "a", 1));
        write("CopyOnWriteArraySet", add(new CopyOnWriteArraySet<>(), "a", 1));
        write("ConcurrentLinkedQueue", add(new ConcurrentLinkedQueue<>(), "a", 1));
        write("ConcurrentLinkedDeque", add(new ConcurrentLinkedDeque<>(), "a", 1));
        write("LinkedBlockingQueue", add(new LinkedBlockingQueue<>(), "a", 1));
        write("LinkedBlockingDeque", add(new LinkedBlockingDeque<>(), "a", 1));
        write("ArrayBlockingQueue", add(new ArrayBlockingQueue<>(4), "a", 1));
        write("PriorityQueue", add(new PriorityQueue<>(), 3, 1, 2));
        write("PriorityQueue, empty", new PriorityQueue<>());
        write("PriorityQueue, reverse", add(new PriorityQueue<>(reverse), 3, 1));
        write("PriorityBlockingQueue", add(new PriorityBlockingQueue<>(), 3, 1));
        write("Arrays.asList", Arrays.asList("a", 1));
        write("Arrays.asList of one class", Arrays.asList("a", "b"));
        write("emptyList", Collections.emptyList());
        write("emptyMap", Collections.emptyMap());
        write("emptySet", Collections.emptySet());
        write("singletonList", Collections.singletonList("a"));
        write("singleton", Collections.singleton(5L));
        write("singletonMap", Collections.singletonMap("k", 1));
        write("unmodifiableList", Collections.unmodifiableList(list("a", 1)));
        write("unmodifiableList of a LinkedList", Collections.unmodifiableList(add(new LinkedList<>(), "a", 1)));
        write("unmodifiableSet", Collections.unmodifiableSet(add(new HashSet<>(), "a")));
        write("unmodifiableMap", Collections.unmodifiableMap(put(new HashMap<>(), "a", 1)));
        write("synchronizedList", Collections.synchronizedList(list("a", 1)));
        write("synchronizedList of a LinkedList", Collections.synchronizedList(add(new LinkedList<>(), "a", 1)));
        write("synchronizedSet", Collections.synchronizedSet(add(new HashSet<>(), "a", 1)));
        write("synchronizedMap", Collections.synchronizedMap(put(new HashMap<>(), "a", 1)));
        write("nCopies", Collections.nCopies(3, "a"));
        write("newSetFromMap", add(Collections.newSetFromMap(new HashMap<>()), "a"));
        write("newKeySet", add(ConcurrentHashMap.newKeySet(), "a"));
        write("subList", new ArrayList<>(Arrays.asList(1, 2, 3)).subList(0, 2));
        write("List.of, none", List.of());
        write("List.of, one", List.of("a"));
        write("List.of, two classes", List.of("a", 1));
        write("List.of, three", List.of("a", "b", "c"));
        write("List.of, subList", List.of(1, 2, 3).subList(0, 2));
        write("Set.of, none", Set.of());
        write("Set.of, one", Set.of("a"));
        write("Set.of, three", Set.of("a", 1, 2L));
        write("Map.of, none", Map.of());
        write("Map.of, one", Map.of("a", 1));
        write("Map.of, two", Map.of("a", 1, "b", 2));
        write("EnumSet", EnumSet.of(Colour.RED, Colour.BLUE));
        write("EnumSet, empty", EnumSet.noneOf(Colour.class));
        EnumMap<Colour, Object> byColour = new EnumMap<>(Colour.class);
        byColour.put(Colour.GREEN, "g");
        byColour.put(Colour.BLUE, null);
        write("EnumMap", byColour);
        write("enum", Colour.BLUE);
        write("enum, constant with a body", Body.ONE);
        write("enum, constant without one", Body.TWO);
        write("enum, list", list(Colour.BLUE, Colour.BLUE, Colour.RED));
        write("enum, list with null", list(Colour.BLUE, null));
        write("DayOfWeek", DayOfWeek.MONDAY);
        write("DayOfWeek[]", new DayOfWeek[] {DayOfWeek.SUNDAY, null, DayOfWeek.SUNDAY});
        write("TimeUnit", TimeUnit.SECONDS);
        write("UUID", new UUID(1, -2));
        write("UUID, list", list(new UUID(1, 2), new UUID(Long.MIN_VALUE, Long.MAX_VALUE)));
        write("UUID, list with null", list(new UUID(1, 2), null));
        write("UUID[]", new UUID[] {new UUID(1, 2), null});
        write("Optional", Optional.of("x"));
        write("Optional, empty", Optional.empty());
        write("Optional, list", list(Optional.of("x"), Optional.of(1), Optional.empty()));
        write("Optional, list with null", list(Optional.of("x"), null));
        write("Optional[]", new Optional[] {Optional.of("x"), null});
        write("Optional of Optional of a list", Optional.of(Optional.of(list(1, 2))));
        write("StringBuilder", new StringBuilder("hello"));
        write("StringBuilder, empty", new StringBuilder(""));
        write("StringBuilder, list with null", list(new StringBuilder("a"), null));
        write("StringBuffer", new StringBuffer("h\u00e9llo"));
        write("int[]", new int[] {1, -1, 300, Integer.MIN_VALUE});
        write("long[]", new long[] {1, -1, 1L << 40, Long.MIN_VALUE});
        write("short[]", new short[] {1, -2, 258});
        write("char[]", new char[] {'a', '\u65e5', '\0'});
        write("double[]", new double[] {1.5, -0.0, Double.NaN, 1e21, 0.001, 1.0E-5});
        write("float[]", new float[] {1.5f, Float.MIN_VALUE, 3.4028235e38f, 16777216f});
        write("boolean[]", new boolean[] {true, false});
        write("byte[]", new byte[] {1, -2});
        write("Integer[]", new Integer[] {1, null, -5});
        write("Long[]", new Long[] {1L, null});
        write("Double[]", new Double[] {1.5, null});
        write("Boolean[]", new Boolean[] {true, null});
        write("Character[]", new Character[] {'a', null});
        write("Byte[]", new Byte[] {1, null});
        write("Short[]", new Short[] {1, null});
        write("Float[]", new Float[] {1f, null});
        write("Object[]", new Object[] {"a", 1, null, new int[] {1}});
        write("Number[]", new Number[] {1, 2L, null});
        write("List[]", new List[] {list("a"), null});
        write("ArrayList[]", new ArrayList[] {new ArrayList<>(list("a")), null});
        write("Comparable[]", new Comparable[] {"a", 1});
        write("Date[]", new Date[] {new Date(5), null});
        write("BigInteger[]", new BigInteger[] {BigInteger.TEN, null});
        write("BigDecimal[]", new BigDecimal[] {BigDecimal.TEN, null});
        write("Map[]", new Map[] {put(new HashMap<>(), "a", 1)});
        write("int[][]", new int[][] {{1, 2}, null, {}});
        write("String[][]", new String[][] {{"a", "b"}, null, {null}});
        write("Object[][]", new Object[][] {{"a", 1}, null});
        write("List[][]", new List[][] {{list("a")}, null});
        write("byte[][]", new byte[][] {{1}, null});
        write("Integer[][]", new Integer[][] {{1, null}, null});
        write("int[][][]", new int[][][] {{{1}}});
        int[] shared = {1, 2};
        write("one array twice in an Object[]", new Object[] {shared, shared});
        write("one array twice in an int[][]", new int[][] {shared, shared});
        String text = "shared";
        write("one string twice in a String[]", new String[] {text, text, "other"});
        write("one enum twice in a map", put(new LinkedHashMap<>(), Colour.RED, Colour.RED));
        List<Object> inner = list("in", 1);
        write("one list in a list, a map and itself", list(inner, put(new HashMap<>(), "k", inner), list(inner)));
        for (Object each : new Object[] {"a", 1, 1L, true, 'a', 1.5, 1.5f, (short) 1, (byte) 1, new Date(5),
                BigInteger.ONE, BigDecimal.ONE, new byte[] {1}, new Object[] {1}, new String[] {"a"}, list(1),
                put(new HashMap<>(), 1, 2), add(new TreeSet<>(), 1), put(new TreeMap<>(), 1, 2),
                Collections.emptyList(), Collections.singletonList(1), Collections.singleton(1),
                Collections.singletonMap(1, 2), Arrays.asList(1), add(new PriorityQueue<>(), 1), List.of(1), Set.of(1),
                Map.of(1, 2), EnumSet.of(Colour.RED), byColour}) {
            write("list of " + each.getClass().getSimpleName() + " and null", list(each, null));
            write("list of " + each.getClass().getSimpleName() + " twice", list(each, each));
        }
        write("list of nulls", list(null, null));
        write("list of lists of different lengths", list(list(), list(1), list(1, "a", null), list((Object) null)));
        write("a string of 70", "x".repeat(70));
        write("a string of 300, not ASCII", "\u00e9".repeat(300));
        write("NUL", "\0");
        write("beyond the BMP", "\ud83d\ude00");
        write("a lone surrogate", "a\ud800b");
        write("BigInteger, 0", BigInteger.ZERO);
        write("BigInteger, large", BigInteger.TWO.pow(4000).negate());
        write("BigDecimal, 0.00", new BigDecimal("0.00"));
        write("BigDecimal, 0E+5", new BigDecimal("0E+5"));
        write("BigDecimal, 1E-10", new BigDecimal("1E-10"));
        write("Date before 1970", new Date(-1));
        write("Date far away", new Date(Long.MAX_VALUE));
        if (references) {
            Object[] array = {null, "x"};
            array[0] = array;
            write("an array in itself", array);
            List<Object> cyclic = list("a");
            cyclic.add(cyclic);
            write("a list in itself", cyclic);
            Map<Object, Object> map = new HashMap<>();
            map.put("self", list(map));
            write("a map in a list in itself", map);
        }
        write("unsupported: a class with one int", new Count());
        write("unsupported: a list of such", list(1, new Count()));
        write("unsupported: a map to such", put(new HashMap<>(), "k", new Count()));
        write("unsupported: an array of such", new Count[] {new Count()});
        write("unsupported: an array of an enum", new Colour[] {Colour.RED});
        write("unsupported: AtomicLong", new AtomicLong(7));
        write("unsupported: BitSet", BitSet.valueOf(new long[] {5}));
        write("unsupported: Locale", Locale.GERMANY);
        write("unsupported: Timestamp", new java.sql.Timestamp(5));
        write("unsupported: SimpleEntry", new AbstractMap.SimpleEntry<>("a", 1));
    }
}
