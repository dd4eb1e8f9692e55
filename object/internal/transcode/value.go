package transcode

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/object/internal/jsonscan"
	"vigil/object/internal/wire"
)

// value writes one value. b is its payload, nil when it does not occur; num is the number when it is a varint.
func (w *walker) value(v *value, b []byte, num uint64, depth int) bool {
	switch v.kind {
	case text:
		w.dst = appendString(w.dst, b)
	case base64Bytes:
		w.dst = append(w.dst, '"')
		w.dst = base64.StdEncoding.AppendEncode(w.dst, b)
		w.dst = append(w.dst, '"')
	case boolean:
		w.dst = strconv.AppendBool(w.dst, num != 0)
	case int32s:
		w.dst = strconv.AppendInt(w.dst, int64(int32(num)), 10)
	case int64s:
		w.dst = strconv.AppendInt(w.dst, int64(num), 10)
	case uint64s:
		w.dst = strconv.AppendUint(w.dst, num, 10)
	case message:
		w.dst = append(w.dst, '{')
		if !w.members(v.plan, b, depth+1) {
			return false
		}
		w.dst = append(w.dst, '}')
	case timestamp:
		return w.time(b, false)
	case microTime:
		return w.time(b, true)
	case duration:
		return w.duration(b)
	case quantity:
		return w.quantity(b)
	case intOrString:
		return w.intOrString(b)
	case fieldsV1, rawExtension:
		return w.rawJSON(b)
	case stringList:
		return w.stringList(b)
	default:
		return false
	}
	return true
}

// numbers reads the varints 1 and 2 of a small message, and its string 3.
func numbers(b []byte) (one, two uint64, three []byte, ok bool) {
	for i := 0; i < len(b); {
		f, ok := wire.Next(b, i)
		if !ok {
			return 0, 0, nil, false
		}
		switch {
		case f.Num > 3:
		case f.Num == 3 && f.Type == wire.Bytes:
			three = b[f.Start:f.End]
		case f.Num == 1 && f.Type == wire.Varint:
			one = f.Value
		case f.Num == 2 && f.Type == wire.Varint:
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

// time writes a Timestamp message as metav1.Time or metav1.MicroTime do.
func (w *walker) time(b []byte, micro bool) bool {
	if len(b) == 0 {
		w.dst = append(w.dst, "null"...)
		return true
	}
	seconds, nanos, three, ok := numbers(b)
	if !ok || three != nil {
		return false
	}
	layout, fraction := time.RFC3339, int64(0)
	if micro {
		layout = metav1.RFC3339Micro
		fraction = int64(time.Duration(int32(nanos)).Truncate(time.Microsecond))
	}
	t := time.Unix(int64(seconds), fraction).UTC()
	if t.IsZero() {
		w.dst = append(w.dst, "null"...)
		return true
	}
	if year := t.Year(); year < 0 || year > 9999 {
		return false
	}
	w.dst = append(w.dst, '"')
	w.dst = t.AppendFormat(w.dst, layout)
	w.dst = append(w.dst, '"')
	return true
}

func (w *walker) duration(b []byte) bool {
	nanos, _, _, ok := numbers(b)
	if !ok {
		return false
	}
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, time.Duration(nanos).String()...)
	w.dst = append(w.dst, '"')
	return true
}

func (w *walker) intOrString(b []byte) bool {
	typ, number, str, ok := numbers(b)
	switch {
	case !ok:
		return false
	case typ == 0:
		w.dst = strconv.AppendInt(w.dst, int64(int32(number)), 10)
	case typ == 1:
		w.dst = appendString(w.dst, str)
	default:
		return false
	}
	return true
}

// onlyString returns the string or bytes field 1 of a message that has no other.
func onlyString(b []byte) (s []byte, ok bool) {
	if len(b) == 0 {
		return nil, true
	}
	f, ok := wire.Next(b, 0)
	if !ok || f.Num != 1 || f.Type != wire.Bytes || f.End != len(b) {
		return nil, false
	}
	return b[f.Start:f.End], true
}

// rawJSON writes JSON that is kept as it was written: FieldsV1 and RawExtension. encoding/json compacts it.
func (w *walker) rawJSON(b []byte) bool {
	raw, ok := onlyString(b)
	switch {
	case !ok:
		return false
	case len(b) == 0:
		w.dst = append(w.dst, "null"...)
		return true
	case len(raw) == 0 || raw[0] != '{':
		return false
	}
	end, style, ok := jsonscan.Value(raw, 0)
	if !ok {
		return false
	}
	if style == 0 && end == len(raw) {
		w.dst = append(w.dst, raw...)
		return true
	}
	compact, err := json.Marshal(json.RawMessage(raw))
	w.dst = append(w.dst, compact...)
	return err == nil
}

// quantity writes a Quantity in canonical form.
func (w *walker) quantity(b []byte) bool {
	s, ok := onlyString(b)
	if !ok {
		return false
	}
	if isCanonical(s) {
		w.dst = append(w.dst, '"')
		w.dst = append(w.dst, s...)
		w.dst = append(w.dst, '"')
		return true
	}
	var q resource.Quantity
	if q.Unmarshal(b) != nil {
		return false
	}
	out, err := q.MarshalJSON()
	w.dst = append(w.dst, out...)
	return err == nil
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

// stringList writes a message whose field 1 is a repeated string as the array it is in Go.
func (w *walker) stringList(b []byte) bool {
	if len(b) == 0 {
		w.dst = append(w.dst, "null"...)
		return true
	}
	open := byte('[')
	for i := 0; i < len(b); {
		f, ok := wire.Next(b, i)
		if !ok || f.Num != 1 || f.Type != wire.Bytes {
			return false
		}
		w.dst = appendString(append(w.dst, open), b[f.Start:f.End])
		open, i = ',', f.End
	}
	w.dst = append(w.dst, ']')
	return true
}
