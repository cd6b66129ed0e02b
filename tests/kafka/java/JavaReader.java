import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its start to the ends that it has at the beginning, and says what is in it. Arguments: topic=,
 * seconds=120 (to be done), kafka.NAME=VALUE, and what=:
 *
 * records: a JSON line for each, with base64 of its bytes; of a value longer than 4096 bytes its SHA-256.
 * sequence: the values start with an index of 8 bytes, dealt out in turn as load.fill does; a line for each partition:
 *   how many records it has, how many distinct ones, how often an index was not above the one before it, the first
 *   that are missing or came twice (at most 10 of each), and how many do not belong there.
 */
public final class JavaReader {
    private JavaReader() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        options.kafka.put("enable.auto.commit", "false");
        options.kafka.putIfAbsent("max.poll.records", "5000");
        options.kafka.putIfAbsent("max.partition.fetch.bytes", Integer.toString(4 << 20));
        String topic = options.text("topic");
        boolean whole = options.text("what").equals("records");
        long deadline = System.nanoTime() + options.number("seconds", 120) * 1_000_000_000L;
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options.kafka, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<Integer, Sequence> sequences = new HashMap<>();
            for (TopicPartition partition : partitions) {
                sequences.put(partition.partition(), new Sequence(partition.partition(), partitions.size()));
            }
            while (!reached(consumer, ends)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not at the ends " + ends + " in time");
                }
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    if (whole) {
                        System.out.println(line(record));
                    } else {
                        sequences.get(record.partition()).take(record.value());
                    }
                }
            }
            if (!whole) {
                for (Sequence sequence : sequences.values()) {
                    System.out.println(sequence.line());
                }
            }
        }
        System.out.println("{\"done\": true}");
        System.out.flush();
    }

    private static boolean reached(KafkaConsumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        for (Map.Entry<TopicPartition, Long> end : ends.entrySet()) {
            if (consumer.position(end.getKey()) < end.getValue()) {
                return false;
            }
        }
        return true;
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) throws Exception {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.length() == 0 ? "" : ", ");
            byte[] key = header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8);
            headers.append("[" + base64(key) + ", " + base64(header.value()) + "]");
        }
        return "{\"partition\": " + record.partition() + ", \"offset\": " + record.offset() + ", \"timestamp\": "
            + record.timestamp() + ", \"key\": " + base64(record.key()) + ", " + value(record.value())
            + ", \"headers\": [" + headers + "]}";
    }

    private static String value(byte[] value) throws Exception {
        if (value == null || value.length <= 4096) {
            return "\"value\": " + base64(value);
        }
        return "\"sha256\": " + base64(MessageDigest.getInstance("SHA-256").digest(value));
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
    }

    /** What one partition must hold: index, index + step, index + 2 * step ... each once and in this order. */
    private static final class Sequence {
        private final int first;
        private final int step;
        private final BitSet seen = new BitSet();
        private final List<Long> twice = new ArrayList<>();
        private long count;
        private long falls;
        private long strays;
        private long last = -1;

        Sequence(int first, int step) {
            this.first = first;
            this.step = step;
        }

        void take(byte[] value) {
            count++;
            long index = ByteBuffer.wrap(value).getLong();
            long place = (index - first) / step;
            if ((index - first) % step != 0 || place < 0 || place > Integer.MAX_VALUE) {
                strays++;
                return;
            }
            if (place <= last) {
                falls++;
            }
            last = place;
            if (seen.get((int) place) && twice.size() < 10) {
                twice.add(index);
            }
            seen.set((int) place);
        }

        String line() {
            List<Long> missing = new ArrayList<>();
            for (int at = seen.nextClearBit(0); at < seen.length() && missing.size() < 10; at = seen.nextClearBit(at + 1)) {
                missing.add(first + (long) at * step);
            }
            return "{\"partition\": " + first + ", \"count\": " + count + ", \"distinct\": " + seen.cardinality()
                + ", \"falls\": " + falls + ", \"strays\": " + strays + ", \"twice\": " + twice + ", \"missing\": "
                + missing + "}";
        }
    }
}
