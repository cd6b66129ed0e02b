import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Paced values, each sent before the next is made: RateProducer BOOTSTRAP TOPIC PER_SECOND SECONDS. */
final class RateProducer {
    private RateProducer() {}

    public static void main(String[] words) throws Exception {
        double perSecond = Double.parseDouble(words[2]);
        long total = (long) (perSecond * Double.parseDouble(words[3]));
        String[] settings = {"linger.ms=0"};
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(Bench.producerSettings(words[0], settings))) {
            long start = System.nanoTime();
            for (long sequence = 0; sequence < total; sequence++) {
                long due = start + (long) (sequence * 1e9 / perSecond);
                for (long rest = due - System.nanoTime(); rest > 0; rest = due - System.nanoTime()) {
                    LockSupport.parkNanos(rest);
                }
                Instant now = Instant.now();
                ByteBuffer value = ByteBuffer.allocate(23).order(ByteOrder.LITTLE_ENDIAN);
                value.putLong(sequence);
                value.putLong(now.getEpochSecond() * 1_000_000_000L + now.getNano());
                value.putInt((int) sequence);
                producer.send(new ProducerRecord<>(words[1], 0, null, value.array())).get();
            }
        }
    }
}
