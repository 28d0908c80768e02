/* The Redis wire, RESP3: an agent subscribes to the channel that is its id, and may publish on the same connection. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

static void send_word(struct agent *a, const char *word, size_t size)
{
    char head[16];
    append(&a->out, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", size));
    append(&a->out, word, size);
    append(&a->out, "\r\n", 2);
}

/* A command of one word, or of two. */
static void send_command(struct agent *a, const char *name, const char *argument)
{
    append(&a->out, argument ? "*2\r\n" : "*1\r\n", 4);
    send_word(a, name, strlen(name));
    if (argument)
        send_word(a, argument, strlen(argument));
    has_output(a);
}

static void redis_greet(struct agent *a)
{
    char channel[64];
    snprintf(a->id, sizeof a->id, "@%d", a->index);
    snprintf(channel, sizeof channel, "#%s", options.channel);
    send_command(a, "HELLO", "3");
    send_command(a, "SUBSCRIBE", a->id);
    if (workload->in_channel(a))
        send_command(a, "SUBSCRIBE", channel);
    send_command(a, "PING", NULL);
    a->stage = IDENTIFYING; /* until the PONG */
}

static void redis_say(struct agent *from, const char *to, uint32_t serial)
{
    append(&from->out, "*3\r\n", 4);
    send_word(from, "PUBLISH", 7);
    send_word(from, to, strlen(to));
    send_word(from, content_with(serial), CONTENT_BYTES);
    has_output(from);
}

/* The size of the value at the start, with all that it contains; 0 if its end has not arrived. */
static size_t value_size(const char *at, size_t size)
{
    const char *newline = memchr(at, '\n', size);
    if (!newline)
        return 0;
    size_t length = (size_t)(newline + 1 - at);
    long count = strtol(at + 1, NULL, 10);
    switch (*at) {
    case '$':
        if (count >= 0)
            length += (size_t)count + 2;
        return length <= size ? length : 0;
    case '%':
        count *= 2; /* a map: names and values */
        /* fall through */
    case '*':
    case '>':
        for (; count > 0; count--) {
            size_t more = length < size ? value_size(at + length, size - length) : 0;
            if (!more)
                return 0;
            length += more;
        }
        return length;
    case '+': case '-': case ':': case '_':
        return length;
    default:
        die("Redis sent %.*s", (int)length, at);
    }
}

/* Pushes `message`, channel and content; the answers to commands: how many a PUBLISH reached, and PONG. */
static size_t redis_take(struct agent *a, const char *at, size_t size)
{
    static const char pushed[] = ">3\r\n$7\r\nmessage\r\n";
    size_t taken = 0;
    while (taken < size) {
        const char *value = at + taken;
        size_t length = value_size(value, size - taken);
        uint32_t serial;
        if (!length)
            break;
        if (*value == '-')
            die("agent %d (%s) was sent %.*s", a->index, stage_names[a->stage], (int)length, value);
        if (length > sizeof pushed && memcmp(value, pushed, sizeof pushed - 1) == 0) {
            if (read_serial(value, length, &serial))
                workload->received(a, serial);
        } else if (length == 7 && memcmp(value, "+PONG", 5) == 0) {
            became_ready(a);
        }
        taken += length;
    }
    return taken;
}

const struct wire redis = {"redis", redis_greet, redis_take, redis_say};
