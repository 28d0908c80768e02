/* What the agents of each workload do. */

#include <stdio.h>

#include "generator.h"

enum {
    SETTLE_SECONDS = 1, /* quiet time before memory is read */
    HOLD_WARM_UP = 100, /* connections made before the first memory reading, so that code and caches are in */
};

static const char *channel_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "#%s", options.channel);
    return name;
}

static bool nobody(struct agent *a) { (void)a; return false; }
static bool warm_by_the_clock(double seconds) { return seconds >= options.warm_up; }
static bool finished_by_the_clock(double seconds) { return seconds >= options.seconds; }

/* fanout: the first `senders` agents send in turn, the next `members` read, and the rest will stop reading. An agent
 * that speaks in an agentchat channel is in it, and so reads the other senders; a publisher of NATS or Redis need not
 * subscribe. */

static int fanout_cast(void) { return options.senders + options.members + options.stopped; }
static bool fanout_in_channel(struct agent *a) { return wire == &agentchat || a->index >= options.senders; }

static int fanout_sender(uint32_t serial) { return (int)(serial % (uint32_t)options.senders); }

static int fanout_readers(void) { return options.members + (wire == &agentchat ? options.senders - 1 : 0); }

static void fanout_send(void)
{
    static uint32_t serial; /* of the next message: nothing else is sent */
    send_message(&agents[fanout_sender(serial++)], channel_name(), fanout_readers());
}

static void fanout_start(void)
{
    for (int i = 0; i < options.in_flight; i++)
        fanout_send();
}

static void fanout_window_opened(void)
{
    for (int i = options.senders + options.members; i < agent_count; i++)
        stop_reading(&agents[i]);
}

static void fanout_received(struct agent *a, uint32_t serial)
{
    static uint64_t deliveries;
    if (a->index == fanout_sender(serial) || a->stops_reading)
        return; /* an echo to the sender, or a member that no message waits for */
    count_delivery(serial);
    if (++deliveries % (uint64_t)fanout_readers() == 0)
        fanout_send();
}

/* dm: agents 0 and 1 are a pair, 2 and 3, and so on. Both speak first, so two messages are under way in each. */

static int dm_cast(void) { return options.agents & ~1; }

static void dm_start(void)
{
    for (int i = 0; i < agent_count; i++)
        send_message(&agents[i], agents[i ^ 1].id, 1);
}

static void dm_received(struct agent *a, uint32_t serial)
{
    count_delivery(serial);
    send_message(a, agents[a->index ^ 1].id, 1);
}

/* echo: every connection talks to itself. */

static int echo_cast(void) { return options.agents; }

static void echo_start(void)
{
    for (int i = 0; i < agent_count; i++)
        send_message(&agents[i], "@echo", 1);
}

static void echo_received(struct agent *a, uint32_t serial)
{
    count_delivery(serial);
    send_message(a, "@echo", 1);
}

/* handshake: the crowd is there first and stays; the last `parallel` agents come and go. */

static int handshakes_begun, handshakes_done;

static int handshake_cast(void) { return options.crowd + options.parallel; }
static int handshake_present(void) { return options.crowd; }
static int handshakes_to_warm_up(void) { return options.handshakes / 10; }
static int handshakes_in_all(void) { return handshakes_to_warm_up() + options.handshakes; }
static bool handshake_warm(double seconds) { (void)seconds; return handshakes_done >= handshakes_to_warm_up(); }
static bool handshake_finished(double seconds) { (void)seconds; return handshakes_done == handshakes_in_all(); }

static void begin_handshake(struct agent *a)
{
    if (handshakes_begun < handshakes_in_all()) {
        handshakes_begun++;
        open_connection(a);
    }
}

static void handshake_start(void)
{
    for (int i = options.crowd; i < agent_count; i++)
        begin_handshake(&agents[i]);
}

static void handshake_ready(struct agent *a)
{
    handshakes_done++;
    count_done(a->began_ns);
    say_goodbye(a);
}

/* hold: the window opens when the first few are in and quiet, and closes when all are. */

static uint64_t last_arrival_ns;

static int hold_cast(void) { return HOLD_WARM_UP + options.connections; }
static int hold_present(void) { return HOLD_WARM_UP; }
static bool hold_warm(double seconds) { return seconds >= SETTLE_SECONDS; }
static void hold_window_opened(void) { open_until = agent_count; }

static void hold_ready(struct agent *a)
{
    last_arrival_ns = now_ns();
    count_done(a->began_ns);
}

static bool hold_finished(double seconds)
{
    (void)seconds;
    return ready_count == agent_count && (double)(now_ns() - last_arrival_ns) / 1e9 >= SETTLE_SECONDS;
}

/* storm: as hold, in one channel. */

static bool everybody(struct agent *a) { (void)a; return true; }

/* join: first the members, then the one whose messages fill the buffer, then the joiners. */

static int messages_buffered;

static int join_cast(void) { return options.members + 1 + options.joiners; }
static bool join_in_channel(struct agent *a) { return a->index <= options.members; }

