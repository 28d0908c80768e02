"""GET /api/v1/...: the rows of all rooms as routes of the port, with the checks before each (docs/http-api.md).

The order: method, origin, who asks, whether it may, parameters, price. What is durable is read on the store's
thread, as one unit of work that also makes the JSON, so that chat does not wait for it. What another node of the
hall knows, that node is asked for, with the same rows.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from moothall.errors import (
    AuthRequired,
    InternalError,
    MoothallError,
    RateLimited,
    Refusal,
    StoreUnreachable,
    Unavailable,
)
from moothall.gateways.api import openapi, parameters
from moothall.gateways.api.answers import (
    JSON,
    Body,
    body_of,
    body_with,
    encoded,
    error,
    over_budget,
    refused,
    refused_by_port,
)
from moothall.gateways.api.cache import Cache
from moothall.hall.access import Doorkeeper
from moothall.hall.admin import check_key
from moothall.hall.api_routes import MAX_LIMIT, Answer, AtNode, Audience, Query, Row, Stored, Viewer
from moothall.hall.api_tokens import check_welcome
from moothall.hall.budgets import Meter, Price
from moothall.hall.durable import UNREACHABLE
from moothall.hall.hall import Hall
from moothall.hall.outside import Store
from moothall.wire.http import Response
from moothall.wire.http_routes import READS, Asked, Route
from moothall.wire.http_routes import Answer as Answering
from moothall.wire.origins import is_loopback

PREFIX: Final = "/api/v1/"
DOCUMENT: Final = "openapi.json"
REQUEST_FRAMES: Final = 5  # what a request costs besides its connection, in frames
MAX_READING: Final = 64  # requests that wait for the store
DEEPEST: Final = 4  # segments of an unknown path that is answered with JSON
_METHODS: Final = (*READS, "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_ALLOW: Final = ("Allow", "GET, HEAD, OPTIONS")
_VARY: Final = ("Vary", "Authorization, X-Admin-Key, Origin")
_NO_SCRIPTS: Final = ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
_CORS: Final = (
    ("Access-Control-Expose-Headers", "ETag, Retry-After"),
    ("Cross-Origin-Resource-Policy", "cross-origin"),
)
_PREFLIGHT: Final = (
    ("Access-Control-Allow-Methods", "GET, HEAD"),
    ("Access-Control-Allow-Headers", "Authorization, If-None-Match"),
    ("Access-Control-Max-Age", "600"),
)


class Api:
    def __init__(self, hall: Hall, store: Store[Any], rows: Iterable[Row]) -> None:
        self._hall = hall
        self._store = store
        self.rows: Final = tuple(rows)
        self._cache = Cache()
        self._reading = 0
        self._origins = frozenset(hall.settings.api_origins)
        self._document = body_of(openapi.document(self.rows, PREFIX))
        self._by_path = {row.path: row for row in self.rows}
        if hall.cluster is not None:
            hall.cluster.reads.answer = self._answer_node

    def routes(self) -> tuple[Route, ...]:
        """For the port. All methods and paths below the prefix come here, so that errors are JSON too."""
        known = [self._route(row.path, partial(self._answer, row)) for row in self.rows]
        unknown = ["/".join(f"{{{number}}}" for number in range(depth)) for depth in range(1, DEEPEST + 1)]
        return (
            *known,
            self._route(DOCUMENT, self._show_document),
            *(self._route(path, self._find_nothing) for path in unknown),
        )

    def _route(self, path: str, answer: Answering) -> Route:
        return Route(
            PREFIX + path,
            partial(self._guarded, answer),
            cost=REQUEST_FRAMES,
            any_origin=True,
            refusal=refused_by_port,
            methods=_METHODS,
        )

    # -- what is the same for all routes -----------------------------------------------------------

    def _guarded(self, answer: Answering, asked: Asked) -> Response | None:
        method = asked.request.method
        if asked.is_foreign_page and not self._shares_with(asked):
            return error(
                403, "NOT_ALLOWED", "Pages of this origin may not ask; the operator can add it to api_origins"
            )
        if method == "OPTIONS":
            return self._finished(asked, Response(204, b"", headers=(_ALLOW, *_PREFLIGHT)))
        if method not in READS:
            fault = error(405, "METHOD_NOT_ALLOWED", "The API only reads: send GET", _ALLOW)
            return self._finished(asked, fault)
        try:
            response = answer(asked)
        except Refusal as refusal:
            response = refused(refusal)
        return None if response is None else self._finished(asked, response)

    def _finished(self, asked: Asked, response: Response) -> Response:
        """With the headers that every answer has."""
        headers = (*response.headers, _VARY, _NO_SCRIPTS)
        if self._shares_with(asked):
            origin = asked.request.headers["origin"]
            headers = (*headers, ("Access-Control-Allow-Origin", origin), *_CORS)
        return response._replace(headers=headers)

    def _shares_with(self, asked: Asked) -> bool:
        """True if a page of another origin asks, and the operator allows it."""
        origin = asked.request.headers.get("origin")
        return origin is not None and ("*" in self._origins or origin in self._origins)

    def _find_nothing(self, asked: Asked) -> Response:
        return error(404, "NOT_FOUND", f"There is no such route; {PREFIX}{DOCUMENT} lists them")

    def _show_document(self, asked: Asked) -> Response:
        return self._body(asked, Viewer(), self._document)

    # -- one request -------------------------------------------------------------------------------

    def _answer(self, row: Row, asked: Asked) -> Response | None:
        hall = self._hall
        viewer = self._viewer(asked)
        self._check_audience(row.audience, viewer)
        query = parameters.read(row.query, asked.parts, asked.request.query)
        meter = self._meter(asked.ip, viewer)
        request = f"{asked.request.path}?{asked.request.query}"
        kept = self._cache.get(request, hall.now()) if viewer.is_stranger else None
        if kept is not None:
            return self._pay(meter, Price(bytes=len(kept.json))) or self._body(asked, viewer, kept)
        short = self._pay(meter, self._price(row, query))
        if short is not None:
            return short
        answer = row.handler(hall, viewer, query)

        def finish(body: Body) -> Response:
            if viewer.is_stranger:
                self._cache.keep(request, body, hall.now() + row.fresh)
            if meter is not None:
                meter.owe(Price(bytes=len(body.json)), hall.now())
            return self._body(asked, viewer, body)

        if isinstance(answer, Stored):
            return self._read(answer, asked, finish)
        if isinstance(answer, AtNode):
            return self._ask(answer, asked, finish)
        return finish(body_of(answer))

    def _viewer(self, asked: Asked) -> Viewer:
        """Who asks. Raises a Refusal if it gives a token or a key that is wrong."""
        headers, hall = asked.request.headers, self._hall
        key = None
        if (given := headers.get("authorization")) is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != "bearer":
                raise AuthRequired("Send `Authorization: Bearer` with a token; get one with API_TOKEN")
            key = hall.api_tokens.key_of(token.strip(), hall.timestamp())
            check_welcome(hall, key)
        admin_key = headers.get("x-admin-key")
        if admin_key is not None:
            try:
                check_key(
                    hall,
                    asked.ip,
                    asked.request.path[:64],
                    Doorkeeper.check_admin,
                    admin_key,
                    only_reads=True,
                )
            except RateLimited:
                raise
            except Refusal:
                raise AuthRequired("X-Admin-Key is not the admin key of this hall") from None
        return Viewer(key, is_operator=admin_key is not None)

    def _check_audience(self, audience: Audience, viewer: Viewer) -> None:
        if audience is Audience.OPERATORS and not viewer.is_operator:
            raise AuthRequired("This is for operators; send X-Admin-Key")
        if audience is Audience.AGENTS and viewer.is_stranger:
            raise AuthRequired("This needs a proven key; get a token with API_TOKEN and send it as Bearer")
        if audience is Audience.VIEWERS and viewer.is_stranger and not self._hall.settings.shows_strangers:
            raise AuthRequired("This hall shows nothing to strangers; get a token with API_TOKEN")

    # -- what it costs -----------------------------------------------------------------------------

    def _meter(self, ip: str, viewer: Viewer) -> Meter | None:
        hall = self._hall
        if hall.settings.no_limits:
            return None
        meter = hall.budgets.meter(ip, is_loopback=is_loopback(ip))
        if viewer.key is not None:
            meter.belongs_to(viewer.key)
        return meter

    def _price(self, row: Row, query: Query) -> Price:
        cost = row.cost
        each = cost.store_each * getattr(query, "limit", MAX_LIMIT)
        return Price(told=cost.told(self._hall, query), store=cost.store + each)

    def _pay(self, meter: Meter | None, price: Price) -> Response | None:
        """Charge a price. The answer is the refusal, if it cannot be paid."""
        shortage = None if meter is None else meter.charge(price, self._hall.now())
        return None if shortage is None else over_budget(shortage.seconds)

    # -- to the store and back ---------------------------------------------------------------------

    def _read(self, stored: Stored, asked: Asked, finish: Callable[[Body], Response]) -> Response | None:
        if self._reading >= MAX_READING:
            return error(503, "BUSY", "Too many requests wait for the store; try again", ("Retry-After", "1"))
        self._reading += 1

        def done(body: Body) -> None:
            self._reading -= 1
            asked.reply(self._finished(asked, finish(body)))

        def failed(fault: BaseException) -> None:
            self._reading -= 1
            asked.reply(self._finished(asked, refused(self._explained(fault))))

        self._store.submit(lambda books: body_of(stored.work(books)), done, failed)
        return None

    # -- to another node and back ------------------------------------------------------------------

    def _ask(self, other: AtNode, asked: Asked, finish: Callable[[Body], Response]) -> Response | None:
        def done(json: bytes) -> None:
            asked.reply(self._finished(asked, finish(body_with(json))))

        def failed(refusal: Refusal) -> None:
            asked.reply(self._finished(asked, refused(refusal)))

        other.ask(done, failed)
        return None

    def _answer_node(self, path: str, key: bytes | None, query: bytes) -> bytes | None:
        """What this node knows, for another node that has checked and charged the request (`reads.Answering`)."""
        row = self._by_path.get(path)
        if row is None:
            return None
        answer = row.handler(self._hall, Viewer(key), msgspec.json.decode(query, type=row.query))
        return encoded(answer) if isinstance(answer, Answer) else None

    def _explained(self, fault: BaseException) -> Refusal:
        if isinstance(fault, Refusal):
            return fault
        if self._hall.may_log("api_read_failed"):
            bug = None if isinstance(fault, OSError | MoothallError) else fault
            self._hall.log.warning("api_read_failed", error=repr(fault), exc_info=bug)
        if isinstance(fault, StoreUnreachable):
            return Unavailable(UNREACHABLE)
        return InternalError("The hall could not read this; try again, or tell its operator")

    def _body(self, asked: Asked, viewer: Viewer, body: Body) -> Response:
        privacy = "no-cache" if viewer.is_stranger else "private, no-cache"
        headers = (("ETag", body.etag), ("Cache-Control", privacy))
        if asked.request.knows(body.etag):
            return Response(304, b"", headers=headers, keep_alive=True)
        return Response(200, body.json, JSON, headers, keep_alive=True)
