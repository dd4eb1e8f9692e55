package request

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ListOptions are the options of a list, a watch or a deletecollection as the query has them, with upstream's defaults
// for watches that ask for no version.
type ListOptions struct {
	LabelSelector        labels.Selector // nil: everything
	FieldSelector        fields.Selector // nil: everything
	Watch                bool
	AllowWatchBookmarks  bool
	SendInitialEvents    *bool
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	TimeoutSeconds       int64 // 0: the server chooses
	Limit                int64 // 0: no limit
	Continue             string
}

// maxRequirements is how many requirements a selector has at most: every object, and every event of a watch, may be compared with all of them.
const maxRequirements = 1000

func fewRequirements(n int) error {
	if n > maxRequirements {
		return fmt.Errorf("unable to parse requirement: a selector has at most %d, this one has %d", maxRequirements, n)
	}
	return nil
}

// ParseList reads list options from a raw query. Unknown parameters are ignored; of a repeated one the first counts.
// Errors are BadRequest Statuses with the parser's text.
func ParseList(rawQuery string) (ListOptions, error) {
	var (
		o    ListOptions
		seen uint16
		fail error
	)
	once := func(bit uint16) bool {
		first := seen&bit == 0
		seen |= bit
		return first
	}
	for key, value := range Query(rawQuery) {
		switch key {
		case "labelSelector":
			if once(1) && value != "" {
				sel, err := labels.Parse(value)
				if err == nil {
					requirements, _ := sel.Requirements()
					err = fewRequirements(len(requirements))
				}
				if err != nil {
					fail = firstError(fail, err)
					continue
				}
				if !sel.Empty() {
					o.LabelSelector = sel
				}
			}
		case "fieldSelector":
			if once(2) && value != "" {
				sel, err := fields.ParseSelector(value)
				if err == nil {
					err = fewRequirements(len(sel.Requirements()))
				}
				if err != nil {
					fail = firstError(fail, err)
					continue
				}
				if !sel.Empty() {
					o.FieldSelector = sel
				}
			}
		case "watch":
			if once(4) {
				o.Watch = Bool(value)
			}
		case "allowWatchBookmarks":
			if once(8) {
				o.AllowWatchBookmarks = Bool(value)
			}
		case "sendInitialEvents":
			if once(16) {
				b := Bool(value)
				o.SendInitialEvents = &b
			}
		case "resourceVersion":
			if once(32) {
				o.ResourceVersion = value
			}
		case "resourceVersionMatch":
			if once(64) {
				o.ResourceVersionMatch = metav1.ResourceVersionMatch(value)
			}
		case "timeoutSeconds":
			if once(128) {
				n, err := strconv.ParseInt(value, 10, 64)
				fail = firstError(fail, err)
				o.TimeoutSeconds = max(n, 0)
			}
		case "limit":
			if once(256) {
				n, err := strconv.ParseInt(value, 10, 64)
				fail = firstError(fail, err)
				o.Limit = max(n, 0)
			}
		case "continue":
			if once(512) {
				o.Continue = value
			}
		}
	}
	if fail != nil {
		return o, apierrors.NewBadRequest(fail.Error())
	}
	return o, nil
}

func firstError(have, err error) error {
	if have != nil {
		return have
	}
	return err
}

var listOptionsKind = schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}

// Complete gives a watch its default start and checks the combination of options. The error is an Invalid Status that
// lists everything wrong, in upstream's order.
func (o *ListOptions) Complete() error {
	// The common requests carry nothing that could be wrong.
	if o.ResourceVersionMatch == "" && o.SendInitialEvents == nil && (!o.Watch || (o.ResourceVersion != "" && o.ResourceVersion != "0")) {
		return nil
	}
	in := internalversion.ListOptions{
		Watch:                o.Watch,
		ResourceVersion:      o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch,
		SendInitialEvents:    o.SendInitialEvents,
		Continue:             o.Continue,
	}
	internalversion.SetListOptionsDefaults(&in, true)
	o.ResourceVersionMatch, o.SendInitialEvents = in.ResourceVersionMatch, in.SendInitialEvents
	if errs := validation.ValidateListOptions(&in, true); len(errs) > 0 {
		return apierrors.NewInvalid(listOptionsKind, "", errs)
	}
	return nil
}

// Bool reads a boolean parameter that is present: "0" and "false" are false, anything else, also nothing, is true.
func Bool(value string) bool { return value != "0" && !strings.EqualFold(value, "false") }

// Query yields the parameters of a raw query in their order, unescaped, without building a map. Pairs that cannot be
// unescaped are left out, as net/url does.
func Query(raw string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for raw != "" {
			var pair string
			pair, raw, _ = strings.Cut(raw, "&")
			if pair == "" || strings.IndexByte(pair, ';') >= 0 {
				continue
			}
			key, value, _ := strings.Cut(pair, "=")
			key, err := unescape(key)
			if err != nil {
				continue
			}
			if value, err = unescape(value); err != nil {
				continue
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// Param returns the first value of a query parameter and whether it is there.
func Param(raw, name string) (string, bool) {
	for k, v := range Query(raw) {
		if k == name {
			return v, true
		}
	}
	return "", false
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, nil
	}
	return url.QueryUnescape(s)
}
