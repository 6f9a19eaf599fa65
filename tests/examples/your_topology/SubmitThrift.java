import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.utils.Utils;

/** Submits the Thrift structure that streamparse made of a topology, as `sparse submit` does. Takes: file key=value… */
public class SubmitThrift {
    public static void main(String[] args) throws Exception {
        StormTopology topology = Utils.thriftDeserialize(StormTopology.class, Files.readAllBytes(Path.of(args[0])));
        Map<String, Object> conf = new HashMap<>();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.put(pair[0], pair[1]);
        }
        StormSubmitter.submitTopology("word-count", conf, topology);
    }
}
