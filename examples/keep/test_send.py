"""An unsigned packet: the server says nothing, and neither does it hang up.

moothall serve &
python3 test_send.py
"""

# ruff: noqa: T201  # a script that shows something prints it

import os
import socket
import struct
import sys

from keep.keep_pb2 import Packet

HOST = os.environ.get("KEEP_HOST", "localhost")
PORT = int(os.environ.get("KEEP_PORT", "9009"))
PATIENCE = 2  # seconds of silence that count as an answer

packet = Packet(id="unsigned-1", src="bot:test-unsigned", dst="server", body="hello", ttl=60)
wire_data = packet.SerializeToString()
with socket.create_connection((HOST, PORT), timeout=PATIENCE) as connection:
    connection.sendall(struct.pack(">I", len(wire_data)) + wire_data)
    try:
        answer = connection.recv(4)
    except TimeoutError:
        print("timeout: the unsigned packet was dropped in silence, as it should be")
    else:
        sys.exit(f"expected silence, got {'an answer' if answer else 'a closed connection'}")
