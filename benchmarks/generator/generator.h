/*
 * generator: a load generator for one relay server on 127.0.0.1, or for the nodes of one hall.
 *
 *     generator WORKLOAD --port PORT[,PORT...] --pid PID[,PID...] [options]
 *
 * One thread, one epoll. It plays every agent of a workload at once and prints one line of JSON about a
 * measured window: how much was delivered, how long it took, how much CPU the server used for it, and how much
 * the generator itself used (a generator without headroom measures itself). Four wires: agentchat (JSON over
 * WebSocket), NATS, Redis (RESP3) and keep (signed protobuf packets).
 *
 *     fanout     --senders senders (1), --members readers in one channel, --in-flight messages under way: after as
 *                many deliveries as a message has readers, the next sender sends the next. --stopped further
 *                members read along until the window opens, and never again.
 *     dm         --agents agents in pairs; both speak first, and every message received is answered by one
 *     echo       --agents connections, each sending its message again when it comes back (an echo server only)
 *     handshake  --handshakes connections, --parallel at a time, each from connect to WELCOME and a clean close;
 *                --verified proves an Ed25519 key on the way, each time another one or, with --keys, one of so
 *                many, which come back; --crowd agents are connected all the while
 *     hold       --connections identified agents that do nothing: what does each cost in memory?
 *     storm      --connections agents that connect and join one channel as fast as they can
 *     join       --joiners agents join and leave, again and again, a channel with --members members and
 *                --buffered messages to replay
 *     deals      --pairs pairs, each dealing again and again: PROPOSAL, ACCEPT with stakes on both sides, COMPLETE,
 *                every one of them signed
 *     chat       --talkers pairs in which one sends the other a message a hundred times a second, while --pairs others
 *                deal; a delivery is a chat message, a notice a deal
 *
 *     keep       --senders agents write to --receivers others, each with --in-flight packets under way, signed before
 *                the run. With --stopped, so many further receivers, each with a sender of its own, read until the
 *                window opens and never again, while their senders go on; only the others are counted.
 *
 * With several ports, --place says which agents connect where: `round` (the default) deals them out one by one,
 * `pairs` two by two, and `apart` has the first agent at the first port and all others at the other ports.
 *
 * Any ERROR frame, refused connection, unexpected close or silence of ten seconds ends the run with a message on
 * stderr and exit code 1.
 *
 * The files: main.c (options, the course of a run, the report), workloads.c (what the agents do), messages.c (what
 * they say), deals.c (what they sign), keep.c (that wire and its workload), agents.c (connections and the loop), agentchat.c on
 * websocket.c, nats.c and redis.c (the other wires), measure.c.
 */

#ifndef GENERATOR_H
#define GENERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_PORTS = 16 };

struct options {
    const char *workload, *wire, *channel, *pids, *place;
    int ports[MAX_PORTS], port_count, members, in_flight, stopped, agents, connections, joiners, buffered;
    int handshakes, parallel, keys, crowd, pairs, talkers, senders, receivers;
    bool verified;
    double seconds, warm_up;
};

extern struct options options;

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* ---- measure.c ---- */

struct reading {
    uint64_t at_ns;
    double server_cpu, own_cpu; /* seconds, user + system, of all threads */
    long server_rss_kb;
    double machine, machine_busy; /* seconds of all processors, and what processes and other guests took of it */
};

/* What the window counts. `done` is the workload's unit: a delivery, a handshake, a connection held, a join and
 * leave. */
struct window {
    bool open;
    struct reading start, end;
    uint64_t done, notices;
};

extern struct window window;
extern uint64_t progress; /* grows with everything that happens; stands still in a stall */

uint64_t now_ns(void);
uint64_t wall_clock_ms(void);
struct reading take_reading(void);
void count_done(uint64_t began_ns);
double latency_quantile_us(double quantile);
double latency_max_us(void);

/* ---- agents.c ---- */

struct bytes {
    char *at;
    size_t size, room;
};

enum stage { ABSENT, CONNECTING, UPGRADING, IDENTIFYING, PROVING, JOINING, READY, LEAVING, CLOSING };

