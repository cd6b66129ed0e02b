// Hashes keys with Kafka's own classes:
//
//   java -cp kafka-clients-4.3.0.jar:slf4j-api-1.7.36.jar Murmur2.java > murmur2.txt
//
// A line per key: the key in hex, its hash, and the partition that Java's producer gives it of 1, 3, 12 and 1000.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

public class Murmur2 {
    static byte[] filled(int length, int value) {
        byte[] key = new byte[length];
        Arrays.fill(key, (byte) value);
        return key;
    }

    static byte[] four(int key) {
        return ByteBuffer.allocate(4).putInt(key).array();
    }

    // Of keys of four bytes exactly one has a given hash.
    static byte[] hashing(int hash) {
        return four(IntStream.rangeClosed(Integer.MIN_VALUE, Integer.MAX_VALUE).parallel()
            .filter(key -> Utils.murmur2(four(key)) == hash).findAny().getAsInt());
    }

    static void print(byte[] key) {
        StringBuilder line = new StringBuilder("x" + HexFormat.of().formatHex(key) + " " + Utils.murmur2(key));
        for (int partitions : new int[] {1, 3, 12, 1000}) {
            line.append(' ').append(BuiltInPartitioner.partitionForKey(key, partitions));
        }
        System.out.println(line);
    }

    public static void main(String[] args) {
        for (int hash : new int[] {Integer.MIN_VALUE, Integer.MIN_VALUE + 1, -1, 0, 1, Integer.MAX_VALUE}) {
            print(hashing(hash));
        }
        print(new byte[0]);
        Random random = new Random(42);
        for (int length = 1; length <= 12; length++) {
            for (int value : new int[] {0, 1, 0x7f, 0x80, 0xff}) {
                print(filled(length, value));
            }
            for (int i = 0; i < 4; i++) {
                byte[] key = new byte[length];
                random.nextBytes(key);
                print(key);
            }
        }
        for (String key : new String[] {"21", "foobar", "a-little-bit-long-string", "a-little-bit-longer-string",
            "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "user-1", "Grüße", "ключ", "鍵", "3f2b6c1e-9d0a-4a57-8f43-1c2d3e4f5a6b"}) {
            print(key.getBytes(StandardCharsets.UTF_8));
        }
    }
}
