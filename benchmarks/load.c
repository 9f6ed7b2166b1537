/* A load generator for Kafka requests that are made beforehand.
 *
 *   cc -O2 -o load load.c
 *   load PLAN DEPTH SECONDS WARMUP_SECONDS [INTERVAL_MS]
 *
 * Compiled with -DTLS and -lssl -lcrypto it speaks TLS, and trusts whoever answers.
 *
 * PLAN is a file of entries, one connection each, numbers big-endian:
 *   u16 port, u16 count, count x u32 position, u32 size, then the request frame of `size` bytes, its length first.
 * Each connection keeps DEPTH requests in flight to 127.0.0.1:port, or with an interval sends one every so many
 * milliseconds, which measures the latency of a calm client beside other load. A request is the frame with a fresh correlation
 * id, and with its sequence number (u64) at each of the positions: where a commit keeps its offsets, so that the
 * last ones can be read back.
 *
 * Every answer is read whole: its correlation id must be the next one, its error codes are counted, and it must end
 * where its fields end. Heartbeat, ConsumerGroupHeartbeat, OffsetCommit and Produce are understood, in every version. After SECONDS nothing
 * more is sent, and what is in flight is waited for.
 *
 * Prints one JSON object. `errors` counts answers by error code (the first in an answer that is not 0), `last` has
 * the sequence number of each connection's last answered request. Exits 1 when a connection breaks, an answer is
 * malformed or out of order, or answers are missing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef TLS
#include <openssl/ssl.h>
#endif

enum { PRODUCE = 0, OFFSET_COMMIT = 8, HEARTBEAT = 12, CONSUMER_GROUP_HEARTBEAT = 68 };
enum { BUCKETS = 2000000 }; /* of one microsecond each */

typedef struct {
    int fd, api, version, flexible;
    uint16_t port, positions;
    uint32_t *position;
    uint32_t frame_size;
    unsigned char *frame, *out;
    unsigned char *in;
    size_t in_size, in_used;
    uint64_t sent, answered;
    uint64_t send_next; /* when, with an interval */
    uint64_t *sent_at; /* nanoseconds, one per request in flight */
#ifdef TLS
    SSL *tls;
#endif
} Connection;

static uint32_t *histogram;
static uint64_t measured, slowest_ns, answered_in_all;
static uint64_t errors_by_code[65536];

static void die(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint32_t get32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put(unsigned char *p, uint64_t value, int size) {
    while (size--) { p[size] = (unsigned char)value; value >>= 8; }
}

/* ---- reading answers: a cursor that refuses to leave its frame ---- */

typedef struct { const unsigned char *at, *end; } Cursor;

static const unsigned char *take(Cursor *c, size_t size) {
    if ((size_t)(c->end - c->at) < size) die("an answer is shorter than its fields");
    const unsigned char *p = c->at;
    c->at += size;
    return p;
}

static int take16(Cursor *c) { const unsigned char *p = take(c, 2); return (int16_t)(p[0] << 8 | p[1]); }
static int32_t take32(Cursor *c) { return (int32_t)get32(take(c, 4)); }

static uint32_t take_uvarint(Cursor *c) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        unsigned char b = *take(c, 1);
        value |= (uint32_t)(b & 127) << shift;
        if (b < 128) return value;
    }
    die("a varint in an answer is too long");
    return 0;
}

static int32_t take_count(Cursor *c, int flexible) { return flexible ? (int32_t)take_uvarint(c) - 1 : take32(c); }

static void skip_text(Cursor *c, int flexible) {
    int32_t size = flexible ? (int32_t)take_uvarint(c) - 1 : take16(c);
    if (size > 0) take(c, (size_t)size);
}

static void skip_tags(Cursor *c, int flexible) {
    if (!flexible) return;
    for (uint32_t n = take_uvarint(c); n; n--) {
        take_uvarint(c);
        take(c, take_uvarint(c));
    }
}

static void note(int *error, int code) { if (*error == 0) *error = code; }

