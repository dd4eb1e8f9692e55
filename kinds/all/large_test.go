package all

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/kinds"
	"vigil/kinds/kindtest"
)

// No list or map of any kind costs more to default, prepare and validate than its size says: eight times the elements take eight times
// the time, not sixty-four. Elements are of one form with different names; most are not valid, which costs as much.
func TestLargeFields(t *testing.T) {
	const few, many = 200, 1600
	runtime.LockOSThread() // whose time is measured, without what the garbage collector takes of it
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	fields := 0
	for _, row := range Table().All() {
		if row.Unstored || row.View != nil || row.Validate == nil {
			continue
		}
		for _, path := range wide(reflect.TypeOf(row.New()).Elem(), nil, nil) {
			if slices.Contains(path, "Template") && row.Resource != "deployments" && row.Resource != "jobs" {
				continue // the same template
			}
			if fields++; fields%20 == 0 {
				runtime.GC()
			}
			small, large := cost(t, row, path, few), cost(t, row, path, many)
			for try := 0; try < 3 && large > 4*time.Millisecond && large > 24*small; try++ {
				small, large = max(small, cost(t, row, path, few)), min(large, cost(t, row, path, many))
			}
			if large > 4*time.Millisecond && large > 24*small {
				t.Errorf("%s %s: %v with %d elements, %v with %d", row.Resource, strings.Join(path, "."), small, few, large, many)
			}
		}
	}
	t.Logf("%d fields", fields)
}

// cost is the CPU time that it takes to create and then update an object whose field at path has n elements.
func cost(t *testing.T, row *kinds.Kind, path []string, n int) time.Duration {
	obj := row.New()
	if err := json.Unmarshal(kindtest.Sample(t, row), obj); err != nil {
		t.Fatal(err)
	}
	grow(reflect.ValueOf(obj).Elem(), path, n)
	old := obj.DeepCopyObject().(kinds.Object)
	begin := cpu()
	if row.Default != nil {
		row.Default(obj)
	}
	if row.PrepareCreate != nil {
		row.PrepareCreate(obj)
	}
	row.Validate(obj)
	next := obj.DeepCopyObject().(kinds.Object)
	kindtest.Change(row, "", next, old)
	for i := range row.Subresources {
		if s := &row.Subresources[i]; s.Validate != nil {
			kindtest.Change(row, s.Name, next.DeepCopyObject().(kinds.Object), old)
		}
	}
	if row.Row != nil {
		row.Row(obj, time.Now())
	}
	return cpu() - begin
}

// cpu is the CPU time of this thread.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

var leaves = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true, reflect.TypeFor[resource.Quantity](): true,
	reflect.TypeFor[intstr.IntOrString](): true, reflect.TypeFor[metav1.ManagedFieldsEntry](): true,
}

// wide returns the paths of all lists and maps in a type, by the names of Go fields. A type inside itself is not entered again.
func wide(typ reflect.Type, path []string, inside []reflect.Type) (paths [][]string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if leaves[typ] || slices.Contains(inside, typ) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Slice, reflect.Map:
		if typ.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		paths = append(paths, slices.Clone(path))
		return append(paths, wide(typ.Elem(), path, inside)...)
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.IsExported() && f.Name != "ManagedFields" {
				paths = append(paths, wide(f.Type, append(path, f.Name), append(inside, typ))...)
			}
		}
	}
	return paths
}

// grow makes the way to path, with one element in each list on it, and n in the last.
func grow(v reflect.Value, path []string, n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		grow(v.Elem(), path, n)
	case reflect.Struct:
		grow(v.FieldByName(path[0]), path[1:], n)
	case reflect.Slice:
		if len(path) == 0 {
			for i := range n {
				e := reflect.New(v.Type().Elem()).Elem()
				name(e, i, 0)
				v.Set(reflect.Append(v, e))
			}
			return
		}
		if v.Len() == 0 {
			e := reflect.New(v.Type().Elem()).Elem()
			name(e, 0, 0)
			v.Set(reflect.Append(v, e))
		}
		grow(v.Index(0), path, n)
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if len(path) > 0 {
			n = 1
		}
		for i := range n {
			key := reflect.New(v.Type().Key()).Elem()
			key.SetString(fmt.Sprint("n", i))
			e := reflect.New(v.Type().Elem()).Elem()
			name(e, i, 0)
			if len(path) > 0 {
				grow(e, path, n)
			}
			v.SetMapIndex(key, e)
		}
	}
}

// name gives what tells an element apart different values.
func name(v reflect.Value, i, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("n", i))
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(i + 1))
	case reflect.Pointer:
		if depth < 2 {
			e := reflect.New(v.Type().Elem())
			name(e.Elem(), i, depth+1)
			v.Set(e)
		}
	case reflect.Struct:
		if leaves[v.Type()] || depth > 2 {
			return
		}
		for j := range v.NumField() {
			if f := v.Field(j); f.CanSet() {
				name(f, i, depth+1)
			}
		}
	}
}
