/* The client side of RFC 6455, as far as a relay server on loopback needs it. */

#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "generator.h"

/* Appends `size` bytes under the mask, eight at a time. */
static void append_masked(struct bytes *out, const char *from, size_t size, uint32_t mask)
{
    char *to = reserve(out, size);
    uint64_t wide = (uint64_t)mask << 32 | mask;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t chunk;
        memcpy(&chunk, from + i, 8);
        chunk ^= wide;
        memcpy(to + i, &chunk, 8);
    }
    for (; i < size; i++)
        to[i] = from[i] ^ ((const char *)&mask)[i & 3];
    out->size += size;
}

void send_frame(struct agent *a, enum opcode opcode, const char *payload, size_t size)
{
    static uint32_t mask = 0x9e3779b9;
    mask ^= mask << 13, mask ^= mask >> 17, mask ^= mask << 5;

    unsigned char header[8] = {(unsigned char)(0x80 | opcode)};
    size_t length = 2;
    if (size < 126) {
        header[1] = (unsigned char)(0x80 | size);
    } else {
        if (size > UINT16_MAX)
            die("no workload sends frames of %zu bytes", size);
        header[1] = 0x80 | 126;
        header[2] = (unsigned char)(size >> 8);
        header[3] = (unsigned char)size;
        length = 4;
    }
    memcpy(header + length, &mask, sizeof mask);
    append(&a->out, header, length + sizeof mask);
    append_masked(&a->out, payload, size, mask);
    has_output(a);
}

void websocket_greet(struct agent *a)
{
    char request[256];
    int size = snprintf(request, sizeof request,
                        "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: bW9vdGhhbGwgYmVuY2hteA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                        port_of(a));
    append(&a->out, request, (size_t)size);
    has_output(a);
    a->stage = UPGRADING;
}

struct frame {
    enum opcode opcode;
    const char *payload;
    size_t size, whole; /* whole: with its header */
};

static bool next_frame(const char *at, size_t size, struct frame *f)
{
    const unsigned char *b = (const unsigned char *)at;
    if (size < 2)
        return false;
    if (b[1] & 0x80)
        die("the server sent a masked frame");
    size_t header = b[1] < 126 ? 2 : b[1] == 126 ? 4 : 10;
    if (size < header)
        return false;
    f->size = b[1];
    if (header > 2) {
        f->size = 0;
        for (size_t i = 2; i < header; i++)
            f->size = f->size << 8 | b[i];
    }
    f->whole = header + f->size;
    if (size < f->whole)
        return false;
    if (!(b[0] & 0x80) || (b[0] & 0x70) || (b[0] & 0x0f) == CONTINUATION)
        die("the server sent a fragment or an extension frame (first byte 0x%02x)", b[0]);
    f->opcode = b[0] & 0x0f;
    f->payload = at + header;
    return true;
}

static void on_close_frame(struct agent *a, const struct frame *f)
{
    if (a->stage == CLOSING)
        return; /* the end of the stream follows */
    int code = f->size >= 2 ? (unsigned char)f->payload[0] << 8 | (unsigned char)f->payload[1] : 1005;
    die("agent %d (%s) was closed with %d %.*s", a->index, stage_names[a->stage], code,
        f->size > 2 ? (int)f->size - 2 : 0, f->payload + 2);
}

/* Returns the size of the response to the upgrade request, or 0 while it is incomplete. */
static size_t take_upgrade(struct agent *a, const char *at, size_t size)
{
    const char *end = memmem(at, size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    if (memcmp(at, "HTTP/1.1 101", 12) != 0)
        die("the upgrade was refused: %.*s", (int)strcspn(at, "\r"), at);
    on_upgraded(a);
    return (size_t)(end + 4 - at);
}

size_t websocket_take(struct agent *a, const char *at, size_t size)
{
    size_t taken = 0;
    if (a->stage == UPGRADING && (taken = take_upgrade(a, at, size)) == 0)
        return 0;
    for (struct frame f; next_frame(at + taken, size - taken, &f); taken += f.whole) {
        if (f.opcode == TEXT)
            on_text(a, f.payload, f.size);
        else if (f.opcode == PING)
            send_frame(a, PONG, f.payload, f.size);
        else if (f.opcode == CLOSE)
            on_close_frame(a, &f);
    }
    return taken;
}
