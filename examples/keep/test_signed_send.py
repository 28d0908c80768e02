"""A signed packet, by hand, step by step: the server answers "done".

moothall serve &
python3 test_signed_send.py
"""

# ruff: noqa: T201  # a script that shows something prints it

import os
import socket
import struct
import sys
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from keep.keep_pb2 import Packet

HOST = os.environ.get("KEEP_HOST", "localhost")
PORT = int(os.environ.get("KEEP_PORT", "9009"))


def read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = connection.recv(size - len(content))
        if not piece:
            sys.exit("the server closed the connection")
        content += piece
    return content


# All fields except sig and pk; their bytes are what is signed.
packet = Packet(id=str(uuid4()), src="bot:test-signed", dst="server", body="hello", ttl=60)
key = Ed25519PrivateKey.generate()
signature = key.sign(packet.SerializeToString())
packet.sig = signature
packet.pk = key.public_key().public_bytes_raw()

# On the wire each packet follows its length: four bytes, big-endian.
wire_data = packet.SerializeToString()
with socket.create_connection((HOST, PORT), timeout=10) as connection:
    connection.sendall(struct.pack(">I", len(wire_data)) + wire_data)
    (length,) = struct.unpack(">I", read(connection, 4))
    reply = Packet.FromString(read(connection, length))

print("reply:", reply.body)
if reply.body != "done" or reply.id != packet.id:
    sys.exit('expected "done"')
