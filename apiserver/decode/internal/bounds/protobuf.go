package bounds

import "vigil/internal/protobuf"

// Protobuf checks a message of the plan's type. What it cannot read is an error, too: the decoder might.
func (p *Plan) Protobuf(message []byte) error {
	if p.root == nil {
		return nil
	}
	return p.root.message(message, 1)
}

// message checks a structure. depth counts the messages around it, and itself.
func (n *node) message(b []byte, depth int) error {
	if depth > maxMessages {
		return errTooDeep
	}
	return eachValue(b, func(number int32, value []byte) error {
		if int(number) >= len(n.byNumber) || n.byNumber[number] == nil {
			return nil
		}
		return n.byNumber[number].value(value, depth)
	})
}

// value checks one value of a field: one of its elements or entries when there are many.
func (n *node) value(b []byte, depth int) error {
	switch n.kind {
	case quantity:
		return eachValue(b, func(number int32, text []byte) error {
			if number != 1 {
				return nil
			}
			return quantityText(text)
		})
	case raw:
		return eachValue(b, func(number int32, data []byte) error {
			if number != 1 {
				return nil
			}
			return Depth(data, maxJSON)
		})
	case list:
		return n.elem.value(b, depth)
	case dictionary:
		return eachValue(b, func(number int32, value []byte) error {
			if number != 2 {
				return nil
			}
			return n.elem.value(value, depth)
		})
	default:
		return n.message(b, depth+1)
	}
}

// eachValue calls fn for every length-delimited field of a message.
func eachValue(b []byte, fn func(number int32, value []byte) error) error {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return errMalformed
		}
		i = f.End
		if f.Type != protobuf.Bytes {
			continue
		}
		if err := fn(f.Num, b[f.Start:f.End]); err != nil {
			return err
		}
	}
	return nil
}
