/* Clocks, latency, and what the server, this process and the machine have used so far. */

#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "generator.h"

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t wall_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Buckets grow by powers of two, each cut into 32: a quantile is right to within 3 %. */
enum { CUTS = 32, BUCKETS = 60 * CUTS };

static struct {
    uint64_t count[BUCKETS], total, longest;
} latency;

static int bucket_of(uint64_t ns)
{
    if (ns < CUTS)
        return (int)ns;
    int doublings = 63 - __builtin_clzll(ns) - 5; /* ns >> doublings is in CUTS .. 2 * CUTS - 1 */
    return doublings * CUTS + (int)(ns >> doublings);
}

static uint64_t bucket_floor(int bucket)
{
    if (bucket < 2 * CUTS)
        return (uint64_t)bucket;
    int doublings = bucket / CUTS - 1;
    return (uint64_t)(bucket - doublings * CUTS) << doublings;
}

static void record_latency(uint64_t ns)
{
    latency.count[bucket_of(ns)]++;
    latency.total++;
    if (ns > latency.longest)
        latency.longest = ns;
}

double latency_quantile_us(double quantile)
{
    uint64_t rank = (uint64_t)(quantile * (double)latency.total), seen = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        seen += latency.count[bucket];
        if (seen > rank)
            return (double)bucket_floor(bucket) / 1e3;
    }
    return 0;
}

double latency_max_us(void)
{
    return (double)latency.longest / 1e3;
}

static void read_process(const char *pid, struct reading *r)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        die("process %s of the server is gone", pid);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;

    /* The command name, field 2, may hold anything, so count from its closing parenthesis. */
    char *fields = strrchr(text, ')');
    unsigned long user, system;
    long rss_pages;
    if (!fields || sscanf(fields + 2,
                          "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
                          &user, &system, &rss_pages) != 3)
        die("cannot read %s", path);
    r->server_cpu += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    r->server_rss_kb += rss_pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void read_machine(struct reading *r)
{
    FILE *file = fopen("/proc/stat", "r");
    if (!file || fscanf(file, "cpu") == EOF)
        die("cannot read /proc/stat");
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    double ticks[FIELDS] = {0};
    for (int i = 0; i < FIELDS && fscanf(file, "%lf", &ticks[i]) == 1; i++)
        r->machine += ticks[i] / (double)sysconf(_SC_CLK_TCK);
    r->machine_busy = (ticks[USER] + ticks[NICE] + ticks[SYSTEM] + ticks[STEAL]) / (double)sysconf(_SC_CLK_TCK);
    fclose(file);
}

struct reading take_reading(void)
{
    struct reading r = {.at_ns = now_ns()};
    char pids[256];
    snprintf(pids, sizeof pids, "%s", options.pids);
    for (char *rest = pids, *pid; (pid = strsep(&rest, ","));)
        if (*pid)
            read_process(pid, &r);
    read_machine(&r);

    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    r.own_cpu = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec)
              + (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
    return r;
}

struct window window;
uint64_t progress;

void count_done(uint64_t began_ns)
{
    progress++;
    if (window.open) {
        window.done++;
        record_latency(now_ns() - began_ns);
    }
}
