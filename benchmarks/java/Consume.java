import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Throughput: Consume BOOTSTRAP TOPIC PARTITIONS RECORDS PASSES [NAME=VALUE ...]. Each pass is a consumer of its own in this JVM. */
final class Consume {
    private Consume() {}

    public static void main(String[] words) throws Exception {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(words[2]); partition++) {
            partitions.add(new TopicPartition(words[1], partition));
        }
        int passes = Integer.parseInt(words[4]);
        for (int pass = 1; pass <= passes; pass++) {
            String name = pass == 1 ? "cold" : pass == passes ? "warm" : "pass " + pass;
            consume(name, words[0], partitions, Long.parseLong(words[3]), words);
        }
    }

    private static void consume(
            String pass, String bootstrap, List<TopicPartition> partitions, long total, String[] words)
            throws Exception {
        Properties settings = Bench.settings(bootstrap);
        for (int at = 5; at < words.length; at++) {
            int equals = words[at].indexOf('=');
            settings.put(words[at].substring(0, equals), words[at].substring(equals + 1));
        }
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10000);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long records = 0;
            long first = 0;
            long bytes = 0;
            long wall = 0;
            double cpu = 0;
            while (records < total) {
                ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<byte[], byte[]> record : batch) {
                    bytes += record.value().length;
                }
                records += batch.count();
                // The clock starts when the first records are there, and those do not count: as for every client.
                if (first == 0 && records > 0) {
                    first = records;
                    wall = System.nanoTime();
                    cpu = Bench.cpuSeconds();
                }
            }
            System.out.printf(
                    Locale.ROOT,
                    "{\"pass\": \"%s\", \"records\": %d, \"counted\": %d, \"bytes\": %d, \"seconds\": %.6f, "
                            + "\"cpu_seconds\": %.6f, \"peak_rss\": %d, \"version\": \"%s\"}%n",
                    pass, records, records - first, bytes, (System.nanoTime() - wall) / 1e9,
                    Bench.cpuSeconds() - cpu, Bench.peakRss(), Bench.version());
        }
    }
}
