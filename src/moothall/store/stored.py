"""A record as it is in the database."""

from typing import Generic, TypeVar

import msgspec

Record = TypeVar("Record")


class Stored(msgspec.Struct, Generic[Record], frozen=True, gc=False):
    version: int  # 0: there is no such row
    record: Record
