/* Fills a topic, each record to an explicit partition in turn:
 * fill BOOTSTRAP TOPIC PARTITIONS RECORDS bytes23|json|keyed|kib [NAME=VALUE ...]
 * `keyed` is json with 1,000 different keys instead of 10 million.
 * Prints {"records": ..., "bytes": ...}: what every consumer must find. */
#include <inttypes.h>

#include "bench.h"

static long delivered;

static void on_delivery(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    (void)producer;
    (void)opaque;
    if (message->err)
        fail("delivery failed: %s", rd_kafka_err2str(message->err));
    delivered++;
}

/* A small generator, so that values differ and compress about as real events do. */
static uint64_t mix(uint64_t number) {
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static size_t bytes23(uint64_t number, char *out) {
    uint64_t random = mix(number);
    uint32_t low = (uint32_t)number;
    memcpy(out, &number, 8);
    memcpy(out + 8, &random, 8);
    memcpy(out + 16, &low, 4);
    memset(out + 20, 0, 3);
    return 23;
}

static size_t json(uint64_t number, char *out) {
    static const char *const kinds[] = {"created", "updated", "shipped", "removed"};
    uint64_t random = mix(number);
    return (size_t)sprintf(out,
                           "{\"id\":1%015" PRIu64 ",\"user\":\"u%06" PRIu64 "\",\"event\":\"%s\",\"amount\":1%04" PRIu64
                           ".%02" PRIu64 ",\"time\":1700%09" PRIu64 ",\"ok\":true}",
                           number, random % 1000000, kinds[(random >> 20) & 3], (random >> 22) % 10000,
                           (random >> 36) % 100, number);
}

static size_t kib(uint64_t number, char *out) {
    for (size_t at = 0; at < 1024; at += 8) {
        uint64_t random = mix(number * 128 + at / 8);
        memcpy(out + at, &random, 8);
    }
    return 1024;
}

int main(int count, char **words) {
    if (count < 6)
        fail("usage: fill BOOTSTRAP TOPIC PARTITIONS RECORDS bytes23|json|keyed|kib [NAME=VALUE ...]");
    int partitions = atoi(words[3]);
    long total = atol(words[4]);
    int keyed = !strcmp(words[5], "keyed"), with_key = keyed || !strcmp(words[5], "json");
    long keys = keyed ? 1000 : 10000000;
    size_t (*value)(uint64_t, char *) = with_key                        ? json
                                        : !strcmp(words[5], "bytes23") ? bytes23
                                        : !strcmp(words[5], "kib")     ? kib
                                                                       : NULL;
    if (!value)
        fail("unknown kind %s: bytes23, json, keyed or kib", words[5]);

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "batch.size", "500000");
    set(conf, "batch.num.messages", "1000000");
    set(conf, "linger.ms", "20");
    set(conf, "queue.buffering.max.messages", "1000000");
    set_all(conf, words + 6, count - 6);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, words[2], NULL);

    char buffer[2048], key[9];
    long bytes = 0;
    for (long number = 0; number < total; number++) {
        size_t length = value((uint64_t)number, buffer);
        snprintf(key, sizeof key, "k%07ld", number % keys);
        bytes += (long)length;
        while (rd_kafka_produce(topic, (int32_t)(number % partitions), RD_KAFKA_MSG_F_COPY, buffer, length,
                                with_key ? key : NULL, with_key ? 8 : 0, NULL)) {
            if (rd_kafka_last_error() != RD_KAFKA_ERR_QUEUE_FULL)
                fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(producer, 100);
        }
        if (number % 1000 == 0)
            rd_kafka_poll(producer, 0);
    }
    rd_kafka_flush(producer, 120000);
    if (delivered != total)
        fail("only %ld of %ld records were delivered", delivered, total);
    printf("{\"records\": %ld, \"bytes\": %ld}\n", total, bytes);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(producer);
    return 0;
}
