/* librdkafka's C API: produce_many BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES [NAME=VALUE ...] */
#include "bench.h"

/* One partition is named; more are left to the partitioner. */
enum { PARTITION_ANY = -1, POLL_EVERY = 1000 };

static long delivered;

static void on_delivery(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    (void)producer;
    (void)opaque;
    if (message->err)
        fail("delivery failed: %s", rd_kafka_err2str(message->err));
    delivered++;
}

static void produce(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, char *value, size_t size,
                    long count) {
    delivered = 0;
    for (long number = 0; number < count; number++) {
        while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL)) {
            if (rd_kafka_last_error() != RD_KAFKA_ERR_QUEUE_FULL)
                fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(producer, 10);
        }
        if (number % POLL_EVERY == 0)
            rd_kafka_poll(producer, 0);
    }
    rd_kafka_flush(producer, 120000);
    if (delivered != count)
        fail("only %ld of %ld records were delivered", delivered, count);
}

int main(int count, char **words) {
    if (count < 7)
        fail("usage: produce_many BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES [NAME=VALUE ...]");
    int32_t partition = atoi(words[3]) == 1 ? 0 : PARTITION_ANY;
    long warm_up = atol(words[4]), records = atol(words[5]);
    size_t size = (size_t)atol(words[6]);
    char *value = malloc(size);
    memset(value, 'x', size);

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set_all(conf, words + 7, count - 7);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, words[2], NULL);

    produce(producer, topic, partition, value, size, warm_up);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    produce(producer, topic, partition, value, size, records);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"pass\": \"only\", \"sent\": %ld, \"counted\": %ld, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
           "\"peak_rss\": %ld, \"version\": \"librdkafka %s\"}\n",
           warm_up + records, records, wall, cpu, peak_rss(), rd_kafka_version_str());
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(producer);
    free(value);
    return 0;
}
