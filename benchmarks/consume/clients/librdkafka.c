/* librdkafka's C API: librdkafka BOOTSTRAP TOPIC PARTITIONS RECORDS [NAME=VALUE ...] */
#include "bench.h"

enum { AT_ONCE = 10000 };

int main(int count, char **words) {
    if (count < 5)
        fail("usage: librdkafka BOOTSTRAP TOPIC PARTITIONS RECORDS [NAME=VALUE ...]");
    const char *topic = words[2];
    int partitions = atoi(words[3]);
    long total = atol(words[4]);

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "group.id", "bench-librdkafka");
    set(conf, "enable.auto.commit", "false");
    set_all(conf, words + 5, count - 5);
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; partition++) {
        rd_kafka_topic_partition_list_add(list, topic, partition);
        rd_kafka_topic_partition_list_set_offset(list, topic, partition, 0);
    }
    int error = rd_kafka_assign(consumer, list);
    if (error)
        fail("assign: %s", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(list);

    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    static rd_kafka_message_t *messages[AT_ONCE];
    long records = 0, first = 0, bytes = 0;
    double wall = 0, cpu = 0;
    while (records < total) {
        ssize_t found = rd_kafka_consume_batch_queue(queue, 1000, messages, AT_ONCE);
        for (ssize_t at = 0; at < found; at++) {
            if (messages[at]->err)
                fail("%s", rd_kafka_err2str(messages[at]->err));
            bytes += (long)messages[at]->len;
            rd_kafka_message_destroy(messages[at]);
        }
        records += found > 0 ? found : 0;
        if (!first && records) {
            /* The clock starts when the first records are there, and those do not count: as for every client. */
            first = records;
            wall = seconds(CLOCK_MONOTONIC);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"pass\": \"only\", \"records\": %ld, \"counted\": %ld, \"bytes\": %ld, \"seconds\": %.6f, "
           "\"cpu_seconds\": %.6f, \"peak_rss\": %ld, \"version\": \"librdkafka %s\"}\n",
           records, records - first, bytes, wall, cpu, peak_rss(), rd_kafka_version_str());
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    return 0;
}
