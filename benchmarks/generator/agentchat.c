/* The agentchat wire: the way in, with or without a key, and the channel. */

#define _GNU_SOURCE
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

struct key {
    unsigned char public[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
};

static struct key *keys;

/* The same keys in every run. The salt is one for which the first 20,000 agent ids (8 hex digits) differ. */
void make_keys(long count)
{
    keys = calloc((size_t)count, sizeof *keys);
    for (long i = 0; i < count; i++) {
        unsigned char seed[crypto_sign_SEEDBYTES] = "moothall benchmark 1";
        memcpy(seed + sizeof seed - sizeof i, &i, sizeof i);
        crypto_sign_seed_keypair(keys[i].public, keys[i].secret, seed);
    }
}

/* The crowd has a key each; those who come and go have one each as well, or share `options.keys` among them, so
 * many that the last connection with a key is long closed when the key comes round again. */
static long next_key(void)
{
    static long taken;
    long number = taken++;
    if (options.keys && number >= options.crowd)
        return options.crowd + (number - options.crowd) % options.keys;
    return number;
}

/* The PEM text as a JSON string holds it (agentchat wire 3.1). */
static void write_pem(const struct key *key, char *pem, size_t room)
{
    static const unsigned char prefix[12] = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
    unsigned char der[sizeof prefix + sizeof key->public];
    memcpy(der, prefix, sizeof prefix);
    memcpy(der + sizeof prefix, key->public, sizeof key->public);
    char base64[64];
    sodium_bin2base64(base64, sizeof base64, der, sizeof der, sodium_base64_VARIANT_ORIGINAL);
    snprintf(pem, room, "-----BEGIN PUBLIC KEY-----\\n%s\\n-----END PUBLIC KEY-----\\n", base64);
}

void send_json(struct agent *a, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    send_frame(a, TEXT, text, (size_t)size);
}

static void agentchat_say(struct agent *from, const char *to, uint32_t serial)
{
    char text[CONTENT_BYTES + 128];
    int head = snprintf(text, sizeof text, "{\"type\":\"MSG\",\"to\":\"%s\",\"content\":\"", to);
    memcpy(text + head, content_with(serial), CONTENT_BYTES);
    memcpy(text + head + CONTENT_BYTES, "\"}", 2);
    send_frame(from, TEXT, text, (size_t)head + CONTENT_BYTES + 2);
}

/* Copies a string member of a JSON object. Enough for the flat frames read here, whose values hold no escapes. */
static bool json_string(const char *text, size_t size, const char *name, char *value, size_t room)
{
    char quoted[32];
    size_t length = (size_t)snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *end = text + size, *at = memmem(text, size, quoted, length);
    if (!at)
        return false;
    for (at += length; at < end && *at == ' ';)
        at++;
    if (at == end || *at++ != '"')
        return false;
    const char *quote = memchr(at, '"', (size_t)(end - at));
    if (!quote || (size_t)(quote - at) >= room)
        return false;
    memcpy(value, at, (size_t)(quote - at));
    value[quote - at] = 0;
    return true;
}

void demand_string(const char *text, size_t size, const char *name, char *value, size_t room)
{
    if (!json_string(text, size, name, value, room))
        die("no %s in %.*s", name, (int)size, text);
}

static void identify(struct agent *a)
{
    a->stage = IDENTIFYING;
    if (!options.verified) {
        send_json(a, "{\"type\":\"IDENTIFY\",\"name\":\"bench-%d\"}", a->index);
        return;
    }
    char pem[160];
    a->key = next_key();
    write_pem(&keys[a->key], pem, sizeof pem);
    send_json(a, "{\"type\":\"IDENTIFY\",\"name\":\"bench-%d\",\"pubkey\":\"%s\"}", a->index, pem);
}

void on_upgraded(struct agent *a)
{
    if (workload->anonymous)
        became_ready(a);
    else
        identify(a);
}

void sign(struct agent *a, const char *text, char base64[SIGNATURE_ROOM])
{
    unsigned char signature[crypto_sign_BYTES];
    crypto_sign_detached(signature, NULL, (const unsigned char *)text, strlen(text), keys[a->key].secret);
    sodium_bin2base64(base64, SIGNATURE_ROOM, signature, sizeof signature, sodium_base64_VARIANT_ORIGINAL);
}

/* Signs AGENTCHAT_AUTH|nonce|challenge|timestamp (agentchat wire 4.2). */
static void prove(struct agent *a, const char *text, size_t size)
{
    char nonce[64], challenge[64], signed_text[256], base64[SIGNATURE_ROOM];
    demand_string(text, size, "nonce", nonce, sizeof nonce);
    demand_string(text, size, "challenge_id", challenge, sizeof challenge);
    unsigned long long timestamp = wall_clock_ms();
    snprintf(signed_text, sizeof signed_text, "AGENTCHAT_AUTH|%s|%s|%llu", nonce, challenge, timestamp);
    sign(a, signed_text, base64);
    a->stage = PROVING;
    send_json(a, "{\"type\":\"VERIFY_IDENTITY\",\"challenge_id\":\"%s\",\"signature\":\"%s\",\"timestamp\":%llu}",
              challenge, base64, timestamp);
}

void join_channel(struct agent *a)
{
    a->stage = JOINING;
    a->replayed = 0;
    send_json(a, "{\"type\":\"JOIN\",\"channel\":\"#%s\"}", options.channel);
}

void leave_channel(struct agent *a)
{
    a->stage = LEAVING;
    send_json(a, "{\"type\":\"LEAVE\",\"channel\":\"#%s\"}", options.channel);
}

void say_goodbye(struct agent *a)
{
    a->stage = CLOSING;
    send_frame(a, CLOSE, "\x03\xe8", 2); /* 1000 */
}

static void on_message(struct agent *a, const char *text, size_t size, uint32_t serial)
{
    if (a->stage == READY) {
        workload->received(a, serial);
    } else if (a->stage == JOINING) {
        if (!memmem(text, size, "\"replay\":", 9))
            die("a joining agent was sent a message that is no replay: %.*s", (int)size, text);
        a->replayed++;
    }
}

void on_text(struct agent *a, const char *text, size_t size)
{
    uint32_t serial;
    if (read_serial(text, size, &serial)) {
        on_message(a, text, size, serial);
        return;
    }
    char type[32];
    demand_string(text, size, "type", type, sizeof type);
    if (strcmp(type, "AGENT_JOINED") == 0 || strcmp(type, "AGENT_LEFT") == 0) {
        window.notices += window.open;
    } else if (strcmp(type, "WELCOME") == 0) {
        demand_string(text, size, "agent_id", a->id, sizeof a->id);
        if (workload->in_channel(a))
            join_channel(a);
        else
            became_ready(a);
    } else if (strcmp(type, "CHALLENGE") == 0) {
        prove(a, text, size);
    } else if (strcmp(type, "JOINED") == 0) {
        became_ready(a);
    } else if (strcmp(type, "LEFT") == 0) {
        workload->left(a);
    } else if (strcmp(type, "ERROR") == 0) {
        die("agent %d (%s) was sent %.*s", a->index, stage_names[a->stage], (int)size, text);
    } else if (workload->dealt) {
        on_deal_notice(a, type, text, size);
    }
}

const struct wire agentchat = {"agentchat", websocket_greet, websocket_take, agentchat_say};
