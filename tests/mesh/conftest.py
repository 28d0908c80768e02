"""Halls for agents of the mesh: the same as for others."""

from tests.client.conftest import hall, open_hall

__all__ = ["hall", "open_hall"]