static int offset_commit_error(Cursor *c, int version, int flexible) {
    int error = 0;
    if (version >= 3) take32(c);
    for (int32_t topics = take_count(c, flexible); topics > 0; topics--) {
        if (version >= 10) take(c, 16); else skip_text(c, flexible);
        for (int32_t partitions = take_count(c, flexible); partitions > 0; partitions--) {
            take32(c);
            note(&error, take16(c));
            skip_tags(c, flexible);
        }
        skip_tags(c, flexible);
    }
    return error;
}

static int produce_error(Cursor *c, int version, int flexible) {
    int error = 0;
    for (int32_t topics = take_count(c, flexible); topics > 0; topics--) {
        if (version >= 13) take(c, 16); else skip_text(c, flexible);
        for (int32_t partitions = take_count(c, flexible); partitions > 0; partitions--) {
            take32(c);
            note(&error, take16(c));
            take(c, 8);
            if (version >= 2) take(c, 8);
            if (version >= 5) take(c, 8);
            if (version >= 8) {
                for (int32_t bad = take_count(c, flexible); bad > 0; bad--) {
                    take32(c);
                    skip_text(c, flexible);
                    skip_tags(c, flexible);
                }
                skip_text(c, flexible);
            }
            skip_tags(c, flexible);
        }
        skip_tags(c, flexible);
    }
    if (version >= 1) take32(c);
    return error;
}

static int consumer_group_heartbeat_error(Cursor *c) {
    take32(c);
    int error = take16(c);
    skip_text(c, 1);
    skip_text(c, 1);
    take(c, 8); /* the epoch and the interval */
    if (take(c, 1)[0] == 1) { /* an assignment */
        for (int32_t topics = take_count(c, 1); topics > 0; topics--) {
            take(c, 16);
            for (int32_t partitions = take_count(c, 1); partitions > 0; partitions--) take32(c);
            skip_tags(c, 1);
        }
        skip_tags(c, 1);
    }
    return error;
}

static int error_of(const Connection *connection, Cursor *c) {
    int flexible = connection->flexible, version = connection->version, error = 0;
    skip_tags(c, flexible);
    if (connection->api == HEARTBEAT) {
        if (version >= 1) take32(c);
        error = take16(c);
    } else if (connection->api == CONSUMER_GROUP_HEARTBEAT) {
        error = consumer_group_heartbeat_error(c);
    } else if (connection->api == OFFSET_COMMIT) {
        error = offset_commit_error(c, version, flexible);
    } else {
        error = produce_error(c, version, flexible);
    }
    skip_tags(c, flexible);
    if (c->at != c->end) die("an answer is longer than its fields");
    return error;
}

/* ---- one connection ---- */

#ifdef TLS
static ssize_t put_bytes(Connection *c, const unsigned char *bytes, size_t size) {
    return SSL_write(c->tls, bytes, (int)size);
}

/* 0 if what has come has no data: a session ticket, perhaps. */
static ssize_t get_bytes(Connection *c, unsigned char *bytes, size_t room) {
    int n = SSL_read(c->tls, bytes, (int)room);
    if (n > 0) return n;
    return SSL_get_error(c->tls, n) == SSL_ERROR_WANT_READ ? 0 : -1;
}

static int has_more(Connection *c) { return SSL_pending(c->tls) > 0; }

static void shake_hands(Connection *c) {
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    }
    c->tls = SSL_new(context);
    if (!c->tls || !SSL_set_fd(c->tls, c->fd) || SSL_connect(c->tls) != 1) die("no TLS connection");
}
#else
static ssize_t put_bytes(Connection *c, const unsigned char *bytes, size_t size) { return write(c->fd, bytes, size); }

static ssize_t get_bytes(Connection *c, unsigned char *bytes, size_t room) {
    ssize_t n = read(c->fd, bytes, room);
    return n > 0 ? n : -1;
}

static int has_more(Connection *c) { (void)c; return 0; }

static void shake_hands(Connection *c) { (void)c; }
#endif

