/* Deals: who proposes, accepts and completes, and what each of them signs (agentchat wire 8).
 *
 * Every second agent proposes to the one after it, which accepts and completes. Both are told of every step
 * (agentchat wire 6.4); whoever is next waits for its own copy. A deal has ended when the proposer hears of COMPLETE.
 *
 * Signing takes longer than anything else here. So a step that has become possible is queued, and one is signed
 * between two looks at the sockets: what else has arrived is not kept waiting by a row of signatures.
 */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

enum { PROPOSER_STAKE = 20, ACCEPTOR_STAKE = 10, ID_ROOM = 64 };

struct step {
    struct agent *by;
    void (*take)(struct agent *, const char *deal);
    char deal[ID_ROOM];
};

static struct step *steps; /* a ring: each agent has at most one step to take */
static unsigned steps_queued, steps_taken;
static unsigned long offers;

static void queue_step(struct agent *by, void (*take)(struct agent *, const char *), const char *deal)
{
    if (!steps)
        steps = calloc((size_t)agent_count, sizeof *steps);
    struct step *step = &steps[steps_queued++ % (unsigned)agent_count];
    *step = (struct step){.by = by, .take = take};
    snprintf(step->deal, sizeof step->deal, "%s", deal);
}

/* Returns whether there is more to be done. */
bool take_next_step(void)
{
    if (steps_taken == steps_queued)
        return false;
    struct step *step = &steps[steps_taken++ % (unsigned)agent_count];
    step->take(step->by, step->deal);
    return steps_taken != steps_queued;
}

static void propose(struct agent *a, const char *deal)
{
    (void)deal; /* it has no id yet */
    char text[256], signature[SIGNATURE_ROOM], task[96];
    snprintf(task, sizeof task, "Review pull request %lu: the parser, and whether its tests can fail", ++offers);
    snprintf(text, sizeof text, "%s|%s|5|TEST|||%d", a[1].id, task, PROPOSER_STAKE);
    sign(a, text, signature);
    a->began_ns = now_ns();
    send_json(a,
              "{\"type\":\"PROPOSAL\",\"to\":\"%s\",\"task\":\"%s\",\"amount\":5,\"currency\":\"TEST\","
              "\"elo_stake\":%d,\"sig\":\"%s\"}",
              a[1].id, task, PROPOSER_STAKE, signature);
}

static void accept_deal(struct agent *a, const char *deal)
{
    char text[160], signature[SIGNATURE_ROOM];
    snprintf(text, sizeof text, "ACCEPT|%s||%d", deal, ACCEPTOR_STAKE);
    sign(a, text, signature);
    send_json(a, "{\"type\":\"ACCEPT\",\"proposal_id\":\"%s\",\"elo_stake\":%d,\"sig\":\"%s\"}", deal,
              ACCEPTOR_STAKE, signature);
}

static void complete(struct agent *a, const char *deal)
{
    static const char proof[] = "https://example.org/review";
    char text[160], signature[SIGNATURE_ROOM];
    snprintf(text, sizeof text, "COMPLETE|%s|%s", deal, proof);
    sign(a, text, signature);
    send_json(a, "{\"type\":\"COMPLETE\",\"proposal_id\":\"%s\",\"proof\":\"%s\",\"sig\":\"%s\"}", deal, proof,
              signature);
}

void offer_deal(struct agent *proposer)
{
    queue_step(proposer, propose, "");
}

void on_deal_notice(struct agent *a, const char *type, const char *text, size_t size)
{
    bool proposes = a->index % 2 == 0;
    char deal[ID_ROOM];
    progress++;
    if (proposes && strcmp(type, "COMPLETE") == 0) {
        workload->dealt(a->began_ns);
        offer_deal(a);
    } else if (!proposes && strcmp(type, "PROPOSAL") == 0) {
        demand_string(text, size, "proposal_id", deal, sizeof deal);
        queue_step(a, accept_deal, deal);
    } else if (!proposes && strcmp(type, "ACCEPT") == 0) {
        demand_string(text, size, "proposal_id", deal, sizeof deal);
        queue_step(a, complete, deal);
    }
}
