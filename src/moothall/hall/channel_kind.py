"""What kind of channel it is, also for the other nodes of a hall."""

import msgspec


class Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """It never changes."""

    invite_only: bool = False
    verified_only: bool = False
    on_demand: bool = False
    made_by: str | None = None  # the address of its maker
