"""The subset of libp2p that the mesh needs, without I/O: bytes in, events and bytes out (mesh wire 6)."""
