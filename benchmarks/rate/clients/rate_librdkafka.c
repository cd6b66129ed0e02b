/* librdkafka's C API on a paced topic:
 * rate_librdkafka BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS [NAME=VALUE ...] */
#include "bench.h"

enum { AT_ONCE = 1000, WAIT_MS = 100 };

typedef struct {
    double wall;
    double cpu;
    long records;
} Mark;

static uint64_t *sequences;
static int64_t *latencies;
static uint32_t *numbers;
static long records;

static Mark mark(void) {
    return (Mark){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID), records};
}

static void handle(const char *value) {
    struct timespec now;
    uint64_t sent;
    clock_gettime(CLOCK_REALTIME, &now);
    memcpy(&sequences[records], value, 8);
    memcpy(&sent, value + 8, 8);
    memcpy(&numbers[records], value + 16, 4);
    latencies[records] = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)sent;
    records++;
}

static int ascending(const void *left, const void *right) {
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return (first > second) - (first < second);
}

/* All computing is done after the last window, when nothing is measured. */
static void report(Mark before, Mark after) {
    long count = after.records - before.records, wrong = 0;
    for (long at = before.records; at < after.records; at++) {
        int gap = at > before.records && sequences[at] != sequences[at - 1] + 1;
        wrong += gap || numbers[at] != (uint32_t)sequences[at];
    }
    int64_t *sorted = latencies + before.records;
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    double last = count ? (double)(count - 1) : 0;
    if (!count)
        fail("no record came in a window");
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"records\": %ld, \"wrong\": %ld, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}",
           after.wall - before.wall, after.cpu - before.cpu, count, wrong, (double)sorted[(long)(last * 0.5)] / 1e3,
           (double)sorted[(long)(last * 0.99)] / 1e3, (double)sorted[(long)(last * 0.999)] / 1e3,
           (double)sorted[count - 1] / 1e3);
}

int main(int count, char **words) {
    if (count < 7)
        fail("usage: rate_librdkafka BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS [NAME=VALUE ...]");
    double warm_up = atof(words[4]), window_seconds = atof(words[6]);
    int windows = atoi(words[5]);
    size_t room = (size_t)(atof(words[3]) * (warm_up + windows * window_seconds + 10));
    sequences = calloc(room, sizeof *sequences);
    latencies = calloc(room, sizeof *latencies);
    numbers = calloc(room, sizeof *numbers);
    Mark *marks = calloc((size_t)windows + 2, sizeof *marks);
    if (!sequences || !latencies || !numbers || !marks)
        fail("out of memory");

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "group.id", "bench-rate");
    set(conf, "enable.auto.commit", "false");
    set_all(conf, words + 7, count - 7);
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, words[2], 0);
    rd_kafka_topic_partition_list_set_offset(list, words[2], 0, 0);
    int error = rd_kafka_assign(consumer, list);
    if (error)
        fail("assign: %s", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(list);

    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    static rd_kafka_message_t *messages[AT_ONCE];
    marks[0] = mark();
    for (int window = 0; window <= windows; window++) {
        double end = seconds(CLOCK_MONOTONIC) + (window ? window_seconds : warm_up);
        while (seconds(CLOCK_MONOTONIC) < end) {
            /* One message as soon as it is there, then all that came with it: a batch call alone waits for AT_ONCE. */
            rd_kafka_message_t *first = rd_kafka_consumer_poll(consumer, WAIT_MS);
            if (!first)
                continue;
            ssize_t found = rd_kafka_consume_batch_queue(queue, 0, messages, AT_ONCE);
            for (ssize_t at = -1; at < found; at++) {
                rd_kafka_message_t *message = at < 0 ? first : messages[at];
                if (message->err)
                    fail("%s", rd_kafka_err2str(message->err));
                if ((size_t)records < room)
                    handle(message->payload);
                rd_kafka_message_destroy(message);
            }
        }
        marks[window + 1] = mark();
    }
    printf("{\"windows\": [");
    for (int window = 1; window <= windows; window++) {
        report(marks[window], marks[window + 1]);
        printf(window < windows ? ", " : "], ");
    }
    printf("\"peak_rss\": %ld, \"version\": \"librdkafka %s\"}\n", peak_rss(), rd_kafka_version_str());
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    return 0;
}
