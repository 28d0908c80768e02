/* The NATS wire: an agent listens on the subject that is its id, and a channel is a subject too. */

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

__attribute__((format(printf, 2, 3))) static void send_line(struct agent *a, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    append(&a->out, line, (size_t)size);
    append(&a->out, "\r\n", 2);
    has_output(a);
}

static void nats_greet(struct agent *a)
{
    snprintf(a->id, sizeof a->id, "@%d", a->index);
    send_line(a, "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false,\"name\":\"bench-%d\"}", a->index);
    send_line(a, "SUB %s 1", a->id);
    if (workload->in_channel(a))
        send_line(a, "SUB #%s 2", options.channel);
    send_line(a, "PING");
    a->stage = IDENTIFYING; /* until the PONG */
}

static void nats_say(struct agent *from, const char *to, uint32_t serial)
{
    send_line(from, "PUB %s %d", to, CONTENT_BYTES);
    append(&from->out, content_with(serial), CONTENT_BYTES);
    append(&from->out, "\r\n", 2);
}

static void on_line(struct agent *a, const char *line, size_t size)
{
    if (size >= 4 && memcmp(line, "PING", 4) == 0)
        send_line(a, "PONG");
    else if (size >= 4 && memcmp(line, "PONG", 4) == 0)
        became_ready(a);
    else if (size >= 4 && memcmp(line, "-ERR", 4) == 0)
        die("agent %d (%s) was sent %.*s", a->index, stage_names[a->stage], (int)size, line);
}

/* `MSG subject sid size` and its payload, or any other line. */
static size_t nats_take(struct agent *a, const char *at, size_t size)
{
    size_t taken = 0;
    const char *newline;
    while ((newline = memchr(at + taken, '\n', size - taken))) {
        const char *line = at + taken;
        size_t length = (size_t)(newline + 1 - line);
        if (length > 4 && memcmp(line, "MSG ", 4) == 0) {
            const char *last_field = memrchr(line, ' ', length);
            size_t payload = strtoul(last_field + 1, NULL, 10);
            if (size - taken < length + payload + 2)
                break;
            uint32_t serial;
            if (read_serial(line + length, payload, &serial))
                workload->received(a, serial);
            length += payload + 2;
        } else {
            on_line(a, line, length);
        }
        taken += length;
    }
    return taken;
}

const struct wire nats = {"nats", nats_greet, nats_take, nats_say};
