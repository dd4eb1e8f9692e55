package validate

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A quantity is kept as a number and a power of ten, and whoever compares or adds two of them makes integers of as many digits: with
// 1e300000000 that takes minutes. Upstream documents that quantities are not larger than 2^63-1 and have at most nine decimals, but
// only parses them so with binary suffixes. These bounds take every float64, in any notation.
const (
	maxQuantityExponent = 400
	maxQuantityLength   = 800 // bytes of the text
)

// ParseQuantity is resource.ParseQuantity with bounds on what the text may cost. Texts from outside are parsed by it alone.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := QuantityText(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// QuantityText refuses texts that would cost too much as a quantity. It says nothing about texts that are none. The errors wrap those of
// resource.ParseQuantity for a number or exponent that it cannot read.
func QuantityText(text string) error {
	text = strings.TrimSpace(text) // as quantities in JSON do
	if len(text) > maxQuantityLength {
		return fmt.Errorf("%w: longer than %d bytes", resource.ErrNumeric, maxQuantityLength)
	}
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(text[at+1:])
	if numeric, ok := err.(*strconv.NumError); ok && numeric.Err == strconv.ErrSyntax {
		return nil // a suffix
	}
	if err != nil || exponent > maxQuantityExponent || exponent < -maxQuantityExponent {
		return fmt.Errorf("%w: the exponent of %q is not between -%[3]d and %[3]d", resource.ErrSuffix, text, maxQuantityExponent)
	}
	return nil
}
