import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group that accepts what it gets: prints a JSON line for each poll with records, with their values
 * (values=true) or without. Leaves in order when its standard input ends. Arguments: topics=a,b and kafka.NAME=VALUE.
 */
public final class JavaShareConsumer {
    private JavaShareConsumer() {}

    public static void main(String[] arguments) {
        Options options = new Options(arguments);
        boolean values = Boolean.parseBoolean(options.text("values"));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(options.kafka, bytes, bytes);
        AtomicBoolean stopping = new AtomicBoolean();
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException gone) {
                // The same as its end.
            }
            stopping.set(true);
            consumer.wakeup();
        });
        watcher.setDaemon(true);
        watcher.start();
        consumer.subscribe(Arrays.asList(options.text("topics").split(",")));
        long count = 0;
        try {
            while (!stopping.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                count += records.count();
                StringBuilder line = new StringBuilder("{\"event\": \"records\", \"count\": ").append(count);
                line.append(", \"cpu_ns\": ").append(cpuTime());
                if (values) {
                    line.append(", \"values\": [");
                    String separator = "";
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        line.append(separator).append('"').append(new String(record.value())).append('"');
                        separator = ", ";
                    }
                    line.append(']');
                }
                System.out.println(line.append('}'));
            }
        } catch (WakeupException stop) {
            // Asked to leave.
        } finally {
            consumer.close();
        }
        System.out.println("{\"event\": \"closed\", \"count\": " + count + "}");
    }

    private static long cpuTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }
}
