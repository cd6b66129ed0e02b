import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A loop of poll, send, flush and commit: PipelineLoop BOOTSTRAP STYLE. Runs until it is killed.
 *
 * <p>STYLE: `transactions` makes the records of a poll and their offsets one transaction; `loop` does not.
 */
final class PipelineLoop {
    private PipelineLoop() {}

    public static void main(String[] words) {
        Properties settings = Bench.settings(words[0]);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "java-loop");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10_000);
        boolean transactions = words[1].equals("transactions");
        String[] own = transactions ? new String[] {"transactional.id=java-loop"} : new String[0];
        if (transactions) {
            settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        }
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(Bench.producerSettings(words[0], own))) {
            if (transactions) {
                producer.initTransactions();
            }
            consumer.subscribe(List.of(Invoices.ORDERS));
            while (true) {
                ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofMillis(100));
                if (transactions && !batch.isEmpty()) {
                    producer.beginTransaction();
                }
                for (ConsumerRecord<byte[], byte[]> record : batch) {
                    byte[] value = Invoices.invoice(record.value());
                    producer.send(new ProducerRecord<>(Invoices.INVOICES, record.key(), value), (metadata, error) -> {
                        if (error != null) {
                            failed.set(error);
                        }
                    });
                }
                if (transactions && !batch.isEmpty()) {
                    producer.sendOffsetsToTransaction(batch.nextOffsets(), consumer.groupMetadata());
                    producer.commitTransaction();
                } else if (!batch.isEmpty()) {
                    producer.flush();
                    if (failed.get() != null) {
                        throw new IllegalStateException(failed.get());
                    }
                    consumer.commitSync();
                }
            }
        }
    }
}
