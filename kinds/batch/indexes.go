package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is a run of indexes of an Indexed job, first and last included.
type interval struct{ first, last int32 }

// parseInterval reads "7" or "3-5". Indexes are smaller than completions.
func parseInterval(text string, completions int32) (interval, error) {
	ends := strings.Split(text, "-")
	if len(ends) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var numbers [2]int32
	for i, end := range ends {
		n, err := strconv.Atoi(end)
		if err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", end)
		}
		if n >= int(completions) {
			return interval{}, fmt.Errorf("too large index: %q", end)
		}
		numbers[i] = int32(n)
	}
	if len(ends) == 1 {
		return interval{numbers[0], numbers[0]}, nil
	}
	if numbers[0] >= numbers[1] {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", numbers[0], numbers[1])
	}
	return interval{numbers[0], numbers[1]}, nil
}

// countIndexes returns how many indexes a text like "1,3-5" names, which must be in increasing order.
func countIndexes(text string, completions int32) (int32, error) {
	if text == "" {
		return 0, nil
	}
	var total int32
	last := int32(-1)
	for i, part := range strings.Split(text, ",") {
		in, err := parseInterval(part, completions)
		if err != nil {
			return 0, err
		}
		if i > 0 && last >= in.first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, in.first)
		}
		total += in.last - in.first + 1
		last = in.last
	}
	return total, nil
}

// findOverlap returns the first index that both texts name. Parts that cannot be read are passed over: that they are
// wrong is said elsewhere.
func findOverlap(a, b string, completions int32) (index int32, found bool) {
	left, right := readIntervals(a, completions), readIntervals(b, completions)
	for len(left) > 0 && len(right) > 0 {
		l, r := left[0], right[0]
		if l.first <= r.last && r.first <= l.last {
			return max(l.first, r.first), true
		}
		if l.first <= r.first {
			left = left[1:]
		} else {
			right = right[1:]
		}
	}
	return 0, false
}

func readIntervals(text string, completions int32) []interval {
	var out []interval
	for _, part := range strings.Split(text, ",") {
		if in, err := parseInterval(part, completions); err == nil {
			out = append(out, in)
		}
	}
	return out
}