static void write_all(Connection *c, const unsigned char *bytes, size_t size) {
    while (size) {
        ssize_t n = put_bytes(c, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) die("cannot write: connection broken");
        bytes += n;
        size -= (size_t)n;
    }
}

static void send_requests(Connection *c, int count, int depth) {
    unsigned char *p = c->out;
    uint64_t t = now_ns();
    for (int i = 0; i < count; i++, p += c->frame_size) {
        c->sent++;
        memcpy(p, c->frame, c->frame_size);
        put(p + 8, c->sent & 0x7fffffff, 4);
        for (int k = 0; k < c->positions; k++) put(p + c->position[k], c->sent, 8);
        c->sent_at[c->sent % (uint64_t)depth] = t;
    }
    write_all(c, c->out, (size_t)(p - c->out));
}

static void take_answer(Connection *c, const unsigned char *body, uint32_t size, int depth, uint64_t t, int measuring) {
    Cursor cursor = {body, body + size};
    c->answered++;
    if ((uint32_t)take32(&cursor) != (c->answered & 0x7fffffff)) die("answers are out of order");
    errors_by_code[(uint16_t)error_of(c, &cursor)]++;
    answered_in_all++;
    if (!measuring) return;
    uint64_t took = t - c->sent_at[c->answered % (uint64_t)depth], bucket = took / 1000;
    histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    measured++;
    if (took > slowest_ns) slowest_ns = took;
}

/* Take the answers that have come; returns how many. */
static int receive(Connection *c, int depth, int measuring) {
    do {
        ssize_t n = get_bytes(c, c->in + c->in_used, c->in_size - c->in_used);
        if (n < 0) die("connection closed by the broker");
        c->in_used += (size_t)n;
    } while (has_more(c) && c->in_used < c->in_size);
    uint64_t t = now_ns();
    size_t at = 0;
    int taken = 0;
    while (c->in_used - at >= 4) {
        uint32_t size = get32(c->in + at);
        if (size + 4 > c->in_size) die("an answer is too large");
        if (c->in_used - at < size + 4) break;
        take_answer(c, c->in + at + 4, size, depth, t, measuring);
        at += size + 4;
        taken++;
    }
    memmove(c->in, c->in + at, c->in_used - at);
    c->in_used -= at;
    return taken;
}

static int first_flexible(int api) {
    return api == CONSUMER_GROUP_HEARTBEAT ? 0 : api == HEARTBEAT ? 4 : api == OFFSET_COMMIT ? 8 : 9;
}

static void *need(void *p) {
    if (!p) die("out of memory");
    return p;
}

static int read_entry(FILE *f, Connection *c, int depth) {
    unsigned char b[4];
    if (fread(b, 1, 4, f) != 4) return 0;
    c->port = (uint16_t)(b[0] << 8 | b[1]);
    c->positions = (uint16_t)(b[2] << 8 | b[3]);
    c->position = need(calloc(c->positions + 1u, 4));
    for (int i = 0; i < c->positions; i++) {
        if (fread(b, 1, 4, f) != 4) die("the plan ends early");
        c->position[i] = get32(b);
    }
    if (fread(b, 1, 4, f) != 4) die("the plan ends early");
    c->frame_size = get32(b);
    c->frame = need(malloc(c->frame_size));
    if (fread(c->frame, 1, c->frame_size, f) != c->frame_size || c->frame_size < 14) die("the plan ends early");
    for (int i = 0; i < c->positions; i++)
        if (c->position[i] + 8 > c->frame_size) die("a position is outside its frame");
    c->api = c->frame[4] << 8 | c->frame[5];
    c->version = c->frame[6] << 8 | c->frame[7];
    if (c->api != HEARTBEAT && c->api != CONSUMER_GROUP_HEARTBEAT && c->api != OFFSET_COMMIT && c->api != PRODUCE)
        die("the plan has an API not known here");
    c->flexible = c->version >= first_flexible(c->api);
    c->out = need(malloc((size_t)c->frame_size * (size_t)depth));
    c->in_size = 1 << 17;
    c->in = need(malloc(c->in_size));
    c->sent_at = need(calloc((size_t)depth, sizeof(uint64_t)));
    return 1;
}

