import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** One record after the other: ProduceSync BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES [NAME=VALUE ...]. */
final class ProduceSync {
    private ProduceSync() {}

    public static void main(String[] words) throws Exception {
        int warmUp = Integer.parseInt(words[3]);
        long[] latencies = new long[Integer.parseInt(words[4])];
        byte[] value = new byte[Integer.parseInt(words[5])];
        Arrays.fill(value, (byte) 'x');
        Properties settings = Bench.producerSettings(words[0], Arrays.copyOfRange(words, 6, words.length));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(words[1], 0, null, value);
            for (int number = 0; number < warmUp; number++) {
                producer.send(record).get();
            }
            long caller = switches(Path.of("/proc/thread-self"));
            long process = allSwitches();
            double cpu = Bench.cpuSeconds();
            for (int number = 0; number < latencies.length; number++) {
                long start = System.nanoTime();
                producer.send(record).get();
                latencies[number] = System.nanoTime() - start;
            }
            cpu = Bench.cpuSeconds() - cpu;
            process = allSwitches() - process;
            caller = switches(Path.of("/proc/thread-self")) - caller;
            String list = LongStream.of(latencies).mapToObj(Long::toString).collect(Collectors.joining(", "));
            System.out.printf(
                    Locale.ROOT,
                    "{\"pass\": \"only\", \"sent\": %d, \"latencies_ns\": [%s], \"cpu_seconds\": %.6f, "
                            + "\"caller_switches\": %d, \"process_switches\": %d, \"peak_rss\": %d, "
                            + "\"version\": \"%s\"}%n",
                    warmUp + latencies.length, list, cpu, caller, process, Bench.peakRss(), Bench.version());
        }
    }

    private static long switches(Path task) throws IOException {
        for (String line : Files.readAllLines(task.resolve("status"))) {
            if (line.startsWith("voluntary_ctxt_switches:")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        return 0;
    }

    private static long allSwitches() throws IOException {
        long sum = 0;
        try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : tasks.toList()) {
                sum += switches(task);
            }
        }
        return sum;
    }
}
