/* The options, the course of a run and the report. generator.h says what this program is. */

#define _GNU_SOURCE
#include <getopt.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"

struct options options = {
    .wire = "agentchat", .channel = "general", .pids = "", .place = "round", .members = 100, .in_flight = 8, .agents = 200,
    .handshakes = 2000, .parallel = 16, .connections = 5000, .joiners = 8, .buffered = 20, .pairs = 64,
    .senders = 1, .receivers = 1,
    .seconds = 3, .warm_up = 1,
};

enum { NEWS_SECONDS = 1 };

const struct wire *wire;
const struct workload *workload;
bool started;

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("generator: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static double seconds_since(uint64_t ns)
{
    return (double)(now_ns() - ns) / 1e9;
}

static void run(void)
{
    open_until = workload->present ? workload->present() : agent_count;
    while (ready_count < open_until)
        turn();
    uint64_t start_ns = now_ns();
    while (options.port_count > 1 && seconds_since(start_ns) < NEWS_SECONDS)
        turn(); /* the nodes tell each other of the agents */

    started = true;
    start_ns = now_ns();
    if (workload->start)
        workload->start();
    while (!workload->warm(seconds_since(start_ns)))
        turn();

    if (workload->window_opened)
        workload->window_opened();
    window.open = true;
    window.start = take_reading();
    while (!workload->finished(seconds_since(window.start.at_ns)))
        turn();
    window.end = take_reading();
    window.open = false;
}

static void die_if_notices_are_missing(void)
{
    /* A join and a leave are each told to every member; the last cycle may be incomplete. */
    double owed = (double)window.done * 2 * options.members;
    if (strcmp(workload->name, "join") == 0 && (double)window.notices < 0.9 * owed)
        die("the server told of joining and leaving %lu times and owed %.0f", (unsigned long)window.notices, owed);
}

static void report(void)
{
    double seconds = (double)(window.end.at_ns - window.start.at_ns) / 1e9;
    double server_cpu = window.end.server_cpu - window.start.server_cpu;
    double own_cpu = window.end.own_cpu - window.start.own_cpu;
    double machine = window.end.machine - window.start.machine;
    double others = window.end.machine_busy - window.start.machine_busy - server_cpu - own_cpu;
    double done = (double)window.done;
    if (window.done == 0)
        die("nothing was delivered in the window");
    printf("{\"workload\":\"%s\",\"wire\":\"%s\",\"deliveries\":%lu,\"seconds\":%.3f,"
           "\"deliveries_per_second\":%.0f,\"server_cpu_seconds\":%.2f,\"server_cpu_us_per_delivery\":%.3f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"generator_load\":%.3f,\"others\":%.3f,"
           "\"rss_before_kb\":%ld,\"rss_after_kb\":%ld,\"notices\":%lu}\n",
           workload->name, wire->name, (unsigned long)window.done, seconds, done / seconds, server_cpu,
           server_cpu * 1e6 / done, latency_quantile_us(0.50), latency_quantile_us(0.99),
           latency_max_us(), own_cpu / seconds, others > 0 && machine > 0 ? others / machine : 0,
           window.start.server_rss_kb, window.end.server_rss_kb, (unsigned long)window.notices);
}

static const struct option flags[] = {
    {"port", required_argument, NULL, 'p'},       {"pid", required_argument, NULL, 'i'},
    {"wire", required_argument, NULL, 'w'},       {"channel", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 's'},    {"warm-up", required_argument, NULL, 'u'},
    {"members", required_argument, NULL, 'm'},    {"in-flight", required_argument, NULL, 'f'},
    {"stopped", required_argument, NULL, 't'},    {"agents", required_argument, NULL, 'a'},
    {"handshakes", required_argument, NULL, 'k'}, {"parallel", required_argument, NULL, 'l'},
    {"keys", required_argument, NULL, 'y'},       {"crowd", required_argument, NULL, 'd'},
    {"verified", no_argument, NULL, 'v'},         {"connections", required_argument, NULL, 'n'},
    {"joiners", required_argument, NULL, 'j'},    {"buffered", required_argument, NULL, 'b'},
    {"pairs", required_argument, NULL, 'r'},      {"talkers", required_argument, NULL, 'o'},
    {"senders", required_argument, NULL, 'e'},    {"receivers", required_argument, NULL, 'g'},
    {"place", required_argument, NULL, 'q'},
    {0},
};

static void read_ports(char *list)
{
    for (char *port; (port = strsep(&list, ","));) {
        if (options.port_count == MAX_PORTS)
            die("more than %d ports", MAX_PORTS);
        options.ports[options.port_count++] = atoi(port);
    }
}

static void read_options(int count, char **words)
{
    for (int flag; (flag = getopt_long(count, words, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'p': read_ports(optarg); break;
        case 'q': options.place = optarg; break;
        case 'i': options.pids = optarg; break;
        case 'w': options.wire = optarg; break;
        case 'c': options.channel = optarg; break;
        case 's': options.seconds = atof(optarg); break;
        case 'u': options.warm_up = atof(optarg); break;
        case 'm': options.members = atoi(optarg); break;
        case 'f': options.in_flight = atoi(optarg); break;
        case 't': options.stopped = atoi(optarg); break;
        case 'a': options.agents = atoi(optarg); break;
        case 'k': options.handshakes = atoi(optarg); break;
        case 'l': options.parallel = atoi(optarg); break;
        case 'y': options.keys = atoi(optarg); break;
        case 'd': options.crowd = atoi(optarg); break;
        case 'v': options.verified = true; break;
        case 'n': options.connections = atoi(optarg); break;
        case 'j': options.joiners = atoi(optarg); break;
        case 'b': options.buffered = atoi(optarg); break;
        case 'r': options.pairs = atoi(optarg); break;
        case 'o': options.talkers = atoi(optarg); break;
        case 'e': options.senders = atoi(optarg); break;
        case 'g': options.receivers = atoi(optarg); break;
        default: exit(2);
        }
    }
    if (optind != count - 1 || !options.port_count)
        die("usage: generator WORKLOAD --port PORT[,PORT...] --pid PID[,PID...] [options]");
    options.workload = words[optind];
}

static void choose_workload(void)
{
    for (workload = workloads; workload->name && strcmp(options.workload, workload->name) != 0;)
        workload++;
    if (!workload->name)
        die("no workload %s", options.workload);

    static const struct wire *const wires[] = {&agentchat, &nats, &redis, &keep, NULL};
    for (const struct wire *const *each = wires; *each; each++)
        if (strcmp(options.wire, (*each)->name) == 0)
            wire = *each;
    bool is_broker = wire == &nats || wire == &redis;
    if (!wire || (is_broker && !workload->on_brokers) || (wire == &keep) != workload->on_keep)
        die("no %s over %s", options.workload, options.wire);
}

int main(int count, char **words)
{
    read_options(count, words);
    choose_workload();
    gather_agents(workload->cast());
    write_content();
    if (sodium_init() < 0)
        die("libsodium does not start");
    if (options.verified)
        make_keys(agent_count + 2L * options.handshakes);
    if (workload->prepare)
        workload->prepare();
    run();
    die_if_notices_are_missing();
    report();
    return 0;
}
