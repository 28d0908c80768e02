"""What signatures cost and nothing else: the least that anything signed can cost, measured like a server."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, pairwise
from statistics import quantiles
from time import perf_counter, process_time

import msgspec

from benchmarks.workloads import Run
from moothall.identity.signatures import expand, sign_expanded, verify


def verify_everywhere(seconds: float, messages: Sequence[bytes], each: int) -> Run:
    """On every processor that this process may use, by a process of its own."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) == 1:
        return verify_for(seconds, messages, each)
    with ProcessPoolExecutor(len(cpus)) as processes:
        began = [processes.submit(_verify_on, cpu, seconds, messages, each) for cpu in cpus]
        return _together([run.result() for run in began])


def verification_on(cpu: int, seconds: float, messages: Sequence[bytes]) -> float:
    """CPU us of one verification on this processor."""
    with ProcessPoolExecutor(1) as processes:
        run = processes.submit(_verify_on, cpu, seconds, messages, 1).result()
    return run.server_cpu_us_per_delivery


def _verify_on(cpu: int, seconds: float, messages: Sequence[bytes], each: int) -> Run:
    os.sched_setaffinity(0, {cpu})
    return verify_for(seconds, messages, each)


def _together(runs: list[Run]) -> Run:
    deliveries = sum(run.deliveries for run in runs)
    cpu = sum(run.server_cpu_seconds for run in runs)
    return msgspec.structs.replace(
        max(runs, key=lambda run: run.p99_us),
        deliveries=deliveries,
        deliveries_per_second=sum(run.deliveries_per_second for run in runs),
        server_cpu_seconds=cpu,
        server_cpu_us_per_delivery=cpu / deliveries * 1e6,
        others=max(run.others for run in runs),
    )


def verify_for(seconds: float, messages: Sequence[bytes], each: int) -> Run:
    """As a run in which a delivery is `each` verifications, of these messages in turn."""
    secret = expand(os.urandom(32))
    key = secret[32:]
    signed = cycle([(message, sign_expanded(secret, message)) for message in messages])
    began, cpu = [perf_counter()], process_time()
    while began[-1] - began[0] < seconds:
        for _ in range(each):
            assert verify(key, *next(signed))
        began.append(perf_counter())
    cpu = process_time() - cpu
    deliveries, took = len(began) - 1, began[-1] - began[0]
    return Run(
        workload="verifications",
        wire="none",
        deliveries=deliveries,
        seconds=took,
        deliveries_per_second=deliveries / took,
        server_cpu_seconds=cpu,
        server_cpu_us_per_delivery=cpu / deliveries * 1e6,
        **_latency([after - before for before, after in pairwise(began)]),
        generator_load=0.0,
        others=max(0.0, 1 - cpu / took),  # what it did not get of its own core
        rss_before_kb=0,
        rss_after_kb=0,
        notices=0,
    )


def _latency(took: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(took, n=100)
    return {"p50_us": cuts[49] * 1e6, "p99_us": cuts[98] * 1e6, "max_us": max(took) * 1e6}
