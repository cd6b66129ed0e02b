/* The part of librdkafka's C API that these programs call. The wheel of confluent-kafka carries the library without its
 * header, so the declarations are written out here; they are ABI-stable since librdkafka 1.0. */
#ifndef BENCHMARKS_LIBRDKAFKA_H
#define BENCHMARKS_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;

typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_MSG_F_COPY = 2 };
enum { RD_KAFKA_ERR_PARTITION_EOF = -191, RD_KAFKA_ERR_QUEUE_FULL = -184 };

const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(int error);
int rd_kafka_last_error(void);

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *conf,
                                 void (*callback)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *conf, char *error, size_t size);
void rd_kafka_destroy(rd_kafka_t *client);
int rd_kafka_poll(rd_kafka_t *client, int timeout_ms);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *client, const char *topic, void *conf);
void rd_kafka_topic_destroy(rd_kafka_topic_t *topic);
int rd_kafka_produce(rd_kafka_topic_t *topic, int32_t partition, int flags, void *payload, size_t len, const void *key,
                     size_t key_len, void *opaque);
int rd_kafka_flush(rd_kafka_t *client, int timeout_ms);

int rd_kafka_poll_set_consumer(rd_kafka_t *client);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *list, const char *topic, int32_t partition);
int rd_kafka_topic_partition_list_set_offset(rd_kafka_topic_partition_list_t *list, const char *topic,
                                             int32_t partition, int64_t offset);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *list);
int rd_kafka_assign(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *list);
rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *client, int timeout_ms);
void rd_kafka_message_destroy(rd_kafka_message_t *message);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *client);
void rd_kafka_queue_destroy(rd_kafka_queue_t *queue);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **messages,
                                     size_t size);
int rd_kafka_consumer_close(rd_kafka_t *client);

#endif
