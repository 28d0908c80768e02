from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class Packet(Message):
    DESCRIPTOR: Descriptor
    sig: bytes
    pk: bytes
    typ: int
    id: str
    src: str
    dst: str
    body: str
    fee: int
    ttl: int
    scar: bytes
    def __init__(
        self,
        *,
        sig: bytes = ...,
        pk: bytes = ...,
        typ: int = ...,
        id: str = ...,  # noqa: A002  # the field's name on the wire
        src: str = ...,
        dst: str = ...,
        body: str = ...,
        fee: int = ...,
        ttl: int = ...,
        scar: bytes = ...,
    ) -> None: ...
