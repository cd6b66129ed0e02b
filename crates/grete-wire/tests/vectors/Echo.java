// Reads "Name version hex" lines, decodes each message with Kafka's own classes, encodes it again, and compares. Prints at
// the end how many were equal, or which were not. Run by the test `kafkas_own_classes_echo_every_message`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Echo {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder wrong = new StringBuilder();
        int equal = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                echo(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2]));
                equal++;
            } catch (Exception e) {
                wrong.append(words[0]).append(' ').append(words[1]).append(": ").append(e).append('\n');
            }
        }
        System.out.println(wrong.isEmpty() ? equal + " equal" : wrong);
    }

    static void echo(String name, short version, byte[] bytes) throws Exception {
        String suffix = name.startsWith("ConsumerProtocol") ? "" : "Data";
        Message message = (Message) Class.forName("org.apache.kafka.common.message." + name + suffix).getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new Exception(buffer.remaining() + " bytes were not read");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(again), cache, version);
        if (!Arrays.equals(again.array(), bytes)) {
            throw new Exception("Kafka writes " + HexFormat.of().formatHex(again.array()));
        }
    }
}
