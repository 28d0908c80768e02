"""The buckets of the registry: streams of JetStream that keep the last message of each key.

They are made if they are missing, at each connection: a bucket in memory ends with its NATS. `nodes` is in memory
and forgets an entry that is not renewed for 10 seconds. NATS tells watchers of that with a marker. A deletion is a
marker too. Markers go away by themselves, so that ids that come once do not fill the disk. This needs NATS 2.11.

Revisions are the sequence numbers of the stream. A bucket that is made again begins with a higher number than the
former one has reached: the time in milliseconds, or the next number that this node knows of.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from time import time
from typing import Final, get_args
from urllib.parse import quote, unquote

import nats.errors
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from moothall.errors import UsageError
from moothall.hall.cluster.bus import Bucket

OLDEST_NATS: Final = (2, 11)
NODE_TTL: Final = 10.0  # seconds
MARKER_TTL: Final = 60  # seconds; a watcher that was away for longer compares all entries anyway
CLUSTER_REPLICAS: Final = 3
API_SECONDS: Final = 3.0
PREPARING_SECONDS: Final = 3.0  # then another server is tried
PATIENCE_SECONDS: Final = 1.0  # a server without a leader does not answer
PAUSE_SECONDS: Final = 0.1

NO_JETSTREAM: Final = (
    "NATS has no JetStream, or its servers have not agreed on a leader; JetStream is on with `jetstream {}` in the"
    " configuration of nats-server"
)

OPERATION: Final = "KV-Operation"
MARKER: Final = "Nats-Marker-Reason"

# Codes of JetStream.
NOT_CLUSTERED: Final = 10074  # more than one replica, on a server that is alone
NO_PEERS: Final = 10005  # fewer servers than replicas
NAME_IN_USE: Final = 10058  # another node made the stream meanwhile; its first sequence is another one
WRONG_LAST: Final = (10071, 10164)  # the entry has another revision


class Buckets:
    def __init__(self, prefix: str, replicas: int | None) -> None:
        self._prefix = prefix
        self._replicas = replicas
        self.latest = 0  # the highest revision that this node has seen

    async def prepare(self, client: Client) -> None:
        """Raises UsageError if the server is not fit for it, ConnectionError if it is not now."""
        version = client.connected_server_version
        if (version.major, version.minor) < OLDEST_NATS:
            needed = ".".join(map(str, OLDEST_NATS))
            raise UsageError(f"NATS has version {version.major}.{version.minor}, and the bus needs {needed}")
        loop = asyncio.get_running_loop()
        end = loop.time() + PREPARING_SECONDS
        while True:
            try:
                for bucket in get_args(Bucket):
                    await self._prepare(client, bucket)
            except (ServiceUnavailableError, nats.errors.TimeoutError):
                if loop.time() > end:
                    raise ConnectionError(NO_JETSTREAM) from None
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return

    def stream(self, bucket: Bucket) -> str:
        return f"KV_{self._prefix}_{bucket}"

    def subject(self, bucket: Bucket, key: str) -> str:
        """Raises ValueError if there is no key."""
        if not key:
            raise ValueError("a key has at least one character")
        token = quote(key, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "=")
        return f"$KV.{self._prefix}_{bucket}.{token}"

    def all_subjects(self, bucket: Bucket) -> str:
        return f"$KV.{self._prefix}_{bucket}.>"

    def key(self, subject: str) -> str:
        return unquote(subject.rpartition(".")[2].replace("=", "%"))

    async def _prepare(self, client: Client, bucket: Bucket) -> None:
        stream = client.jetstream(timeout=PATIENCE_SECONDS)
        with suppress(NotFoundError):
            await stream.stream_info(self.stream(bucket))
            return
        wanted = [CLUSTER_REPLICAS, 1] if self._replicas is None else [self._replicas]
        for replicas in wanted:
            try:
                await stream.add_stream(self._config(bucket, replicas))
            except APIError as error:
                if error.err_code == NAME_IN_USE:
                    return
                if error.err_code == NOT_CLUSTERED and replicas != wanted[-1]:
                    continue
                too_few = (
                    f"NATS has too few servers to keep {replicas} copies of the registry: start more, or set"
                    " bus_replicas"
                )
                if error.err_code == NOT_CLUSTERED:
                    raise UsageError(too_few) from None
                if error.err_code == NO_PEERS:
                    raise ConnectionError(too_few) from None  # they may still be starting
                raise
            return

    def _config(self, bucket: Bucket, replicas: int) -> StreamConfig:
        is_brief = bucket == "nodes"
        return StreamConfig(
            name=self.stream(bucket),
            description="registry of the nodes of a moothall",
            subjects=[self.all_subjects(bucket)],
            storage=StorageType.MEMORY if is_brief else StorageType.FILE,
            num_replicas=replicas,
            max_msgs_per_subject=1,
            max_age=NODE_TTL if is_brief else 0,
            duplicate_window=NODE_TTL,
            discard=DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
            allow_direct=True,
            deny_delete=True,
            allow_msg_ttl=True,
            subject_delete_marker_ttl=MARKER_TTL if is_brief else None,
            first_seq=max(int(time() * 1000), self.latest + 1),
        )


def is_marker(headers: Mapping[str, str] | None) -> bool:
    """Whether a message stands for an entry that was deleted or has expired."""
    return headers is not None and (OPERATION in headers or MARKER in headers)
