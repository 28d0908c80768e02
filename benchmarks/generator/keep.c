/* The keep wire: length-prefixed protobuf packets, each signed (keep wire 1-3). The senders' packets are signed before
 * the run, because a signature costs the generator a third of what it costs the server; they are sent in order, and
 * again from the first when all have been. Receivers check that each sender's packets arrive in that order. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

enum {
    HEADER = 4,
    PACKETS = 1 << 15, /* signed ahead, by all senders together */
    BODY_BYTES = 100,
    NAME_ROOM = 32,
    FLOOD_BYTES = 1 << 20, /* kept ready to go by a sender that does not wait for its receiver */
};

struct sender {
    uint32_t sent, received; /* packets, and so the next one's number */
    uint64_t *sent_ns;       /* by number, modulo `packets_each` */
    bool floods;
};

static struct key {
    unsigned char public[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
} *keys; /* of all agents */

static struct bytes packets;       /* all of them, framed */
static size_t starts[PACKETS + 1]; /* where each begins */
static struct sender *senders;
static uint32_t packets_each;

/* Agents are in this order: the senders, those whose receivers will stop reading, the receivers, those who will stop.
 * The senders share the receivers; each of the others has one of its own. */
static int sender_count(void) { return options.senders + options.stopped; }
static bool sends(int index) { return index < sender_count(); }
static bool is_counted(int sender) { return sender < options.senders; }

static int receiver_of(int sender)
{
    int nth = is_counted(sender) ? sender % options.receivers : options.receivers + sender - options.senders;
    return sender_count() + nth;
}

static void write_name(int index, char name[NAME_ROOM])
{
    if (sends(index))
        snprintf(name, NAME_ROOM, "bot:sender-%d", index);
    else
        snprintf(name, NAME_ROOM, "bot:receiver-%d", index - sender_count());
}

/* ---- packets ---- */

static void append_text(struct bytes *b, unsigned char tag, const char *text, size_t size)
{
    unsigned char head[] = {tag, (unsigned char)size}; /* every text here is shorter than 128 bytes */
    if (size == 0)
        return; /* canonical is to leave it out */
    append(b, head, sizeof head);
    append(b, text, size);
}

/* In canonical form (keep wire 3): sig, pk, then what was signed. */
static void append_packet(struct bytes *b, int from, const char *to, const char *id, const char *body, size_t size)
{
    static struct bytes said;
    unsigned char signature[crypto_sign_BYTES];
    const struct key *key = &keys[from];
    char name[NAME_ROOM];
    write_name(from, name);
    said.size = 0;
    append_text(&said, 0x22, id, strlen(id));
    append_text(&said, 0x2a, name, strlen(name));
    append_text(&said, 0x32, to, strlen(to));
    append_text(&said, 0x3a, body, size);
    append(&said, "\x48\x3c", 2); /* ttl 60, as the SDK has it */

    crypto_sign_detached(signature, NULL, (unsigned char *)said.at, said.size, key->secret);
    uint32_t length = htonl((uint32_t)(2 + sizeof signature + 2 + sizeof key->public + said.size));
    append(b, &length, sizeof length);
    append_text(b, 0x0a, (char *)signature, sizeof signature);
    append_text(b, 0x12, (const char *)key->public, sizeof key->public);
    append(b, said.at, said.size);
}

static void make_keypairs(void)
{
    keys = calloc((size_t)agent_count, sizeof *keys);
    senders = calloc((size_t)sender_count(), sizeof *senders);
    if (!keys || !senders)
        die("out of memory");
    for (int i = 0; i < agent_count; i++) {
        unsigned char seed[crypto_sign_SEEDBYTES] = "moothall keep benchmark";
        memcpy(seed + sizeof seed - sizeof i, &i, sizeof i);
        crypto_sign_seed_keypair(keys[i].public, keys[i].secret, seed);
    }
}

/* Sender 0 has the first `packets_each`, sender 1 the next, and so on. */
static void sign_packets(void)
{
    char to[NAME_ROOM], id[40];
    for (uint32_t serial = 0; serial < packets_each * (uint32_t)sender_count(); serial++) {
        int from = (int)(serial / packets_each);
        write_name(receiver_of(from), to);
        snprintf(id, sizeof id, "%08x-70f0-4a11-8b3c-%012x", serial * 2654435761u, serial);
        starts[serial] = packets.size;
        append_packet(&packets, from, to, id, content_with(serial), BODY_BYTES);
        starts[serial + 1] = packets.size;
    }
    for (int i = 0; i < sender_count(); i++) {
        senders[i].sent_ns = calloc(packets_each, sizeof *senders[i].sent_ns);
        if (!senders[i].sent_ns)
            die("out of memory");
    }
}

static void send_packet(struct agent *a)
{
    struct sender *sender = &senders[a->index];
    uint32_t number = sender->sent++ % packets_each, serial = (uint32_t)a->index * packets_each + number;
    sender->sent_ns[number] = now_ns();
    append(&a->out, packets.at + starts[serial], starts[serial + 1] - starts[serial]);
    has_output(a);
}

/* ---- the wire ---- */

static void keep_greet(struct agent *a)
{
    append_packet(&a->out, a->index, "server", "hello", "", 0);
    has_output(a);
    a->stage = IDENTIFYING; /* until the "done" */
}

/* Packets of others are signed and begin with 0a 40; what begins otherwise is the server's own (keep wire 7). */
static void on_packet(struct agent *a, const char *packet, size_t size)
{
    uint32_t serial;
    if (packet[0] == 0x0a) {
        if (!read_serial(packet, size, &serial))
            die("agent %d was sent a packet that nobody wrote", a->index);
        workload->received(a, serial);
    } else if (memmem(packet, size, "\x3a\x04" "done", 6)) {
        became_ready(a);
    } else if (memmem(packet, size, "error:", 6) && !(sends(a->index) && senders[a->index].floods)) {
        die("agent %d (%s) was sent %.*s", a->index, stage_names[a->stage], (int)size, packet);
    }
}

static size_t keep_take(struct agent *a, const char *at, size_t size)
{
    size_t taken = 0;
    while (size - taken >= HEADER) {
        uint32_t length;
        memcpy(&length, at + taken, HEADER);
        length = ntohl(length);
        if (size - taken < HEADER + length)
            break;
        on_packet(a, at + taken + HEADER, length);
        taken += HEADER + length;
    }
    return taken;
}

const struct wire keep = {"keep", keep_greet, keep_take, NULL};

/* ---- the workload ---- */

int keep_cast(void)
{
    return sender_count() + options.receivers + options.stopped;
}

void keep_prepare(void)
{
    packets_each = PACKETS / (uint32_t)sender_count();
    if (packets_each <= (uint32_t)options.in_flight)
        die("%u packets of each sender are too few for %d under way", packets_each, options.in_flight);
    for (int i = options.senders; i < sender_count(); i++)
        agents[receiver_of(i)].stops_reading = true;
    make_keypairs();
    sign_packets();
}

void keep_start(void)
{
    for (int i = 0; i < sender_count(); i++)
        for (int j = 0; j < options.in_flight; j++)
            send_packet(&agents[i]);
}

/* The receivers stop, and their senders no longer wait for them. */
void keep_window_opened(void)
{
    for (int i = options.senders; i < sender_count(); i++) {
        senders[i].floods = true;
        stop_reading(&agents[receiver_of(i)]);
    }
}

bool keep_busy(void)
{
    for (int i = options.senders; i < sender_count(); i++)
        while (senders[i].floods && agents[i].out.size - agents[i].written < FLOOD_BYTES)
            send_packet(&agents[i]);
    return false;
}

void keep_received(struct agent *a, uint32_t serial)
{
    int from = (int)(serial / packets_each);
    struct sender *sender = &senders[from];
    uint32_t number = sender->received++ % packets_each;
    if (receiver_of(from) != a->index || serial % packets_each != number)
        die("receiver %d got packet %u of sender %d when %u was next", a->index, serial % packets_each, from, number);
    if (is_counted(from))
        count_done(sender->sent_ns[number]);
    if (!sender->floods)
        send_packet(&agents[from]);
}
