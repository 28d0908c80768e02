"""Which hall of several on one PostgreSQL is on the network of the mesh.

They have one key, and a peer is known by its key: two of them would take each other's connections away. So the
first one holds a lock of the database for as long as it runs, and another one does not start with a network. The
lock belongs to a transaction that stays open, because a pooler may give a session to others. The server frees it
when the connection of its hall ends.
"""

from typing import Final

from moothall.errors import SettingsError
from moothall.store.postgres import connect_first

_LOCK: Final = 0x6D6F6F74  # "moot"; the other half is the schema, for halls may share a database in schemas


class NetworkClaim:
    def __init__(self, url: str) -> None:
        """Raises SettingsError if another hall has it."""
        self._connection = connect_first(url)
        self._connection.execute("BEGIN")
        asked = "SELECT pg_try_advisory_xact_lock(?, hashtext(current_schema()))"
        if self._connection.execute(asked, (_LOCK,)).fetchone() != (True,):
            self._connection.close()
            raise SettingsError(
                "another hall on this store is on the network of the mesh already, with the same key;"
                " start this one without --mesh-port and --mesh-peer"
            )

    def close(self) -> None:
        self._connection.close()
