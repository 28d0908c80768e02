"""The protobuf class `Packet` (keep wire 2), for programs that build or take apart packets themselves.

It lives in a descriptor pool of its own. In the pool that all programs share, a second `keep.proto` or a second
`Packet` without a package, of whatever program, would fail at import.
"""

from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_BYTES: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_UINT32: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT32
_UINT64: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT64

_FIELDS: Final = (
    ("sig", _BYTES),
    ("pk", _BYTES),
    ("typ", _UINT32),
    ("id", _STRING),
    ("src", _STRING),
    ("dst", _STRING),
    ("body", _STRING),
    ("fee", _UINT64),
    ("ttl", _UINT32),
    ("scar", _BYTES),
)


def _schema() -> descriptor_pb2.FileDescriptorProto:
    schema = descriptor_pb2.FileDescriptorProto(name="keep.proto", syntax="proto3")
    packet = schema.message_type.add(name="Packet")
    for number, (name, kind) in enumerate(_FIELDS, 1):
        packet.field.add(
            name=name,
            number=number,
            type=kind,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    return schema


_pool: Final = descriptor_pool.DescriptorPool()
_pool.Add(_schema())

DESCRIPTOR: Final = _pool.FindFileByName("keep.proto")
Packet: Final = message_factory.GetMessageClass(_pool.FindMessageTypeByName("Packet"))
Packet.__module__ = __name__  # so that it can be pickled, and says where it comes from
