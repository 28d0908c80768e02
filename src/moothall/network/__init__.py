"""Sockets for the machines of `p2p/`: a host listens, dials, and has one connection per peer."""
