"""What is measured, on whom, and what the hall has to reach. The bounds live here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec


class Run(msgspec.Struct, frozen=True):
    """One run of the generator. A delivery is the workload's unit: a message received by one agent, a
    handshake, a connection held, a join and leave."""

    workload: str
    wire: str
    deliveries: int
    seconds: float
    deliveries_per_second: float
    server_cpu_seconds: float
    server_cpu_us_per_delivery: float
    p50_us: float
    p99_us: float
    max_us: float
    generator_load: float
    others: float  # share of the machine that other processes and other guests of the host took
    rss_before_kb: int
    rss_after_kb: int
    notices: int


@dataclass(frozen=True, slots=True)
class Quantity:
    unit: str
    of: Callable[[Run], float]


CPU: Final = Quantity("CPU us per delivery", lambda run: run.server_cpu_us_per_delivery)
CPU_PER_HANDSHAKE: Final = Quantity("CPU us per handshake", lambda run: run.server_cpu_us_per_delivery)
CPU_PER_CYCLE: Final = Quantity("CPU us per join and leave", lambda run: run.server_cpu_us_per_delivery)
MEMORY: Final = Quantity(
    "KB per connection", lambda run: (run.rss_after_kb - run.rss_before_kb) / run.deliveries
)
P99: Final = Quantity("p99 us", lambda run: run.p99_us)


@dataclass(frozen=True, slots=True)
class Contender:
    """A server in a workload, and what the generator does to it. Without a server, `arguments` are a module to
    run in its place."""

    label: str
    server: str | None
    arguments: tuple[str, ...]
    both_cores: bool = False  # the generator's too, and not the server's alone
    generator: str | None = None  # a module that plays the agents, in place of the program in C
    venv: Path | None = None  # where the compiled wheel is installed that it runs


@dataclass(frozen=True, slots=True)
class Bound:
    """`measured`, as a multiple of `against` (as it is, without one), must and should be at most this."""

    measured: str
    against: str | None
    must: float
    aim: float | None = None
    quantity: Quantity | None = None  # another than the workload's


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    quantity: Quantity
    contenders: tuple[Contender, ...]
    bounds: tuple[Bound, ...]
    at_least_seconds: float = 0.0


def _all(*arguments: str) -> tuple[Contender, ...]:
    return tuple(Contender(server, server, arguments) for server in ("relay", "nats", "redis", "moothall"))


def _fan_out(members: int, in_flight: int) -> tuple[Contender, ...]:
    return _all("fanout", "--members", str(members), "--in-flight", str(in_flight))


def _large_fan_out(to_redis: Bound) -> tuple[Bound, ...]:
    return (
        Bound("moothall", "relay", must=1 / 5),
        Bound("moothall", "nats", must=1.0, aim=0.6),
        to_redis,
    )


_HANDSHAKES: Final = ("handshake", "--handshakes", "3000", "--parallel", "16")
_VERIFIED: Final = (*_HANDSHAKES, "--verified", "--keys", "300")  # the warm-up sees each key once
_STOPPED: Final = ("fanout", "--members", "100", "--in-flight", "8", "--stopped")

WORKLOADS: Final = (
    Workload(
        "fanout-10",
        "fan-out 1 -> 10, 8 in flight",
        CPU,
        _fan_out(10, 8),
        (Bound("moothall", "relay", must=1 / 4), Bound("moothall", "nats", must=1.0, aim=0.85)),
    ),
    Workload(
        "fanout-100",
        "fan-out 1 -> 100, 8 in flight",
        CPU,
        _fan_out(100, 8),
        _large_fan_out(Bound("moothall", "redis", must=0.9, aim=0.8)),
    ),
    Workload(
        "fanout-500",
        "fan-out 1 -> 500, 8 in flight",
        CPU,
        _fan_out(500, 8),
        _large_fan_out(Bound("moothall", "redis", must=0.75, aim=0.65)),
    ),
    Workload(
        "fanout-100-single",
        "fan-out 1 -> 100, one in flight: a write per member is the floor",
        CPU,
        _fan_out(100, 1),
        (Bound("moothall", "relay", must=1.0, aim=0.7),),
    ),
    Workload(
        "busy",
        "busy channel, 20 senders, 100 listeners, 8 in flight",
        CPU,
        _all("fanout", "--senders", "20", "--members", "100", "--in-flight", "8"),
        (Bound("moothall", "redis", must=0.8, aim=0.7),),
    ),
    Workload(
        "dm",
        "200 agents in direct-message pairs, all rules on",
        CPU,
        # The ceiling is the hall's own gateway, sending back what it receives: a message in and one out.
        (*_all("dm", "--agents", "200"), Contender("ceiling", "echo", ("echo", "--agents", "200"))),
        (Bound("moothall", "relay", must=1 / 3.5), Bound("moothall", "nats", must=0.85, aim=0.75)),
    ),
    Workload(
        "handshake",
        "handshake: the hall's verified one, the relay's unverified one",
        CPU_PER_HANDSHAKE,
        (
            Contender("relay", "relay", _HANDSHAKES),
            Contender("moothall", "moothall", _VERIFIED),
            # An id is bound to its first key for good, so a new key costs a line in a file.
            Contender("moothall, new keys", "moothall", (*_HANDSHAKES, "--verified")),
        ),
        (
            Bound("moothall", "relay", must=0.5, aim=0.4),
            Bound("moothall, new keys", "relay", must=0.5, aim=0.4),
        ),
    ),
    Workload(
        "handshake-crowd",
        "verified handshake, alone and among 5,000 connected agents",
        CPU_PER_HANDSHAKE,
        (
            Contender("alone", "moothall", _VERIFIED),
            Contender("among 5,000", "moothall", (*_VERIFIED, "--crowd", "5000")),
        ),
        # "Flat" with room for the caches that 5,000 agents fill.
        (Bound("among 5,000", "alone", must=1.25, aim=1.1),),
    ),
    Workload(
        "memory",
        "memory per idle identified connection, at 5,000",
        MEMORY,
        _all("hold", "--connections", "5000"),
        (Bound("moothall", None, must=10.0, aim=2.0),),
    ),
    Workload(
        "join",
        "join and leave a channel with 20 buffered messages and 100 members",
        CPU_PER_CYCLE,
        tuple(
            Contender(server, server, ("join", "--members", "100", "--buffered", "20", "--joiners", "8"))
            for server in ("relay", "moothall")
        ),
        (Bound("moothall", "relay", must=1 / 5, aim=1 / 8),),
    ),
    Workload(
        "stopped",
        "fan-out 1 -> 100 while one more member has stopped reading",
        P99,
        tuple(
            contender
            for server in ("relay", "nats", "moothall")
            for contender in (
                Contender(server, server, (*_STOPPED, "0")),
                Contender(f"{server}, stopped", server, (*_STOPPED, "1")),
            )
        ),
        (Bound("moothall, stopped", "moothall", must=2.0, aim=1.1),),
        at_least_seconds=5.0,  # what the kernel buffers for a member has to run full first
    ),
)
