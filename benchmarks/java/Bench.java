import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** What this process has used, and the settings that every run shares. */
final class Bench {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Bench() {}

    /** User plus system seconds, in steps of 10 ms. */
    static double cpuSeconds() {
        return SYSTEM.getProcessCpuTime() / 1e9;
    }

    /** VmHWM rather than ru_maxrss: the latter keeps the parent's figure across exec. */
    static long peakRss() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return 1024 * Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        return 0;
    }

    static String version() {
        return "kafka-clients " + AppInfoParser.getVersion() + ", Java " + System.getProperty("java.version");
    }

    /** Idempotent and acks=all, as all others are; NAME=VALUE over that. */
    static Properties producerSettings(String bootstrap, String[] pairs) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.ACKS_CONFIG, "all",
                ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true));
        for (String pair : pairs) {
            int equals = pair.indexOf('=');
            settings.put(pair.substring(0, equals), pair.substring(equals + 1));
        }
        return settings;
    }

    static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
                ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 500,
                ConsumerConfig.FETCH_MIN_BYTES_CONFIG, 1));
        return settings;
    }
}
