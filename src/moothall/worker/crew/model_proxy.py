"""The proxy on the host that adds the credential to an agent's requests to the model (agentchat wire 19.6).

The credential is read from its file for each request, so a new one counts at once, and it never enters a container.
Answers are passed on as they come: a stream of events is not kept back. Which requests go on is in
`model_request.py`.
"""

import asyncio
import ssl
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from moothall.worker.crew.doors import CHUNK, Serve, flushed
from moothall.worker.crew.model_request import Onward, Refused, Upstream, onward
from moothall.worker.lifeline import MAX_TOKEN

HEAD_TIME: Final = 30.0  # seconds for the head of a request
CONNECT_TIME: Final = 30.0  # seconds
SILENCE: Final = 900.0  # seconds without a byte of the answer; a model may think for long

_END_OF_HEAD: Final = b"\r\n\r\n"


class ModelProxy:
    """The way of an agent to its model. `say` writes to the log of the host."""

    def __init__(self, url: str, credential: Path, say: Callable[[str], None]) -> None:
        """Raises UsageError if the address is wrong."""
        self._upstream = Upstream.of(url)
        self._credential = credential
        self._say = say
        self._last_fault = ""
        self._tls = ssl.create_default_context() if self._upstream.is_secure else None

    @property
    def serve(self) -> Serve:
        """For a door."""
        return self._serve

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_TIME):
                head = await reader.readuntil(_END_OF_HEAD)
            credential = await asyncio.to_thread(self._read_credential)
            await self._exchange(
                onward(head[: -len(_END_OF_HEAD)], self._upstream, credential), reader, writer
            )
        except Refused as refused:
            writer.write(refused.encode())
            await flushed(writer)
        except asyncio.LimitOverrunError:
            too_long = Refused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long"
            )
            writer.write(too_long.encode())
            await flushed(writer)
        except asyncio.IncompleteReadError:
            return  # the client has gone: there is none to answer

    async def _exchange(
        self, request: Onward, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        far_reader, far_writer = await self._connect()
        far_writer.write(request.head)
        answer = asyncio.ensure_future(_answer(far_reader, writer))
        departure = asyncio.ensure_future(_until_gone(reader, far_writer, request.body))
        tasks = (answer, departure)
        try:
            # An answer may come before the body was read: the API has refused it. A client that leaves ends the
            # request, and what it costs.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
                await flushed(writer)
        finally:
            far_writer.transport.abort()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._upstream.host, self._upstream.port
        try:
            async with asyncio.timeout(CONNECT_TIME):
                return await asyncio.open_connection(host, port, ssl=self._tls, limit=CHUNK)
        except (OSError, TimeoutError) as error:
            self._fault(f"the model's API at {host}:{port} cannot be reached: {str(error) or 'no answer'}")
            raise Refused(HTTPStatus.BAD_GATEWAY, "the model's API cannot be reached from the host") from None

    def _read_credential(self) -> str:
        try:
            with self._credential.open("rb") as file:
                found = file.read(MAX_TOKEN + 1).decode(errors="replace").strip()
        except OSError as error:
            self._fault(f"the token file {self._credential} cannot be read: {error.strerror}")
        else:
            if (
                found
                and len(found) <= MAX_TOKEN
                and found.isascii()
                and found.isprintable()
                and " " not in found
            ):
                return found
            self._fault(f"the token file {self._credential} does not hold one word")
        raise Refused(HTTPStatus.BAD_GATEWAY, "the host has no credential for the model: see its log")

    def _fault(self, text: str) -> None:
        """Say it once, however often an agent tries."""
        if text != self._last_fault:
            self._last_fault = text
            self._say(text)


async def _answer(far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass the answer on as it comes. Raises Refused if there is none, OSError or TimeoutError."""
    is_begun = False
    while True:
        async with asyncio.timeout(SILENCE):
            piece = await far_reader.read(CHUNK)
        if not piece:
            break
        is_begun = True
        writer.write(piece)
        await writer.drain()
    if not is_begun:
        raise Refused(HTTPStatus.BAD_GATEWAY, "the model's API has closed the connection without an answer")


async def _until_gone(reader: asyncio.StreamReader, far_writer: asyncio.StreamWriter, body: int) -> None:
    """Pass so many bytes on, and then wait until the client leaves. One that sends more than its body has left."""
    while body and (piece := await reader.read(min(CHUNK, body))):
        body -= len(piece)
        far_writer.write(piece)
        await far_writer.drain()
    await reader.read(1)
