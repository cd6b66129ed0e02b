import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records as Kafka's own producer does; the values are those of load.value_of. Arguments: topic=, count=,
 * first=0, partitions=1 (in turn), size=100, keys=0 (number of different keys; 0 = none), headers=none|mixed,
 * timestamp=-1 (of the first record, ms; each next one 1 ms later), nulls=0 (each n-th value is null; 0 = none),
 * transaction=0 (records in one; 0 = no transactions), abort=0 (each n-th transaction aborts; 0 = none), open=0 (1 =
 * the last transaction stays open: the program ends with it unfinished), kafka.NAME=VALUE.
 */
public final class JavaProducer {
    private static final byte[] FILLER = new byte[512];

    static {
        for (int i = 0; i < FILLER.length; i++) {
            FILLER[i] = (byte) i;
        }
    }

    private JavaProducer() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        options.kafka.putIfAbsent("linger.ms", "5");
        options.kafka.putIfAbsent("max.request.size", Integer.toString(64 << 20));
        options.kafka.putIfAbsent("buffer.memory", Integer.toString(128 << 20));
        String topic = options.text("topic");
        long count = options.number("count", 0);
        long first = options.number("first", 0);
        long partitions = options.number("partitions", 1);
        int size = (int) options.number("size", 100);
        long keys = options.number("keys", 0);
        boolean headers = options.text("headers", "none").equals("mixed");
        long timestamp = options.number("timestamp", -1);
        long nulls = options.number("nulls", 0);
        long transaction = options.number("transaction", 0);
        long abort = options.number("abort", 0);
        boolean open = options.number("open", 0) == 1;

        AtomicReference<Exception> failure = new AtomicReference<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(options.kafka, bytes, bytes);
        if (transaction > 0) {
            producer.initTransactions();
        }
        long aborted = 0;
        for (long i = first; i < first + count; i++) {
            long done = i - first;
            if (transaction > 0 && done % transaction == 0) {
                producer.beginTransaction();
            }
            byte[] key = keys == 0 ? null : ("key-" + i % keys).getBytes(StandardCharsets.UTF_8);
            byte[] value = nulls > 0 && i % nulls == 0 ? null : value(i, size);
            Long time = timestamp < 0 ? null : Long.valueOf(timestamp + done);
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, (int) (i % partitions), time, key, value);
            if (headers) {
                addHeaders(record.headers(), i);
            }
            producer.send(record, (metadata, error) -> {
                if (error != null) {
                    failure.compareAndSet(null, error);
                }
            });
            boolean last = done + 1 == count;
            if (transaction > 0 && !(last && open) && ((done + 1) % transaction == 0 || last)) {
                if (abort > 0 && (done / transaction + 1) % abort == 0) {
                    // Or the producer drops what it has not sent, and the log holds no aborted records.
                    producer.flush();
                    producer.abortTransaction();
                    failure.set(null);
                    aborted += done % transaction + 1;
                } else {
                    producer.commitTransaction();
                }
            }
        }
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
        System.out.println("{\"produced\": " + count + ", \"aborted\": " + aborted + "}");
        System.out.flush();
        if (open) {
            // close() would abort it.
            Runtime.getRuntime().halt(0);
        }
        producer.close();
    }

    private static byte[] value(long index, int size) {
        byte[] value = new byte[size];
        ByteBuffer.wrap(value).putLong(index);
        int start = (int) (index & 255);
        for (int at = 8; at < size; ) {
            int part = Math.min(256, size - at);
            System.arraycopy(FILLER, (start + at - 8) & 255, value, at, part);
            at += part;
        }
        return value;
    }

    /** A header twice, one without a value, one with an empty value, one with an empty key, one beyond ASCII. */
    private static void addHeaders(Headers headers, long index) {
        headers.add("index", Long.toString(index).getBytes(StandardCharsets.UTF_8));
        headers.add("twice", new byte[] {1});
        headers.add("twice", new byte[] {2});
        headers.add("null", null);
        headers.add("empty", new byte[0]);
        headers.add("", new byte[] {3});
        headers.add("Käfer", "Gregor".getBytes(StandardCharsets.UTF_8));
    }
}
