import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams, its own defaults: PipelineStreams BOOTSTRAP STATE_DIRECTORY [GUARANTEE]. Until it is killed.
 *
 * <p>GUARANTEE is its setting processing.guarantee. With exactly_once_v2, its default is to commit every 100 ms.
 */
final class PipelineStreams {
    private PipelineStreams() {}

    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "kafka-streams");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, words[1]);
        if (words.length > 2 && !words[2].isEmpty()) {
            settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, words[2]);
        }
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(Invoices.ORDERS, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .mapValues(Invoices::invoice)
                .to(Invoices.INVOICES, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        new KafkaStreams(builder.build(), settings).start();
    }
}
