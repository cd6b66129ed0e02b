import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A paced topic: Rate BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS. */
final class Rate {
    private final long[] sequences;
    private final long[] latencies;
    private final int[] numbers;
    private int count;

    private Rate(int room) {
        sequences = new long[room];
        latencies = new long[room];
        numbers = new int[room];
    }

    /** The state at a window's boundary. */
    private record Mark(long wall, double cpu, int count) {}

    public static void main(String[] words) throws Exception {
        double warmUp = Double.parseDouble(words[3]);
        int windows = Integer.parseInt(words[4]);
        double seconds = Double.parseDouble(words[5]);
        Rate rate = new Rate((int) (Integer.parseInt(words[2]) * (warmUp + windows * seconds + 10)));
        Mark[] marks = new Mark[windows + 2];
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Bench.settings(words[0]))) {
            List<TopicPartition> partition = List.of(new TopicPartition(words[1], 0));
            consumer.assign(partition);
            consumer.seekToBeginning(partition);
            marks[0] = rate.mark();
            for (int window = 0; window <= windows; window++) {
                rate.poll(consumer, window == 0 ? warmUp : seconds);
                marks[window + 1] = rate.mark();
            }
        }
        // All reckoning is done after the last window, when nothing is measured.
        StringJoiner reports = new StringJoiner(", ");
        for (int window = 1; window <= windows; window++) {
            reports.add(rate.report(marks[window], marks[window + 1]));
        }
        System.out.printf("{\"windows\": [%s], \"peak_rss\": %d, \"version\": \"%s\"}%n",
                reports, Bench.peakRss(), Bench.version());
    }

    private Mark mark() {
        return new Mark(System.nanoTime(), Bench.cpuSeconds(), count);
    }

    private void poll(KafkaConsumer<byte[], byte[]> consumer, double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                handle(record.value());
            }
        }
    }

    private void handle(byte[] value) {
        ByteBuffer fields = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
        Instant now = Instant.now();
        sequences[count] = fields.getLong(0);
        latencies[count] = now.getEpochSecond() * 1_000_000_000L + now.getNano() - fields.getLong(8);
        numbers[count] = fields.getInt(16);
        count++;
    }

    private String report(Mark before, Mark after) {
        int wrong = 0;
        for (int at = before.count; at < after.count; at++) {
            boolean gap = at > before.count && sequences[at] != sequences[at - 1] + 1;
            if (gap || numbers[at] != (int) sequences[at]) {
                wrong++;
            }
        }
        long[] sorted = Arrays.copyOfRange(latencies, before.count, after.count);
        Arrays.sort(sorted);
        return String.format(
                Locale.ROOT,
                "{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"records\": %d, \"wrong\": %d, \"p50_us\": %.1f, "
                        + "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}",
                (after.wall - before.wall) / 1e9, after.cpu - before.cpu, sorted.length, wrong,
                at(sorted, 0.5), at(sorted, 0.99), at(sorted, 0.999), at(sorted, 1.0));
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) ((sorted.length - 1) * share)] / 1e3;
    }
}
