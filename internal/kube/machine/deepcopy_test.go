package machine

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// everything is an object with each field that holds something by reference.
var everything = map[string]string{
	"Machine": `{"metadata":{"name":"a","labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[{"kind":"MachineSet","name":"s","controller":true}]},
		"status":{"nodeRef":{"name":"n"},"lastUpdated":"2026-03-01T12:00:00Z","phase":"Running"}}`,
	"MachineSet": `{"metadata":{"name":"a","labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"deletePolicy":"Oldest","template":{"metadata":{"labels":{"a":"b"}}}},"status":{"replicas":2}}`,
	"MachineHealthCheck": `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"5m0s"}],
		"maxUnhealthy":"40%","nodeStartupTimeout":"10m0s","remediationTemplate":{"name":"t"}},
		"status":{"expectedMachines":3,"currentHealthy":2,"remediationsAllowed":1,"conditions":[{"type":"X","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z"}]}}`,
}

// TestDeepCopy: what is changed in a copy, by whatever way, is not changed in the
// original, of an object and of its list.
func TestDeepCopy(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for kind, text := range everything {
		for _, list := range []bool{false, true} {
			name, text := kind, text
			if list {
				name, text = kind+"List", `{"items":[`+text+`]}`
			}
			o, err := s.New(GroupVersion.WithKind(name))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text), o); err != nil {
				t.Fatal(err)
			}
			for _, path := range unfilled(reflect.ValueOf(o).Elem(), name) {
				t.Errorf("%s is not in the sample: whether it is copied is not seen", path)
			}
			before, c := asJSON(t, o), o.DeepCopyObject()
			if d := cmp.Diff(before, asJSON(t, c)); d != "" {
				t.Errorf("%s: the copy differs\n%s", name, d)
			}
			n := 0
			spoil(reflect.ValueOf(c).Elem(), &n)
			if n < 8 || asJSON(t, c) == before {
				t.Errorf("%s: only %d values were spoilt", name, n)
			}
			if d := cmp.Diff(before, asJSON(t, o)); d != "" {
				t.Errorf("%s: the copy is shared\n%s", name, d)
			}
		}
	}
	for _, o := range []runtime.Object{(*Machine)(nil), (*Set)(nil), (*HealthCheck)(nil), (*MachineList)(nil), (*SetList)(nil), (*HealthCheckList)(nil)} {
		if c := o.DeepCopyObject(); c != nil {
			t.Errorf("a copy of nil is %#v", c)
		}
	}
}

func asJSON(t *testing.T, o any) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unfilled are the places of a value that hold nothing by reference, and could.
func unfilled(v reflect.Value, path string) (out []string) {
	switch x := v.Interface().(type) {
	case meta.ObjectMeta:
		if len(x.Labels) == 0 {
			return []string{path}
		}
		return nil
	case meta.LabelSelector:
		if len(x.MatchLabels) == 0 {
			return []string{path}
		}
		return nil
	case meta.ListMeta, meta.Time:
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return []string{path}
		}
		return unfilled(v.Elem(), path)
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return []string{path}
		}
		if v.Kind() == reflect.Slice {
			return unfilled(v.Index(0), path+"[0]")
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, unfilled(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	}
	return out
}

// spoil changes every text, number and truth that can be reached.
func spoil(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem(), n)
		}
	case reflect.Struct:
		if strings.HasPrefix(v.Type().String(), "time.") {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				spoil(v.Field(i), n)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i), n)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(k, reflect.ValueOf("spoilt").Convert(v.Type().Elem()))
				*n++
			}
		}
	case reflect.String:
		v.SetString("spoilt")
		*n++
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		if v.Type().String() != "intstr.Type" {
			v.SetInt(v.Int() + 1)
			*n++
		}
	}
}
