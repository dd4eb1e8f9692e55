package configobjects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxEvent is how long an event may be, in bytes: objects have at most 1.5 MiB.
const maxEvent = 16 << 20

// readEvent reads an event of a protobuf watch: its length in four bytes, most significant first, and a metav1.WatchEvent. The error is
// io.EOF where the stream ends between events.
func readEvent(stream io.Reader) (*metav1.WatchEvent, error) {
	var head [4]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > maxEvent {
		return nil, fmt.Errorf("an event of %d bytes in a watch", length)
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(stream, frame); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	event := &metav1.WatchEvent{}
	if err := event.Unmarshal(frame); err != nil {
		return nil, fmt.Errorf("decode an event of a watch: %w", err)
	}
	return event, nil
}