static bool join_warm(double seconds)
{
    return messages_buffered == options.buffered && warm_by_the_clock(seconds);
}

static void begin_cycle(struct agent *a)
{
    a->began_ns = now_ns();
    join_channel(a);
}

/* The buffer is filled one message after the other, and then the joiners begin. */
static void fill_buffer(void)
{
    if (messages_buffered < options.buffered)
        send_message(&agents[options.members], channel_name(), options.members);
    else
        for (int i = options.members + 1; i < agent_count; i++)
            begin_cycle(&agents[i]);
}

static void join_received(struct agent *a, uint32_t serial)
{
    if (a->index < options.members && count_delivery(serial) == 0) {
        messages_buffered++;
        fill_buffer();
    }
}

static void join_ready(struct agent *a)
{
    if (a->replayed != options.buffered)
        die("JOINED came after %d replayed messages, not %d", a->replayed, options.buffered);
    leave_channel(a);
}

static void join_left(struct agent *a)
{
    count_done(a->began_ns);
    begin_cycle(a);
}

/* deals: agents 0 and 1 are a pair, 2 and 3, and so on. */

static int deals_cast(void) { return 2 * options.pairs; }

static void deals_start(void)
{
    for (int i = 0; i < options.pairs; i++)
        offer_deal(&agents[2 * i]);
}

/* chat: the talkers come after the pairs; they send by the clock, whatever the server does, so that a message that
 * is held up holds up no other. */

enum { CHAT_INTERVAL_MS = 10 };

static uint64_t next_message_ns;
static int next_talker;

static int chat_cast(void) { return 2 * options.pairs + 2 * options.talkers; }

static void chat_start(void)
{
    next_message_ns = now_ns();
    deals_start();
}

static bool chat_busy(void)
{
    if (now_ns() >= next_message_ns) {
        struct agent *talker = &agents[2 * (options.pairs + next_talker++ % options.talkers)];
        send_message(talker, talker[1].id, 1);
        next_message_ns += CHAT_INTERVAL_MS * 1000000ull / (uint64_t)options.talkers;
    }
    return take_next_step();
}

static void chat_received(struct agent *a, uint32_t serial)
{
    (void)a;
    count_delivery(serial);
}

static void chat_dealt(uint64_t began_ns)
{
    (void)began_ns;
    window.notices += window.open;
}

const struct workload workloads[] = {
    {
        .name = "fanout", .on_brokers = true, .cast = fanout_cast, .in_channel = fanout_in_channel,
        .start = fanout_start, .received = fanout_received,
        .warm = warm_by_the_clock, .window_opened = fanout_window_opened, .finished = finished_by_the_clock,
    }, {
        .name = "dm", .on_brokers = true, .cast = dm_cast, .in_channel = nobody,
        .start = dm_start, .received = dm_received,
        .warm = warm_by_the_clock, .finished = finished_by_the_clock,
    }, {
        .name = "echo", .anonymous = true, .cast = echo_cast, .in_channel = nobody,
        .start = echo_start, .received = echo_received,
        .warm = warm_by_the_clock, .finished = finished_by_the_clock,
    }, {
        .name = "handshake", .cast = handshake_cast, .present = handshake_present, .in_channel = nobody,
        .start = handshake_start, .ready = handshake_ready, .left = begin_handshake,
        .warm = handshake_warm, .finished = handshake_finished,
    }, {
        .name = "hold", .on_brokers = true, .cast = hold_cast, .present = hold_present, .in_channel = nobody,
        .ready = hold_ready,
        .warm = hold_warm, .window_opened = hold_window_opened, .finished = hold_finished,
    }, {
        .name = "storm", .cast = hold_cast, .present = hold_present, .in_channel = everybody,
        .ready = hold_ready,
        .warm = hold_warm, .window_opened = hold_window_opened, .finished = hold_finished,
    }, {
        .name = "join", .cast = join_cast, .in_channel = join_in_channel,
        .start = fill_buffer, .received = join_received, .ready = join_ready, .left = join_left,
        .warm = join_warm, .finished = finished_by_the_clock,
    }, {
        .name = "deals", .cast = deals_cast, .in_channel = nobody,
        .start = deals_start, .busy = take_next_step, .dealt = count_done,
        .warm = warm_by_the_clock, .finished = finished_by_the_clock,
    }, {
        .name = "chat", .cast = chat_cast, .in_channel = nobody,
        .start = chat_start, .busy = chat_busy, .received = chat_received, .dealt = chat_dealt,
        .warm = warm_by_the_clock, .finished = finished_by_the_clock,
    }, {
        .name = "keep", .on_keep = true, .cast = keep_cast, .prepare = keep_prepare, .in_channel = nobody,
        .start = keep_start, .busy = keep_busy, .received = keep_received,
        .warm = warm_by_the_clock, .window_opened = keep_window_opened, .finished = finished_by_the_clock,
    },
    {0},
};
