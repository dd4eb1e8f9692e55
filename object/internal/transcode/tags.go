package transcode

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Repeated reports whether there is a repeated field on the path of field numbers from the struct type t.
func Repeated(t reflect.Type, path []int32) bool {
	for _, num := range path {
		if t.Kind() != reflect.Struct {
			return false
		}
		sf, ok := fieldByNumber(t, int(num))
		if !ok {
			return false
		}
		if t = sf.Type; t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
			return true
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return false
}

func fieldByNumber(t reflect.Type, num int) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if n, ok := protobufNumber(t.Field(i).Tag.Get("protobuf")); ok && n == num {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

func omissionOf(options string, t reflect.Type) (omission, error) {
	omit := never
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "", "inline":
		case "omitempty":
			omit = max(omit, empty)
		case "omitzero":
			omit = zeroTime
		default:
			return never, fmt.Errorf("json option %q on %s", option, t)
		}
	}
	return omit, nil
}

func protobufNumber(tag string) (int, bool) {
	if tag == "" || tag == "-" {
		return 0, false
	}
	_, rest, _ := strings.Cut(tag, ",")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func hasMethods(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}
