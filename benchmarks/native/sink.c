/* An agent that takes spans and looks at none of them: HTTP/1.1, a thread for each connection, one answer a request.

   sink MODE: "well" answers 200 at once; "slow" after ten seconds; "429" and "500" with these; "garbage" with none of
   HTTP. "keep" is "well", and GET /last answers with the body of the last PUT or POST. Prints its port, and ends with its
   standard input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEAD 16384

static const char *mode;
static const char rates[] = "{\"rate_by_service\":{\"service:,env:\":1.0}}";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *last;
static size_t last_size;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int send_all(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t count = send(fd, bytes, size, MSG_NOSIGNAL);
        if (count <= 0)
            return 0;
        bytes += count;
        size -= (size_t)count;
    }
    return 1;
}

static int answer(int fd, int status, const char *body, size_t size) {
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %d Word\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
                          size);
    struct iovec parts[2] = {{head, (size_t)length}, {(char *)body, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t whole = (size_t)length + size;
    ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (count < 0)
        return 0;
    if ((size_t)count == whole)
        return 1;
    if ((size_t)count < (size_t)length)
        return 0;
    return send_all(fd, body + (count - length), whole - (size_t)count);
}

/* The value of a header, or NULL. */
static const char *header(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, length) && line[2 + length] == ':')
            return line + 3 + length;
    return NULL;
}

static int respond(int fd, const char *head, char **body, size_t size) {
    if (!strncmp(head, "GET /last ", 10)) {
        pthread_mutex_lock(&lock);
        int good = answer(fd, 200, last ? last : "", last_size);
        pthread_mutex_unlock(&lock);
        return good;
    }
    if (!strncmp(head, "GET ", 4)) /* what an agent can do: nothing beside taking traces */
        return answer(fd, 404, "{}", 2);
    if (!strcmp(mode, "keep") && strstr(head, "/traces ")) {
        pthread_mutex_lock(&lock);
        free(last);
        last = *body;
        last_size = size;
        *body = NULL;
        pthread_mutex_unlock(&lock);
    }
    if (!strcmp(mode, "garbage"))
        return send_all(fd, "SSH-2.0-OpenSSH_9.6\r\n", 21);
    if (!strcmp(mode, "slow"))
        sleep(10);
    int status = atoi(mode);
    return answer(fd, status ? status : 200, rates, sizeof rates - 1);
}

static void *serve(void *argument) {
    int fd = (int)(long)argument, one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char *head = malloc(HEAD + 1), *body = NULL;
    size_t have = 0;
    while (head) {
        char *end = NULL;
        head[have] = 0;
        while (!(end = strstr(head, "\r\n\r\n"))) {
            if (have == HEAD)
                goto over;
            ssize_t count = recv(fd, head + have, HEAD - have, 0);
            if (count <= 0)
                goto over;
            have += (size_t)count;
            head[have] = 0;
        }
        size_t begin = (size_t)(end - head) + 4;
        const char *length = header(head, "Content-Length");
        if (header(head, "Transfer-Encoding")) {
            fprintf(stderr, "sink: chunked bodies are not understood\n");
            goto over;
        }
        size_t size = length ? strtoul(length, NULL, 10) : 0;
        size_t there = have - begin < size ? have - begin : size;
        free(body);
        if (!(body = malloc(size + 1)))
            goto over;
        memcpy(body, head + begin, there);
        for (size_t got = there; got < size;) {
            ssize_t count = recv(fd, body + got, size - got, 0);
            if (count <= 0)
                goto over;
            got += (size_t)count;
        }
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)(strcspn(head, "\r")), head);
        if (!respond(fd, line, &body, size))
            break;
        have -= begin + there;
        memmove(head, head + begin + there, have);
    }
over:
    free(head);
    free(body);
    close(fd);
    return NULL;
}

static void *accept_all(void *argument) {
    int listener = (int)(long)argument;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(long)fd))
            close(fd);
        else
            pthread_detach(thread);
    }
    return NULL;
}

int main(int count, char **words) {
    mode = count > 1 ? words[1] : "well";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 128) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        fail("sink");
    pthread_t thread;
    if (pthread_create(&thread, NULL, accept_all, (void *)(long)listener))
        fail("sink");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    return 0;
}
