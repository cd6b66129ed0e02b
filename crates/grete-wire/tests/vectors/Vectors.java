// Writes messages with Kafka's own classes, as "Name version hex" lines: the content of messages.txt.
// Compile and run with kafka-clients (4.3.0 was used) and slf4j-api on the class path:
//   javac -cp kafka-clients-4.3.0.jar Vectors.java && java -cp kafka-clients-4.3.0.jar:slf4j-api.jar:. Vectors > messages.txt

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class Vectors {
    static final Uuid ID = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);

    public static void main(String[] args) {
        MetadataResponseData metadata = new MetadataResponseData().setThrottleTimeMs(7).setClusterId("cluster").setControllerId(2);
        metadata.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("one").setPort(9092).setRack("a"));
        metadata.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(2).setHost("two").setPort(19092));
        MetadataResponseData.MetadataResponseTopic topic = new MetadataResponseData.MetadataResponseTopic()
            .setName("orders").setTopicId(ID).setErrorCode((short) 0).setTopicAuthorizedOperations(264);
        topic.partitions().add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(3).setLeaderId(2).setLeaderEpoch(9)
            .setReplicaNodes(List.of(1, 2)).setIsrNodes(List.of(2)).setOfflineReplicas(List.of(1)));
        metadata.topics().add(topic);
        write(metadata, "MetadataResponse", 12);
        topic.setTopicAuthorizedOperations(Integer.MIN_VALUE);
        topic.setTopicId(Uuid.ZERO_UUID);
        write(metadata, "MetadataResponse", 7);

        JoinGroupRequestData join = new JoinGroupRequestData().setGroupId("g").setSessionTimeoutMs(45000).setRebalanceTimeoutMs(300000)
            .setMemberId("m-1").setGroupInstanceId("static").setProtocolType("consumer").setReason("because");
        join.protocols().add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(new byte[] {1, 2, 3}));
        join.protocols().add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("cooperative-sticky").setMetadata(new byte[0]));
        write(join, "JoinGroupRequest", 9);
        write(join.setReason(null), "JoinGroupRequest", 5);

        OffsetFetchResponseData offsets = new OffsetFetchResponseData().setThrottleTimeMs(1);
        offsets.groups().add(new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("g").setErrorCode((short) 14).setTopics(List.of(
            new OffsetFetchResponseData.OffsetFetchResponseTopics().setName("orders").setPartitions(List.of(
                new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(3).setCommittedOffset(1L << 40)
                    .setCommittedLeaderEpoch(9).setMetadata("note").setErrorCode((short) 0),
                new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(4).setCommittedOffset(-1)
                    .setCommittedLeaderEpoch(-1).setMetadata(null).setErrorCode((short) 88))))));
        write(offsets, "OffsetFetchResponse", 8);

        FetchResponseData fetch = new FetchResponseData().setThrottleTimeMs(5).setErrorCode((short) 0).setSessionId(1234567);
        FetchResponseData.PartitionData data = new FetchResponseData.PartitionData().setPartitionIndex(3).setErrorCode((short) 6)
            .setHighWatermark(100).setLastStableOffset(90).setLogStartOffset(10)
            .setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(8).setEndOffset(50))
            .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch().setLeaderId(2).setLeaderEpoch(10))
            .setAbortedTransactions(List.of(new FetchResponseData.AbortedTransaction().setProducerId(7).setFirstOffset(42)))
            .setPreferredReadReplica(1)
            .setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap(new byte[] {10, 20, 30})));
        fetch.responses().add(new FetchResponseData.FetchableTopicResponse().setTopicId(ID).setPartitions(new ArrayList<>(List.of(data))));
        fetch.nodeEndpoints().add(new FetchResponseData.NodeEndpoint().setNodeId(2).setHost("two").setPort(19092).setRack(null));
        write(fetch, "FetchResponse", 16);

        FetchRequestData request = new FetchRequestData().setMaxWaitMs(500).setMinBytes(1).setMaxBytes(52428800).setIsolationLevel((byte) 1)
            .setSessionId(77).setSessionEpoch(3).setRackId("a");
        request.topics().add(new FetchRequestData.FetchTopic().setTopicId(ID).setPartitions(List.of(new FetchRequestData.FetchPartition()
            .setPartition(3).setCurrentLeaderEpoch(9).setFetchOffset(1L << 33).setLastFetchedEpoch(8).setLogStartOffset(-1)
            .setPartitionMaxBytes(1048576))));
        request.forgottenTopicsData().add(new FetchRequestData.ForgottenTopic().setTopicId(ID).setPartitions(List.of(5, 6)));
        write(request, "FetchRequest", 17);

        ApiVersionsResponseData versions = new ApiVersionsResponseData().setErrorCode((short) 0).setThrottleTimeMs(0)
            .setFinalizedFeaturesEpoch(99).setZkMigrationReady(true);
        versions.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short) 3).setMinVersion((short) 0).setMaxVersion((short) 13));
        versions.supportedFeatures().add(
            new ApiVersionsResponseData.SupportedFeatureKey().setName("kraft.version").setMinVersion((short) 0).setMaxVersion((short) 1));
        versions.finalizedFeatures().add(new ApiVersionsResponseData.FinalizedFeatureKey().setName("metadata.version")
            .setMinVersionLevel((short) 7).setMaxVersionLevel((short) 27));
        write(versions, "ApiVersionsResponse", 4);
        write(versions, "ApiVersionsResponse", 0);

        write(new ConsumerProtocolSubscription().setTopics(List.of("a", "b")).setUserData(ByteBuffer.wrap(new byte[] {9})).setGenerationId(5)
            .setRackId("r").setOwnedPartitions(new ConsumerProtocolSubscription.TopicPartitionCollection(List.of(
                new ConsumerProtocolSubscription.TopicPartition().setTopic("a").setPartitions(List.of(0, 2))).iterator())),
            "ConsumerProtocolSubscription", 3);
        write(new ConsumerProtocolAssignment().setAssignedPartitions(new ConsumerProtocolAssignment.TopicPartitionCollection(List.of(
                new ConsumerProtocolAssignment.TopicPartition().setTopic("a").setPartitions(List.of(1))).iterator())),
            "ConsumerProtocolAssignment", 0);
        write(new RequestHeaderData().setRequestApiKey((short) 3).setRequestApiVersion((short) 12).setCorrelationId(6).setClientId("me"),
            "RequestHeader", 2);
    }

    static void write(Message message, String name, int version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, (short) version));
        message.write(new ByteBufferAccessor(buffer), cache, (short) version);
        StringBuilder hex = new StringBuilder();
        for (byte b : buffer.array()) {
            hex.append(String.format("%02x", b));
        }
        System.out.println(name + " " + version + " " + hex);
    }
}
