import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Writes assignments of Kafka's RangeAssignor with racks (KIP-881): members as id:rack:instance:topics, partitions of
 * topics with the racks of their replicas, and the partitions that each member gets.
 *
 * java -cp 'kafka-clients.jar:slf4j-api.jar' RangeAssignors.java > range_assignors.txt
 */
class RangeAssignors {
    public static void main(String[] args) {
        Random random = new Random(881);
        for (int scenario = 0; scenario < 120; scenario++) {
            System.out.println(line(random));
        }
    }

    static String line(Random random) {
        int racks = 1 + random.nextInt(4);
        int replication = 1 + random.nextInt(3);
        int same = random.nextInt(3) == 0 ? 0 : 1 + random.nextInt(6);
        Node[] brokers = new Node[2 + random.nextInt(5)];
        for (int id = 0; id < brokers.length; id++) {
            brokers[id] = new Node(id, "", id, random.nextInt(10) == 0 ? null : "r" + id % racks);
        }
        Map<String, List<PartitionInfo>> topics = new TreeMap<>();
        for (int topic = 0; topic < 1 + random.nextInt(4); topic++) {
            List<PartitionInfo> partitions = new ArrayList<>();
            int count = same > 0 ? same : 1 + random.nextInt(8);
            for (int partition = 0; partition < count; partition++) {
                Node[] replicas = new Node[Math.min(replication, brokers.length)];
                int first = random.nextInt(brokers.length);
                for (int i = 0; i < replicas.length; i++) {
                    replicas[i] = brokers[(first + i) % brokers.length];
                }
                partitions.add(new PartitionInfo("t" + topic, partition, replicas[0], replicas, replicas));
            }
            topics.put("t" + topic, partitions);
        }
        Map<String, Subscription> members = new TreeMap<>();
        boolean everything = random.nextBoolean();
        boolean anyStatic = random.nextInt(3) == 0;
        for (int member = 0; member < 1 + random.nextInt(5); member++) {
            List<String> wanted = new ArrayList<>(topics.keySet());
            wanted.removeIf(topic -> !everything && random.nextInt(3) == 0);
            Optional<String> rack =
                random.nextInt(6) == 0 ? Optional.empty() : Optional.of("r" + random.nextInt(racks + 1));
            Subscription subscription = new Subscription(wanted, null, List.of(), -1, rack);
            if (anyStatic && random.nextBoolean()) {
                subscription.setGroupInstanceId(Optional.of("i" + random.nextInt(1000)));
            }
            members.put("m" + member, subscription);
        }
        Map<String, List<org.apache.kafka.common.TopicPartition>> result =
            new TreeMap<>(new RangeAssignor().assignPartitions(topics, members));
        return members.entrySet().stream().map(e -> e.getKey() + ":" + e.getValue().rackId().orElse("") + ":"
                + e.getValue().groupInstanceId().orElse("") + ":" + String.join(",", e.getValue().topics()))
                .collect(Collectors.joining(" "))
            + " | " + topics.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue().stream()
                .map(RangeAssignors::racksOf).collect(Collectors.joining(","))).collect(Collectors.joining(" "))
            + " | " + result.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue().stream()
                .map(Object::toString).collect(Collectors.joining(","))).collect(Collectors.joining(" "));
    }

    static String racksOf(PartitionInfo partition) {
        return Arrays.stream(partition.replicas()).map(Node::rack).filter(rack -> rack != null)
            .collect(Collectors.toCollection(TreeSet::new)).stream().collect(Collectors.joining("+"));
    }
}
