/* What the agents say: numbered messages, and who has yet to receive them. */

#define _GNU_SOURCE
#include <string.h>

#include "generator.h"

enum {
    MARKER_DIGITS = 8,
    FLIGHTS = 1 << 16, /* many more than any workload has under way; a power of two */
};

/* Contents are prose of a fixed length that opens with a marker and a serial number; nothing in it needs
 * escaping in JSON, and no other frame contains the marker. */
static const char MARKER[] = "bench:";
static char content[CONTENT_BYTES];

void write_content(void)
{
    static const char prose[] =
        " The review of the parser is finished: two cases were missing, both are covered now, and the run is green. "
        "Next I will look at the scheduler, unless somebody else has started on it already. ";
    for (int i = 0; i < CONTENT_BYTES; i++)
        content[i] = prose[i % (int)(sizeof prose - 1)];
    memcpy(content, MARKER, sizeof MARKER - 1);
}

const char *content_with(uint32_t serial)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = MARKER_DIGITS - 1; i >= 0; i--, serial >>= 4)
        content[sizeof MARKER - 1 + (size_t)i] = digits[serial & 15];
    return content;
}

/* Finds the marker and reads the serial number after it. Frames of one kind have it at the same place almost
 * always, so look where it was the last time before searching. */
bool read_serial(const char *text, size_t size, uint32_t *serial)
{
    static size_t last_place;
    const size_t needed = sizeof MARKER - 1 + MARKER_DIGITS;
    if (size < needed)
        return false;
    if (last_place + needed > size || memcmp(text + last_place, MARKER, sizeof MARKER - 1) != 0) {
        const char *found = memmem(text, size - MARKER_DIGITS, MARKER, sizeof MARKER - 1);
        if (!found)
            return false;
        last_place = (size_t)(found - text);
    }
    const char *digit = text + last_place + sizeof MARKER - 1;
    *serial = 0;
    for (int i = 0; i < MARKER_DIGITS; i++)
        *serial = *serial << 4 | (uint32_t)(digit[i] <= '9' ? digit[i] - '0' : digit[i] - 'a' + 10);
    return true;
}

/* Messages under way, by serial number. */
static struct flight {
    uint64_t sent_ns;
    uint32_t serial;
    int awaited; /* agents who have yet to receive it */
} flights[FLIGHTS];

static uint32_t next_serial;

void send_message(struct agent *from, const char *to, int awaited)
{
    uint32_t serial = next_serial++;
    flights[serial & (FLIGHTS - 1)] = (struct flight){now_ns(), serial, awaited};
    wire->say(from, to, serial);
}

/* Returns how many agents have yet to receive the message. */
int count_delivery(uint32_t serial)
{
    struct flight *flight = &flights[serial & (FLIGHTS - 1)];
    if (flight->serial != serial || flight->awaited == 0)
        die("message %u arrived once more after everybody had it", serial);
    count_done(flight->sent_ns);
    return --flight->awaited;
}
