/* The agents' connections, and the loop that turns for all of them. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "generator.h"

enum {
    STALL_SECONDS = 10,
    TURN_MS = 50,          /* how long a turn waits at most: how precisely an idle window ends */
    CHAT_TURN_MS = 1,      /* how late a message that is sent by the clock may be */
    OPENING_AT_ONCE = 64,  /* stays below every server's accept backlog */
    SOURCE_ADDRESSES = 64, /* 127.0.0.2 and up: each address has its own range of ports */
    STOPPED_RECEIVE_BUFFER = 64 * 1024,
    EVENTS_PER_TURN = 1024,
    SCRATCH_BYTES = 1 << 20,
};

const char *const stage_names[] = {
    "absent", "connecting", "upgrading", "identifying", "proving", "joining", "ready", "leaving", "closing",
};

struct agent *agents;
int agent_count, ready_count, open_until;

static int epoll_fd, opened_count;
static int *news, news_count; /* indices of agents with output to flush */

/* Makes room for `more` bytes and returns where they go; the caller adds to `size`. */
char *reserve(struct bytes *b, size_t more)
{
    if (b->size + more > b->room) {
        b->room = (b->size + more) * 2;
        b->at = realloc(b->at, b->room);
        if (!b->at)
            die("out of memory");
    }
    return b->at + b->size;
}

void append(struct bytes *b, const void *from, size_t size)
{
    memcpy(reserve(b, size), from, size);
    b->size += size;
}

static void release(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){0};
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)agent_count + 16)
        die("%d connections need more than the %lu open files allowed here (ulimit -n)", agent_count,
            (unsigned long)limit.rlim_cur);
}

void gather_agents(int count)
{
    agent_count = count;
    raise_file_limit();
    agents = calloc((size_t)agent_count, sizeof *agents);
    news = calloc((size_t)agent_count, sizeof *news);
    epoll_fd = epoll_create1(0);
    if (!agents || !news || epoll_fd < 0)
        die("cannot set up %d agents", agent_count);
    for (int i = 0; i < agent_count; i++)
        agents[i] = (struct agent){
            .fd = -1, .index = i, .stops_reading = options.stopped && i >= options.senders + options.members,
        };
}

static void watch(struct agent *a, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)a->index};
    if (epoll_ctl(epoll_fd, operation, a->fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

int port_of(const struct agent *a)
{
    int count = options.port_count, index = a->index;
    if (count == 1)
        return options.ports[0];
    if (strcmp(options.place, "round") == 0)
        return options.ports[index % count];
    if (strcmp(options.place, "pairs") == 0)
        return options.ports[index / 2 % count];
    if (strcmp(options.place, "apart") == 0)
        return options.ports[index ? 1 + (index - 1) % (count - 1) : 0];
    die("--place is round, pairs or apart");
}

void open_connection(struct agent *a)
{
    static uint32_t next_source;
    a->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (a->fd < 0)
        die("socket: %s", strerror(errno));

    int yes = 1;
    setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (a->stops_reading) {
        int small = STOPPED_RECEIVE_BUFFER;
        setsockopt(a->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
    /* Choose the port at connect, when the whole address pair is known, not at bind. */
    setsockopt(a->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + next_source++ % SOURCE_ADDRESSES);
    if (bind(a->fd, (struct sockaddr *)&source, sizeof source) < 0)
        die("bind: %s", strerror(errno));

    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(a))};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a->stage = CONNECTING;
    a->waits_to_write = true;
    a->began_ns = now_ns();
    if (connect(a->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS)
        die("connect to port %d: %s", port_of(a), strerror(errno));
    watch(a, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

void stop_reading(struct agent *a)
{
    watch(a, EPOLL_CTL_DEL, 0);
}

static void close_connection(struct agent *a)
{
    close(a->fd);
    a->fd = -1;
    a->stage = ABSENT;
    a->written = 0;
    release(&a->out);
    release(&a->partial);
}

void has_output(struct agent *a)
{
    if (!a->has_news) {
        a->has_news = true;
        news[news_count++] = a->index;
    }
}

static void flush(struct agent *a)
{
    while (a->written < a->out.size) {
        ssize_t n = send(a->fd, a->out.at + a->written, a->out.size - a->written, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            die("agent %d (%s): send: %s", a->index, stage_names[a->stage], strerror(errno));
        a->written += (size_t)n;
    }
    bool unfinished = a->written < a->out.size;
    if (unfinished != a->waits_to_write) {
        a->waits_to_write = unfinished;
        watch(a, EPOLL_CTL_MOD, EPOLLIN | (unfinished ? EPOLLOUT : 0));
    }
    if (!unfinished)
        a->written = a->out.size = 0;
}

/* One write per agent and turn, however many messages it sent: the server under test is the one to be busy. */
static void flush_news(void)
{
    for (int i = 0; i < news_count; i++) {
        struct agent *a = &agents[news[i]];
        a->has_news = false;
        if (a->fd >= 0 && a->stage != CONNECTING)
            flush(a);
    }
    news_count = 0;
}

void became_ready(struct agent *a)
{
    a->stage = READY;
    ready_count++;
    progress++;
    if (started && workload->ready)
        workload->ready(a);
}

static void on_connected(struct agent *a)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        die("connect to port %d: %s", port_of(a), strerror(error));
    wire->greet(a);
}

static void on_end_of_stream(struct agent *a, int error)
{
    if (a->stage != CLOSING)
        die("agent %d (%s) was cut off: %s", a->index, stage_names[a->stage],
            error ? strerror(error) : "end of stream");
    close_connection(a);
    workload->left(a);
}

static void receive(struct agent *a)
{
    static char scratch[SCRATCH_BYTES];
    size_t size = a->partial.size;
    if (size)
        memcpy(scratch, a->partial.at, size);
    ssize_t n = recv(a->fd, scratch + size, sizeof scratch - size, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        on_end_of_stream(a, n < 0 ? errno : 0);
        return;
    }
    size += (size_t)n;
    size_t taken = wire->take(a, scratch, size);
    a->partial.size = 0;
    if (taken < size)
        append(&a->partial, scratch + taken, size - taken);
}

static void die_if_stalled(void)
{
    static uint64_t progress_seen, since_ns;
    uint64_t now = now_ns();
    if (progress != progress_seen || !since_ns) {
        progress_seen = progress;
        since_ns = now;
    } else if (now - since_ns > STALL_SECONDS * 1000000000ull) {
        die("stalled: nothing for %d s with %d of %d agents ready, %lu %s done", STALL_SECONDS, ready_count,
            agent_count, (unsigned long)window.done, window.open ? "in the window" : "before the window");
    }
}

void turn(void)
{
    while (opened_count < open_until && opened_count - ready_count < OPENING_AT_ONCE)
        open_connection(&agents[opened_count++]);
    bool busy = started && workload->busy && workload->busy();
    flush_news();

    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(epoll_fd, events, EVENTS_PER_TURN, busy ? 0 : options.talkers ? CHAT_TURN_MS : TURN_MS);
    for (int i = 0; i < count; i++) {
        struct agent *a = &agents[events[i].data.u32];
        if (a->stage == CONNECTING)
            on_connected(a);
        else if (events[i].events & EPOLLOUT)
            flush(a);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            receive(a);
    }
    flush_news();
    die_if_stalled();
}
