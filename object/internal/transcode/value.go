package transcode

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/jsonscan"
	"vigil/internal/protobuf"
)

// value writes one value. b is its payload, nil when it does not occur; num is the number when it is a varint.
func (w *walker) value(dst []byte, v *value, b []byte, num uint64, depth int) []byte {
	switch v.kind {
	case text:
		return appendString(dst, b)
	case message:
		if dst = w.members(append(dst, '{'), v.plan, b, depth+1); dst == nil {
			return nil
		}
		return append(dst, '}')
	case boolean:
		return strconv.AppendBool(dst, num != 0)
	case int32s:
		return strconv.AppendInt(dst, int64(int32(num)), 10)
	case int64s:
		return strconv.AppendInt(dst, int64(num), 10)
	case uint64s:
		return strconv.AppendUint(dst, num, 10)
	case timestamp:
		return appendTime(dst, b, false)
	case microTime:
		return appendTime(dst, b, true)
	case duration:
		return appendDuration(dst, b)
	case quantity:
		return appendQuantity(dst, b)
	case intOrString:
		return appendIntOrString(dst, b)
	case fieldsV1, rawExtension:
		return appendRawJSON(dst, b)
	case stringList:
		return appendStringList(dst, b)
	case base64Bytes:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), b)
		return append(dst, '"')
	}
	return nil
}

// numbers reads the varints 1 and 2 of a small message, and its string 3.
func numbers(b []byte) (one, two uint64, three []byte, ok bool) {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return 0, 0, nil, false
		}
		switch {
		case f.Num > 3:
		case f.Num == 3 && f.Type == protobuf.Bytes:
			three = b[f.Start:f.End]
		case f.Num == 1 && f.Type == protobuf.Varint:
			one = f.Value
		case f.Num == 2 && f.Type == protobuf.Varint:
			two = f.Value
		default:
			return 0, 0, nil, false
		}
		i = f.End
	}
	return one, two, three, true
}

// zeroSeconds is the Unix time of time.Time{}.
const zeroSeconds = -62135596800

// isZeroTime reports whether the Timestamp b decodes as the zero metav1.Time, which has no fractions of a second.
// Damaged ones are not zero.
func isZeroTime(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	seconds, _, _, ok := numbers(b)
	return ok && int64(seconds) == zeroSeconds
}

// appendTime appends a Timestamp message as metav1.Time or metav1.MicroTime do.
func appendTime(dst, b []byte, micro bool) []byte {
	if len(b) == 0 {
		return append(dst, "null"...)
	}
	seconds, nanos, three, ok := numbers(b)
	if !ok || three != nil {
		return nil
	}
	layout, fraction := time.RFC3339, int64(0)
	if micro {
		layout = metav1.RFC3339Micro
		fraction = int64(time.Duration(int32(nanos)).Truncate(time.Microsecond))
	}
	t := time.Unix(int64(seconds), fraction).UTC()
	if t.IsZero() {
		return append(dst, "null"...)
	}
	if year := t.Year(); year < 0 || year > 9999 {
		return nil
	}
	dst = t.AppendFormat(append(dst, '"'), layout)
	return append(dst, '"')
}

func appendDuration(dst, b []byte) []byte {
	nanos, _, _, ok := numbers(b)
	if !ok {
		return nil
	}
	dst = append(append(dst, '"'), time.Duration(nanos).String()...)
	return append(dst, '"')
}

func appendIntOrString(dst, b []byte) []byte {
	typ, number, str, ok := numbers(b)
	switch {
	case !ok:
		return nil
	case typ == 0:
		return strconv.AppendInt(dst, int64(int32(number)), 10)
	case typ == 1:
		return appendString(dst, str)
	}
	return nil
}

// onlyString returns the string or bytes field 1 of a message that has no other.
func onlyString(b []byte) (s []byte, ok bool) {
	if len(b) == 0 {
		return nil, true
	}
	f, ok := protobuf.Next(b, 0)
	if !ok || f.Num != 1 || f.Type != protobuf.Bytes || f.End != len(b) {
		return nil, false
	}
	return b[f.Start:f.End], true
}

// appendRawJSON appends JSON that is kept as it was written: FieldsV1 and RawExtension. encoding/json compacts it.
func appendRawJSON(dst, b []byte) []byte {
	raw, ok := onlyString(b)
	switch {
	case !ok:
		return nil
	case len(b) == 0:
		return append(dst, "null"...)
	case len(raw) == 0 || raw[0] != '{':
		return nil
	}
	end, style, ok := jsonscan.Value(raw, 0)
	if !ok {
		return nil
	}
	if style == 0 && end == len(raw) {
		return append(dst, raw...)
	}
	compact, err := json.Marshal(json.RawMessage(raw))
	if err != nil {
		return nil
	}
	return append(dst, compact...)
}

// appendQuantity appends a Quantity in canonical form.
func appendQuantity(dst, b []byte) []byte {
	s, ok := onlyString(b)
	if !ok {
		return nil
	}
	if isCanonical(s) {
		dst = append(append(dst, '"'), s...)
		return append(dst, '"')
	}
	var q resource.Quantity
	if q.Unmarshal(b) != nil {
		return nil
	}
	out, err := q.MarshalJSON()
	if err != nil {
		return nil
	}
	return append(dst, out...)
}

// isCanonical recognizes the common quantities that resource.Quantity writes as it reads them: a whole number without
// leading zeros of at most nine digits and a suffix that cannot be replaced by a larger one.
func isCanonical(s []byte) bool {
	n, i := 0, 0
	for i < len(s) && i < 9 && '0' <= s[i] && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 || s[0] == '0' {
		return i == 1 && len(s) == 1 // "0"
	}
	switch suffix := s[i:]; len(suffix) {
	case 0:
		return n%1000 != 0
	case 1:
		switch suffix[0] {
		case 'm', 'k', 'M', 'G':
			return n%1000 != 0
		}
	case 2:
		switch suffix[0] {
		case 'K', 'M', 'G':
			return suffix[1] == 'i' && n%1024 != 0
		}
	}
	return false
}

// appendStringList appends a message whose field 1 is a repeated string as the array it is in Go. The decoder makes an
// empty slice for an empty map value, not nil.
func appendStringList(dst, b []byte) []byte {
	if len(b) == 0 {
		return append(dst, "[]"...)
	}
	open := byte('[')
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok || f.Num != 1 || f.Type != protobuf.Bytes {
			return nil
		}
		dst = appendString(append(dst, open), b[f.Start:f.End])
		open, i = ',', f.End
	}
	return append(dst, ']')
}
