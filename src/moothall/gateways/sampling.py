"""Takes a sample of the metrics every few seconds, for `metrics_history`."""

import asyncio

from moothall.gateways.keep_port import KeepPort
from moothall.gateways.lag import LagMeter
from moothall.gateways.metrics_history import PERIOD, Gauges, MetricsHistory, Totals
from moothall.gateways.port import Port
from moothall.hall.gallery import Gallery
from moothall.hall.hall import Hall


class Sampling:
    def __init__(
        self, hall: Hall, port: Port, lag: LagMeter, keep: KeepPort | None, gallery: Gallery | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._hall = hall
        self._port = port
        self._lag = lag
        self._keep = keep
        self._gallery = gallery
        self._timer: asyncio.TimerHandle | None = None
        self.history = MetricsHistory(hall.timestamp(), self._totals())

    def start(self) -> None:
        self._timer = self._loop.call_later(PERIOD, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        self.history.add(self._hall.timestamp(), self._gauges(), self._totals())
        self.start()

    def _gauges(self) -> Gauges:
        port = self._port
        return Gauges(
            connections=port.connections + (0 if self._keep is None else self._keep.connections),
            agents=len(self._hall.roster),
            watchers=0 if self._gallery is None else len(self._gallery),
            # What waits for others is on its way to the kernel, and gone at the end of the turn.
            outbox_bytes=sum(connection.waiting_bytes for connection in port.stuck),
            slow_readers=len(port.stuck),
            lag=self._lag.worst_of(PERIOD),
        )

    def _totals(self) -> Totals:
        tally = self._hall.tally
        return Totals(
            messages=sum(tally.received.values()),
            frames_sent=self._port.frames_sent,
            throttled=tally.throttled,
            overflows=self._port.overflows,
            refusals=dict(tally.refused),
        )
