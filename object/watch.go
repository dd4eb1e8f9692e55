package object

import (
	"encoding/binary"

	"vigil/internal/protobuf"
)

// Field numbers of meta.v1.WatchEvent and runtime.RawExtension.
const (
	watchEventType   = 1
	watchEventObject = 2
	rawExtensionRaw  = 1
)

// AppendWatchEventJSON appends one event of a JSON watch stream: {"type":"ADDED","object":...} and a newline. obj is a
// complete object, as JSON or MetadataJSON return it; typ is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
func AppendWatchEventJSON(dst []byte, typ string, obj []byte) []byte {
	dst = AppendWatchEventJSONHead(dst, typ)
	dst = append(dst, obj...)
	return append(dst, WatchEventJSONTail...)
}

// A frame may also be sent in three parts, so that the object's bytes are not copied: what AppendWatchEventJSONHead appends, the object,
// WatchEventJSONTail.

// WatchEventJSONTail ends an event of a JSON watch stream behind its object.
const WatchEventJSONTail = "}\n"

// AppendWatchEventJSONHead appends what stands before the object in an event of a JSON watch stream.
func AppendWatchEventJSONHead(dst []byte, typ string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	return append(dst, `","object":`...)
}

// SizeWatchEventJSON is the number of bytes that AppendWatchEventJSON appends for an object of n bytes.
func SizeWatchEventJSON(typ string, n int) int {
	return len(`{"type":"","object":}`) + 1 + len(typ) + n
}

// AppendWatchEventProtobuf appends one event of a protobuf watch stream: four bytes of length, big-endian, and a bare
// meta.v1.WatchEvent. obj is a complete envelope, as Protobuf or MetadataProtobuf return it.
func AppendWatchEventProtobuf(dst []byte, typ string, obj []byte) []byte {
	return append(AppendWatchEventProtobufHead(dst, typ, len(obj)), obj...)
}

// AppendWatchEventProtobufHead appends what stands before an object of n bytes in an event of a protobuf watch stream; nothing comes
// after it.
func AppendWatchEventProtobufHead(dst []byte, typ string, n int) []byte {
	raw := rawExtensionSize(n)
	dst = binary.BigEndian.AppendUint32(dst, uint32(watchEventSize(typ, raw)))
	dst = protobuf.AppendBytes(dst, watchEventType, typ)
	dst = protobuf.AppendTag(dst, watchEventObject, protobuf.Bytes)
	dst = protobuf.AppendUvarint(dst, uint64(raw))
	dst = protobuf.AppendTag(dst, rawExtensionRaw, protobuf.Bytes)
	return protobuf.AppendUvarint(dst, uint64(n))
}

// SizeWatchEventProtobuf is the number of bytes that AppendWatchEventProtobuf appends for an object of n bytes.
func SizeWatchEventProtobuf(typ string, n int) int {
	return 4 + watchEventSize(typ, rawExtensionSize(n))
}

func rawExtensionSize(n int) int { return protobuf.SizeBytes(n) }

func watchEventSize(typ string, raw int) int {
	return protobuf.SizeBytes(len(typ)) + protobuf.SizeBytes(raw)
}
