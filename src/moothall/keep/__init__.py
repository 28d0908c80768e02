"""The keep SDK: signed packets to and from any keep server, in threads or in asyncio.

It imports nothing but the standard library, cryptography and this package (seed 004, code style). Programs
written for the published SDK import `keep` instead, which is the same with protobuf packets.
"""

from moothall.keep.aio import AsyncKeepClient
from moothall.keep.client import KeepClient
from moothall.keep.keys import key_from_file
from moothall.keep.message import Message
from moothall.keep.server import ensure_server
from moothall.keep.signing import sign, verify
from moothall.wire.keep.codec import decode
from moothall.wire.keep.packet import MAX_PACKET, Packet

__all__ = [
    "MAX_PACKET",
    "AsyncKeepClient",
    "KeepClient",
    "Message",
    "Packet",
    "decode",
    "ensure_server",
    "key_from_file",
    "sign",
    "verify",
]
