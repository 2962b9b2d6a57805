package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/strict"
)

// Fields is a KubeletConfiguration or a part of it, with JSON's types; whole numbers are int64,
// others float64. Functions never modify it.
type Fields map[string]any

// maxText limits a configuration, in bytes. A thousand settings need a few thousand.
const maxText = 1 << 20

// Parse parses fields from YAML or JSON. A duplicate field is an error.
func Parse(data []byte) (Fields, error) {
	if len(data) > maxText {
		return nil, text.Errorf("%d bytes are too many; at most %d allowed", len(data), maxText)
	}
	b, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		line, words := strict.Syntax(err)
		if line > 0 {
			words = fmt.Sprintf("line %d: %s", line, words)
		}
		return nil, errors.New(words)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' && string(b) != "null" {
		return nil, fmt.Errorf("want a map with fields of a KubeletConfiguration, found %.40s", b)
	}
	var f map[string]any
	unknown, err := kjson.UnmarshalStrict(b, &f)
	if err == nil {
		err = errors.Join(unknown...)
	}
	return f, err
}

// Merge returns the JSON merge patch of RFC 7386, as a kubelet merges a drop-in: maps are merged,
// null removes a member, any other value, including a list, replaces the old one.
func Merge(under, over Fields) Fields {
	out := maps.Clone(under)
	if out == nil {
		out = Fields{}
	}
	for name, v := range over {
		switch v := v.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			was, _ := out[name].(map[string]any)
			out[name] = map[string]any(Merge(was, v))
		default:
			out[name] = v
		}
	}
	return out
}

// MergeAll merges drop-ins over a configuration, in order.
func MergeAll(under Fields, dropIns []Fields) Fields {
	for _, over := range dropIns {
		under = Merge(under, over)
	}
	return under
}

// header is the first comment of fettle's drop-in.
const header = "# Written by fettle from KubeletConfig objects. If you edit this file, fettle will\n# not change it again.\n"

// DropIn returns a drop-in's text for the fields, or "" without fields. Equal fields give equal
// texts.
func DropIn(f Fields) (string, error) {
	if len(f) == 0 {
		return "", nil
	}
	all := map[string]any(Merge(f, Fields{"apiVersion": APIVersion, "kind": Kind}))
	b, err := yaml.Marshal(all)
	if err != nil {
		return "", err
	}
	return header + string(b), nil
}

// canonical returns a value in a comparable form, because a kubelet may print it in another
// spelling.
func canonical(name string, v any) any {
	switch name {
	case "reservedMemory":
		all, err := memoryReservations(v)
		if err != nil {
			return v
		}
		out := []any{}
		for _, r := range all {
			limits := map[string]any{}
			for resource, q := range r.Limits {
				limits[resource] = exact(q)
			}
			out = append(out, map[string]any{"numaNode": int64(r.NUMANode), "limits": limits})
		}
		return out
	case "kubeReserved", "systemReserved":
		m, _ := v.(map[string]any)
		out := map[string]any{}
		for resourceName, text := range m {
			s, _ := text.(string)
			q, err := parseAmount(s)
			if err != nil {
				return v
			}
			out[resourceName] = exact(q)
		}
		return out
	case "reservedSystemCPUs":
		s, _ := v.(string)
		if set, err := unit.ParseCPUList(s); err == nil {
			return set.String()
		}
	case "cpuManagerReconcilePeriod":
		s, _ := v.(string)
		if d, err := time.ParseDuration(s); err == nil {
			return d.String()
		}
	}
	return v
}

// exact returns a quantity in one spelling: 0.5 becomes 500m.
func exact(q resource.Quantity) string {
	r, _ := new(big.Rat).SetString(q.AsDec().String())
	return r.RatString()
}

// same reports whether two values of a setting are equal; nil means missing.
func same(name string, a, b any) bool {
	empty := func(v any) bool {
		r := reflect.ValueOf(v)
		return v == nil || (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0 || v == ""
	}
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	return reflect.DeepEqual(canonical(name, a), canonical(name, b))
}

// Difference is a setting whose running value differs from the request.
type Difference struct {
	Name string `json:"name"`
	Want any    `json:"want"`
	Has  any    `json:"has"`
}

func (d Difference) String() string {
	want, _ := json.Marshal(d.Want)
	has, _ := json.Marshal(d.Has)
	return fmt.Sprintf("%s is %s, want %s", d.Name, has, want)
}

// Differences compares the requested settings with the running ones (/configz) and ignores other
// settings. With reservedSystemCPUs, a kubelet derives the cpu of kubeReserved and systemReserved
// itself (cmd/kubelet/app/server.go, run).
func Differences(want, has Fields) []Difference {
	counted := !same("reservedSystemCPUs", has["reservedSystemCPUs"], nil)
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if name == "apiVersion" || name == "kind" {
			continue
		}
		w, h := want[name], has[name]
		if s := find(name); s != nil { // a kubelet omits zeros, such as podsPerCore: 0
			w, h = s.standard(want), s.standard(has)
		}
		if counted && (name == "kubeReserved" || name == "systemReserved") {
			w, h = withoutCPU(w), withoutCPU(h)
		}
		if m, ok := w.(map[string]any); ok {
			h = only(h, m)
		}
		if !same(name, w, h) {
			out = append(out, Difference{name, want[name], has[name]})
		}
	}
	return out
}

func withoutCPU(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	delete(m, "cpu")
	return m
}

// only keeps the keys of a map that are in of, because a drop-in is merged into a map.
func only(v any, of map[string]any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(name string, _ any) bool { _, ok := of[name]; return !ok })
	return m
}