static void open_connection(Connection *c) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(c->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address)) die("cannot connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    shake_hands(c);
}

/* With an interval: send where it is time and the last request was answered; returns how many. */
static uint64_t send_due(Connection *all, int connections, uint64_t t, uint64_t interval) {
    uint64_t sent = 0;
    for (int i = 0; i < connections; i++) {
        if (t < all[i].send_next || all[i].sent != all[i].answered) continue;
        send_requests(&all[i], 1, 1);
        all[i].send_next += interval;
        sent++;
    }
    return sent;
}

static uint64_t percentile_us(double share) {
    uint64_t rank = (uint64_t)((double)measured * share), seen = 0;
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > rank) return (uint64_t)i;
    return BUCKETS - 1;
}

static void report(Connection *all, int connections, double seconds, uint64_t missing) {
    printf("{\"requests\": %llu, \"seconds\": %.3f, \"requests_per_s\": %.0f, \"p50_us\": %llu, \"p99_us\": %llu, "
           "\"max_us\": %llu, \"answers\": %llu, \"missing\": %llu, \"errors\": {",
           (unsigned long long)measured, seconds, (double)measured / seconds, (unsigned long long)percentile_us(.5),
           (unsigned long long)percentile_us(.99), (unsigned long long)(slowest_ns / 1000),
           (unsigned long long)answered_in_all, (unsigned long long)missing);
    const char *comma = "";
    for (int code = 1; code < 65536; code++)
        if (errors_by_code[code]) {
            printf("%s\"%d\": %llu", comma, (int16_t)code, (unsigned long long)errors_by_code[code]);
            comma = ", ";
        }
    printf("}, \"last\": [");
    for (int i = 0; i < connections; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)all[i].answered);
    printf("]}\n");
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: load PLAN DEPTH SECONDS WARMUP_SECONDS [INTERVAL_MS]\n");
        return 2;
    }
    int depth = atoi(argv[2]), connections = 0, room = 0;
    double seconds = atof(argv[3]), warmup = atof(argv[4]);
    uint64_t interval = argc == 6 ? (uint64_t)(atof(argv[5]) * 1e6) : 0;
    if (interval) depth = 1;
    FILE *f = fopen(argv[1], "rb");
    if (!f || depth < 1) die("cannot read the plan, or no depth");
    Connection *all = NULL;
    for (;;) {
        if (connections == room) all = need(realloc(all, sizeof *all * (size_t)(room = room * 2 + 16)));
        memset(&all[connections], 0, sizeof *all);
        if (!read_entry(f, &all[connections], depth)) break;
        connections++;
    }
    fclose(f);
    histogram = need(calloc(BUCKETS, sizeof *histogram));
    int poll = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        open_connection(&all[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    uint64_t began = now_ns(), in_flight = 0;
    for (int i = 0; i < connections; i++) {
        all[i].send_next = began + (interval ? interval * (uint64_t)i / (uint64_t)connections : 0);
        if (interval) continue;
        send_requests(&all[i], depth, depth);
        in_flight += (uint64_t)depth;
    }
    uint64_t measure_from = now_ns() + (uint64_t)(warmup * 1e9);
    uint64_t send_until = measure_from + (uint64_t)(seconds * 1e9), wait_until = send_until + 10000000000ull;
    uint64_t t;
    struct epoll_event events[256];
    while ((t = now_ns()) < wait_until && (in_flight || t < send_until)) {
        if (interval && t < send_until) in_flight += send_due(all, connections, t, interval);
        int n = epoll_wait(poll, events, 256, interval ? 1 : 100);
        int measuring = t >= measure_from && t < send_until;
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            int taken = receive(c, depth, measuring);
            if (taken && t < send_until && !interval) send_requests(c, taken, depth); else in_flight -= (uint64_t)taken;
        }
    }
    report(all, connections, seconds, in_flight);
    return in_flight != 0;
}
