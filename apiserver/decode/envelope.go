package decode

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// envelope is what stands around a protobuf body: the prefix "k8s\0" and the message runtime.Unknown.
type envelope struct {
	apiVersion, kind string
	raw              []byte // the kind's own message, a part of the body
}

var envelopePrefix = []byte{'k', '8', 's', 0}

func openEnvelope(body []byte) (envelope, error) {
	var env envelope
	switch {
	case len(body) == 0:
		return env, errors.New("empty data")
	case !bytes.HasPrefix(body, envelopePrefix):
		return env, fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", envelopePrefix)
	case len(body) == len(envelopePrefix):
		return env, errors.New("empty body")
	}
	err := eachField(body[len(envelopePrefix):], 4, func(num protowire.Number, value []byte) error {
		switch num {
		case 1:
			return eachField(value, 2, func(num protowire.Number, value []byte) error {
				switch num {
				case 1:
					env.apiVersion = string(value)
				case 2:
					env.kind = string(value)
				}
				return nil
			})
		case 2:
			env.raw = value
		}
		return nil
	})
	return env, err
}

// eachField calls fn for every length-delimited field of a message. The fields up to last have to be that; others are
// skipped.
func eachField(message []byte, last protowire.Number, fn func(num protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if typ != protowire.BytesType {
			if num <= last {
				return fmt.Errorf("proto: wrong wireType = %d for field %d", typ, num)
			}
			if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := fn(num, value); err != nil {
			return err
		}
	}
	return nil
}
