import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group: prints a JSON line for each assignment, revocation and run of records, and commits after each
 * poll. Leaves in order when its standard input ends. Arguments: topics=a,b and kafka.NAME=VALUE (group.id, ...).
 */
public final class JavaConsumer {
    private JavaConsumer() {}

    public static void main(String[] arguments) {
        Options options = new Options(arguments);
        options.kafka.putIfAbsent("auto.offset.reset", "earliest");
        options.kafka.put("enable.auto.commit", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options.kafka, bytes, bytes);
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
        consumer.subscribe(Arrays.asList(options.text("topics").split(",")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("assigned", partitions, consumer);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                say("revoked", partitions, consumer);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                say("lost", partitions, consumer);
            }
        });
        try {
            while (!stopping.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                for (TopicPartition partition : records.partitions()) {
                    print(partition, records.records(partition));
                }
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException stop) {
            // Asked to leave.
        } finally {
            consumer.close();
        }
        line("{\"event\": \"closed\"" + at());
    }

    /** A rebalance refuses the commit: the next owner reads the records again. */
    private static void commit(KafkaConsumer<?, ?> consumer) {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException | CommitFailedException refused) {
            line("{\"event\": \"uncommitted\"" + at());
        }
    }

    /** The time of an event, on the clock of Python's time.monotonic_ns. */
    private static String at() {
        return ", \"at\": " + System.nanoTime() + "}";
    }

    /** Runs of consecutive offsets, as [first, last] pairs. */
    private static void print(TopicPartition partition, Iterable<ConsumerRecord<byte[], byte[]>> records) {
        StringBuilder runs = new StringBuilder();
        long first = -1;
        long last = -1;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (first >= 0 && record.offset() != last + 1) {
                runs.append(runs.length() == 0 ? "" : ", ").append("[" + first + ", " + last + "]");
                first = -1;
            }
            if (first < 0) {
                first = record.offset();
            }
            last = record.offset();
        }
        runs.append(runs.length() == 0 ? "" : ", ").append("[" + first + ", " + last + "]");
        line("{\"event\": \"records\", \"topic\": \"" + partition.topic() + "\", \"partition\": "
            + partition.partition() + ", \"runs\": [" + runs + "]" + at());
    }

    private static void say(String event, Collection<TopicPartition> partitions, KafkaConsumer<?, ?> consumer) {
        String list = partitions.stream()
            .map(partition -> "[\"" + partition.topic() + "\", " + partition.partition() + "]")
            .collect(Collectors.joining(", "));
        line("{\"event\": \"" + event + "\", \"partitions\": [" + list + "], \"generation\": "
            + consumer.groupMetadata().generationId() + at());
    }

    private static void line(String text) {
        System.out.println(text);
        System.out.flush();
    }
}
