package resource

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unlimited is the limit of a list that has none.
const unlimited = -1

// each checks the items of a list of at most limit items. A longer one is not looked at.
func each[T any](list []T, limit int, path *field.Path, check func(item *T, path *field.Path) field.ErrorList) field.ErrorList {
	if limit >= 0 && len(list) > limit {
		return field.ErrorList{field.TooMany(path, len(list), limit)}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, check(&list[i], path.Index(i))...)
	}
	return errs
}

// set is each for a list whose items differ in their keys.
func set[T any, K comparable](list []T, limit int, path *field.Path, key func(*T) K, check func(item *T, path *field.Path) field.ErrorList) field.ErrorList {
	errs := each(list, limit, path, check)
	if limit >= 0 && len(list) > limit {
		return errs
	}
	seen := sets.New[K]()
	for i := range list {
		k := key(&list[i])
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		}
		seen.Insert(k)
	}
	return errs
}

func itself(text *string) string { return *text }

// sorted gives the keys of a map in order, that errors may come in the same order each time.
func sorted[K ~string, V any](m map[K]V) []K { return sets.List(sets.KeySet(m)) }

// shorten cuts the middle out of a map key that is too long to be shown.
func shorten(key string, limit int) string {
	const dots = "..."
	if len(key) <= limit {
		return key
	}
	rest := limit - len(dots)
	return key[:(rest+1)/2] + dots + key[len(key)-rest/2:]
}
