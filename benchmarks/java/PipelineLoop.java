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

/** A loop of poll, send, flush and commit: PipelineLoop BOOTSTRAP STYLE. Runs until it is killed. */
final class PipelineLoop {
    private PipelineLoop() {}

    public static void main(String[] words) {
        Properties settings = Bench.settings(words[0]);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "java-loop");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10_000);
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(Bench.producerSettings(words[0], new String[0]))) {
            consumer.subscribe(List.of(Invoices.ORDERS));
            while (true) {
                ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> record : batch) {
                    byte[] value = Invoices.invoice(record.value());
                    producer.send(new ProducerRecord<>(Invoices.INVOICES, record.key(), value), (metadata, error) -> {
                        if (error != null) {
                            failed.set(error);
                        }
                    });
                }
                if (!batch.isEmpty()) {
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
