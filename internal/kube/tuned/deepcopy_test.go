package tuned

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// fill gives every field of a value something of its own, to a depth at which
// types that hold themselves end.
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
	case reflect.Int64, reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*n % 200))
	}
}

// shared are the places that two values have in common.
func shared(a, b reflect.Value, path string) (out []string) {
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			if a.Pointer() == b.Pointer() {
				return []string{path}
			}
			return shared(a.Elem(), b.Elem(), path)
		}
	case reflect.Struct:
		if a.Type().PkgPath() == "time" {
			return nil
		}
		for i := range a.NumField() {
			out = append(out, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		for i := range a.Len() {
			out = append(out, shared(a.Index(i), b.Index(i), path+"[]")...)
		}
	case reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
	}
	return out
}

func TestDeepCopy(t *testing.T) {
	for _, o := range []runtime.Object{&Tuned{}, &TunedList{}, &Profile{}, &ProfileList{}} {
		n := 0
		fill(reflect.ValueOf(o).Elem(), &n, 0)
		if n < 50 {
			t.Fatalf("%T: only %d values", o, n)
		}
		c := o.DeepCopyObject()
		if d := cmp.Diff(o, c); d != "" {
			t.Errorf("%T: the copy differs\n%s", o, d)
		}
		if s := shared(reflect.ValueOf(o).Elem(), reflect.ValueOf(c).Elem(), ""); len(s) > 0 {
			t.Errorf("%T: shared: %v", o, s)
		}
		zero := reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.Object)
		if d := cmp.Diff(zero, zero.DeepCopyObject()); d != "" {
			t.Errorf("%T: the copy of nothing differs\n%s", o, d)
		}
	}
	for name, c := range map[string]runtime.Object{
		"Tuned": (*Tuned)(nil).DeepCopyObject(), "TunedList": (*TunedList)(nil).DeepCopyObject(),
		"Profile": (*Profile)(nil).DeepCopyObject(), "ProfileList": (*ProfileList)(nil).DeepCopyObject(),
	} {
		if c != nil {
			t.Errorf("%s: a copy of nil is %#v", name, c)
		}
	}
}

func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Tuned", "TunedList", "Profile", "ProfileList"} {
		if o, err := s.New(GroupVersion.WithKind(kind)); err != nil || reflect.TypeOf(o).Elem().Name() != kind {
			t.Errorf("%s: %T %v", kind, o, err)
		}
	}
}
