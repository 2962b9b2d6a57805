// Package kube tests the generated deep copies of Kubernetes objects, and formats tables of the manual.
package kube

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// Check fills all fields of zero objects and copies them. A copy must be equal and share no memory;
// the copy of a zero object must be zero, that of a nil pointer nil.
func Check(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	for _, o := range objects {
		typ := reflect.TypeOf(o)
		zero := reflect.New(typ.Elem()).Interface().(runtime.Object)
		if d := cmp.Diff(zero, zero.DeepCopyObject()); d != "" {
			t.Errorf("%T: the copy of nothing differs\n%s", o, d)
		}
		if c := reflect.Zero(typ).Interface().(runtime.Object).DeepCopyObject(); c != nil {
			t.Errorf("%T: a copy of nil is %#v", o, c)
		}
		n := 0
		fill(reflect.ValueOf(o).Elem(), &n, 0)
		if n < 40 {
			t.Errorf("%T: only %d values", o, n)
		}
		c := o.DeepCopyObject()
		if d := cmp.Diff(o, c); d != "" {
			t.Errorf("%T: the copy differs\n%s", o, d)
		}
		if s := shared(reflect.ValueOf(o).Elem(), reflect.ValueOf(c).Elem(), ""); len(s) > 0 {
			t.Errorf("%T: shared: %v", o, s)
		}
	}
}

// fill sets every field of a value to a distinct value, down to a depth that limits recursive
// types.
func fill(v reflect.Value, n *int, depth int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), n, depth)
			}
		}
	case reflect.Slice:
		if depth > 4 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n, depth+1)
		fill(v.Index(1), n, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n, depth)
		fill(value, n, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(string(rune('a'+*n%26)) + string(rune('a'+*n/26%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n % 200))
	}
}

// shared returns the paths at which two values share memory, except for times.
func shared(a, b reflect.Value, path string) (out []string) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		if a.Type().PkgPath() == "time" {
			return nil
		}
		for i := range a.NumField() {
			out = append(out, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Slice, reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		for i := 0; a.Kind() == reflect.Slice && i < a.Len(); i++ {
			out = append(out, shared(a.Index(i), b.Index(i), path+"[]")...)
		}
	}
	return out
}
