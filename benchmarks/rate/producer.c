/* Produces values of 23 bytes at a steady rate: producer BOOTSTRAP TOPIC PER_SECOND SECONDS
 * Each value: u64 sequence, u64 nanoseconds since 1970 at produce, u32 low half of the sequence, 3 spare (little endian).
 * It wakes every 0.2 ms and sends what is due. */
#include "bench.h"

static long delivered;

static void on_delivery(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    (void)producer;
    (void)opaque;
    if (message->err)
        fail("delivery failed: %s", rd_kafka_err2str(message->err));
    delivered++;
}

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char **words) {
    if (count != 5)
        fail("usage: producer BOOTSTRAP TOPIC PER_SECOND SECONDS");
    double per_second = atof(words[3]);
    uint64_t total = (uint64_t)(per_second * atof(words[4]));

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "linger.ms", "5");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, words[2], NULL);

    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    char value[23] = {0};
    for (uint64_t sequence = 0; sequence < total;) {
        uint64_t due = (uint64_t)((double)(nanoseconds(CLOCK_MONOTONIC) - start) * per_second / 1e9);
        for (; sequence < due && sequence < total; sequence++) {
            uint64_t now = nanoseconds(CLOCK_REALTIME);
            uint32_t low = (uint32_t)sequence;
            memcpy(value, &sequence, 8);
            memcpy(value + 8, &now, 8);
            memcpy(value + 16, &low, 4);
            if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, sizeof value, NULL, 0, NULL))
                fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        }
        rd_kafka_poll(producer, 0);
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    rd_kafka_flush(producer, 30000);
    printf("{\"records\": %ld, \"seconds\": %.3f}\n", delivered, (double)(nanoseconds(CLOCK_MONOTONIC) - start) / 1e9);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(producer);
    return 0;
}
