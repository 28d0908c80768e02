"""`KeepClient` as the published SDK has it: the packets it returns are protobuf messages."""

from typing import Final

from keep.keep_pb2 import Packet
from moothall.keep.client import PacketClient
from moothall.wire.keep import codec
from moothall.wire.keep import packet as wire

__all__ = ["MAX_PACKET_SIZE", "KeepClient", "Packet"]

MAX_PACKET_SIZE: Final = wire.MAX_PACKET


class KeepClient(PacketClient[Packet]):
    @staticmethod
    def _shown(packet: wire.Packet) -> Packet:
        return Packet.FromString(codec.encode(packet))