extern const char *const stage_names[];

struct agent {
    int fd, index;
    enum stage stage;
    bool waits_to_write, has_news; /* news: output gathered in this turn of the loop */
    bool stops_reading;
    struct bytes out;     /* `written` of it has left already */
    size_t written;
    struct bytes partial; /* the start of a frame whose rest has not arrived */
    char id[32];          /* as WELCOME gave it, with its @ */
    long key;
    int replayed;
    uint64_t began_ns;
};

extern struct agent *agents;
extern int agent_count, ready_count;
extern int open_until; /* agents connect in order, up to this index */

char *reserve(struct bytes *, size_t more);
void append(struct bytes *, const void *from, size_t size);
void has_output(struct agent *);
void gather_agents(int count);
int port_of(const struct agent *);
void open_connection(struct agent *);
void stop_reading(struct agent *);
void became_ready(struct agent *);
void turn(void);

/* ---- the wires ---- */

struct wire {
    const char *name;
    void (*greet)(struct agent *);
    /* Handles every whole frame and returns how many bytes they were. */
    size_t (*take)(struct agent *, const char *bytes, size_t size);
    void (*say)(struct agent *from, const char *to, uint32_t serial);
};

extern const struct wire agentchat, nats, redis, keep;
extern const struct wire *wire;

enum opcode { CONTINUATION = 0x0, TEXT = 0x1, CLOSE = 0x8, PING = 0x9, PONG = 0xa };

void websocket_greet(struct agent *);
size_t websocket_take(struct agent *, const char *at, size_t size);
void send_frame(struct agent *, enum opcode, const char *payload, size_t size);

void on_upgraded(struct agent *);
void on_text(struct agent *, const char *text, size_t size);
void make_keys(long count);

enum { SIGNATURE_ROOM = 128 };

void sign(struct agent *, const char *text, char base64[SIGNATURE_ROOM]);
__attribute__((format(printf, 2, 3))) void send_json(struct agent *, const char *format, ...);
void demand_string(const char *text, size_t size, const char *name, char *value, size_t room);
void join_channel(struct agent *);
void leave_channel(struct agent *);
void say_goodbye(struct agent *);

/* ---- messages.c ---- */

enum { CONTENT_BYTES = 300 };

void write_content(void);
const char *content_with(uint32_t serial);
bool read_serial(const char *text, size_t size, uint32_t *serial);
void send_message(struct agent *from, const char *to, int awaited);
int count_delivery(uint32_t serial);

/* ---- deals.c ---- */

void offer_deal(struct agent *proposer);
void on_deal_notice(struct agent *, const char *type, const char *text, size_t size);
bool take_next_step(void);

/* ---- keep.c ---- */

int keep_cast(void);
void keep_prepare(void);
void keep_start(void);
void keep_window_opened(void);
bool keep_busy(void);
void keep_received(struct agent *, uint32_t serial);

/* ---- workloads.c ---- */

/* Members left NULL are for what the workload does not do. */
struct workload {
    const char *name;
    bool on_brokers;                  /* can be played over NATS and Redis too */
    bool on_keep;                     /* is played over keep, and only there */
    bool anonymous;                   /* nobody identifies */
    int (*cast)(void);                /* how many agents there are */
    int (*present)(void);             /* how many are to be ready before the start; all of them if NULL */
    void (*prepare)(void);            /* before the first connection */
    bool (*in_channel)(struct agent *);
    void (*start)(void);
    bool (*warm)(double seconds);     /* since the start */
    void (*window_opened)(void);
    bool (*finished)(double seconds); /* since the window opened */
    void (*received)(struct agent *, uint32_t serial);
    void (*ready)(struct agent *);    /* an agent became ready after the start */
    void (*left)(struct agent *);     /* LEFT arrived, or the connection ended as agreed */
    bool (*busy)(void);               /* does one thing between two looks at the sockets; whether more is to be done */
    void (*dealt)(uint64_t began_ns); /* both parties know that a deal is completed */
};

extern const struct workload workloads[];
extern const struct workload *workload;
extern bool started;

#endif
