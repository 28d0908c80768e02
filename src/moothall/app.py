"""The one place where everything is built from Settings and wired together."""

import asyncio
import gc
import os
import secrets
import signal
from time import monotonic, time
from typing import Final

from moothall.gateways import health
from moothall.gateways.lag import LagMeter
from moothall.gateways.port import Port
from moothall.hall.access import ALLOWLIST_FILE, BANS_FILE, Allowlist, Bans, decode_allowlist, decode_bans
from moothall.hall.hall import Hall
from moothall.hall.keyring import Keyring
from moothall.hall.opening import open_hall
from moothall.hall.outside import Log
from moothall.hall.redaction import Redactor
from moothall.market.desk import Desk
from moothall.market.reputation import RatingRules
from moothall.market.rules import MarketRules
from moothall.settings import Settings
from moothall.store.files import DataDirectory, KeyBook
from moothall.store.opening import open_store
from moothall.store.worker import Batch, StoreThread

# Sessions and agents live for minutes; the default of looking for cycles every 700 allocations would walk over
# all of them again and again, and stop the loop for as long.
GC_THRESHOLD: Final = (50_000, 20, 50)

# The loop's timers count whole milliseconds and may ring early by one; a tick that finds nothing due yet would
# only set the next alarm.
TIMER_SLACK: Final = 0.001


class SystemClock:
    time = staticmethod(time)
    monotonic = staticmethod(monotonic)


class App:
    """A hall with its port, its data directory and its clock. `async with` opens and closes it."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.log = log
        self._alarm: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "App":
        settings = self.settings
        directory = DataDirectory(settings.data_dir)
        book = KeyBook(directory, settings.max_known_keys)
        # What can be wrong in the operator's files is found before anything is started.
        keyring = Keyring(settings.max_known_keys, book.read())
        allowlist = directory.read_list(ALLOWLIST_FILE, decode_allowlist) or Allowlist()
        bans = directory.read_list(BANS_FILE, decode_bans) or Bans()
        self._loop = asyncio.get_running_loop()
        self._store = StoreThread()
        self._keys = Batch(self._store, book.append, self._keys_not_saved)
        self._market_store = open_store(directory, settings.store, self.log)
        self.desk = Desk(self._market_store, market_rules(settings))
        self.hall: Hall = open_hall(
            settings,
            self.desk.commands(),
            clock=SystemClock(),
            entropy=os.urandom,
            pick=secrets.randbelow,
            alarm=self._set_alarm,
            worker=self._store,
            shelf=directory,
            log=self.log,
            redactor=Redactor(os.environ),
            allowlist=allowlist,
            bans=bans,
            keyring=keyring,
            remember_key=self._keys.add,
        )
        self.port = Port(self.hall, settings, self.log)
        self._lag = LagMeter()
        self.port.routes = health.routes(self.hall, self.port, self._lag, self.desk, self._market_store)
        try:
            await self.port.open()
        except BaseException:
            self._store.close()
            self._market_store.close()
            raise
        self.desk.open(self.hall)
        self._lag.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._lag.stop()
        await self.port.close("Server shutting down")
        if self._alarm is not None:
            self._alarm.cancel()
        self._keys.close()
        self._store.close()
        self._market_store.close()

    def _set_alarm(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        wait = max(0.0, due - monotonic()) + TIMER_SLACK
        self._alarm = self._loop.call_later(wait, lambda: self.hall.tick())

    def _keys_not_saved(self, error: BaseException) -> None:
        """The ids stay bound until the hall restarts; the operator should know before that."""
        self.log.warning("keys_not_saved", error=repr(error))

    @property
    def url(self) -> str:
        host, port = self.port.address
        scheme = "wss" if self.settings.cert else "ws"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def market_rules(settings: Settings) -> MarketRules:
    return MarketRules(
        signature_code=settings.signature_code,
        stranger_code=settings.stranger_code,
        expired_code=settings.expired_code,
        ratings=RatingRules(
            amount_weighting=settings.gain_by_amount,
            diminishing=settings.gain_diminishing,
            pair_cooldown=round(settings.pair_cooldown * 1000),
            minimum_age=round(settings.minimum_deal_age * 1000),
        ),
    )


async def serve(settings: Settings, log: Log, ready: "asyncio.Future[App] | None" = None) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with App(settings, log) as app:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        if ready is not None:
            ready.set_result(app)
        await stop.wait()
        log.info("server_stop")
