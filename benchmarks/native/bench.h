/* What the C programs share: settings, clocks, memory. */
#ifndef BENCHMARKS_BENCH_H
#define BENCHMARKS_BENCH_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "librdkafka.h"

_Noreturn static inline void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* VmHWM rather than ru_maxrss: the latter keeps the parent's figure across exec. */
static inline long peak_rss(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib * 1024;
}

static inline void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error))
        fail("%s", error);
}

/* Settings from the command line: NAME=VALUE ... */
static inline void set_all(rd_kafka_conf_t *conf, char **pairs, int count) {
    for (int at = 0; at < count; at++) {
        char *equals = strchr(pairs[at], '=');
        if (!equals)
            fail("%s is not NAME=VALUE", pairs[at]);
        *equals = 0;
        set(conf, pairs[at], equals + 1);
    }
}

static inline rd_kafka_t *client(int type, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *made = rd_kafka_new(type, conf, error, sizeof error);
    if (!made)
        fail("%s", error);
    return made;
}

#endif
