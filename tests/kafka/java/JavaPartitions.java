import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/**
 * Says where Kafka's own producer puts keys, by the function that it calls itself. Arguments: counts=1,7 (of
 * partitions). Each line of its standard input is a key in base64; each line of the answer has a partition per count.
 */
public final class JavaPartitions {
    private JavaPartitions() {}

    public static void main(String[] arguments) throws Exception {
        String[] counts = new Options(arguments).text("counts").split(",");
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = keys.readLine(); line != null; line = keys.readLine()) {
            byte[] key = Base64.getDecoder().decode(line);
            for (int i = 0; i < counts.length; i++) {
                out.append(i == 0 ? "" : " ");
                out.append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(counts[i])));
            }
            out.append('\n');
        }
        System.out.print(out);
        System.out.flush();
    }
}
