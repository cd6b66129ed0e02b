import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * As fast as it goes: ProduceMany BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES PASSES [NAME=VALUE ...]. Each
 * pass is a producer of its own in this JVM.
 */
final class ProduceMany {
    private ProduceMany() {}

    public static void main(String[] words) throws Exception {
        int warmUp = Integer.parseInt(words[3]);
        int records = Integer.parseInt(words[4]);
        byte[] value = new byte[Integer.parseInt(words[5])];
        Arrays.fill(value, (byte) 'x');
        // One partition is named; more are left to the partitioner.
        Integer partition = Integer.parseInt(words[2]) == 1 ? 0 : null;
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(words[1], partition, null, value);
        int passes = Integer.parseInt(words[6]);
        Properties settings = Bench.producerSettings(words[0], Arrays.copyOfRange(words, 7, words.length));
        for (int pass = 1; pass <= passes; pass++) {
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
                send(producer, record, warmUp);
                long wall = System.nanoTime();
                double cpu = Bench.cpuSeconds();
                send(producer, record, records);
                System.out.printf(
                        Locale.ROOT,
                        "{\"pass\": \"%s\", \"sent\": %d, \"counted\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
                                + "\"peak_rss\": %d, \"version\": \"%s\"}%n",
                        pass == 1 ? "cold" : pass == passes ? "warm" : "pass " + pass, warmUp + records, records,
                        (System.nanoTime() - wall) / 1e9, Bench.cpuSeconds() - cpu, Bench.peakRss(), Bench.version());
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int count) {
        AtomicLong acknowledged = new AtomicLong();
        Callback callback = (metadata, error) -> {
            if (error == null) {
                acknowledged.incrementAndGet();
            }
        };
        for (int number = 0; number < count; number++) {
            producer.send(record, callback);
        }
        producer.flush();
        if (acknowledged.get() != count) {
            throw new IllegalStateException(acknowledged.get() + " of " + count + " records were acknowledged");
        }
    }
}
