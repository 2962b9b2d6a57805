package platform

import (
	"context"
	"reflect"
	"strings"

	"fettle.dev/fettle/internal/fact"
)

// Facts returns the sources of facts, one per part of the fact tree.
func Facts() []Source {
	open := func(_ context.Context, s *Subject) Answers { return facts{s.Facts()} }
	var out []Source
	part := func(name string) *Source {
		prefix, _, _ := strings.Cut(name, ".")
		if n := len(out); n == 0 || out[n-1].Prefix != prefix {
			out = append(out, Source{Prefix: prefix, Open: open})
		}
		return &out[len(out)-1]
	}
	fields, sets := fact.Fields()
	for _, f := range fields {
		if t := typeOf(f.Type); t != "" {
			s := part(f.Name)
			s.Inputs = append(s.Inputs, fact.Input{Name: f.Name, Type: t, Unit: unitOf(f.Name)})
		}
	}
	for _, set := range sets {
		prefix, _, _ := strings.Cut(set, ".")
		for i := range out {
			if out[i].Prefix == prefix && !strings.Contains(set, "*") {
				out[i].Sets = append(out[i].Sets, set)
			}
		}
	}
	return out
}

// typeOf returns the rules' type for a fact's Go type, or "" if none exists.
func typeOf(t reflect.Type) fact.Type {
	switch reflect.Zero(t).Interface().(type) {
	case string:
		return fact.Text
	case bool:
		return fact.Truth
	case int64, float64:
		return fact.Number
	case []string:
		return fact.List
	case map[string]string:
		return fact.Map
	}
	return ""
}

// unitOf returns the unit at the end of a fact's name, or "". An MTU has none: it is printed as a
// plain number, 1500 rather than 1.46 KiB.
func unitOf(name string) string {
	if strings.HasSuffix(name, ".mtu_bytes") {
		return ""
	}
	for suffix, unit := range map[string]string{"_bytes": "bytes", "_s": "s", "_ns": "ns", "_hz": "Hz", "_bits_per_second": "bit/s"} {
		if strings.HasSuffix(name, suffix) {
			return unit
		}
	}
	return ""
}

type facts struct{ index *fact.Index }

func (f facts) Answer(input string) fact.Answer {
	it, ok := f.index.Lookup(input)
	switch {
	case !ok:
		return fact.Answer{Unknown: "unknown fact"}
	case it.Unknown != "":
		return fact.Answer{Unknown: it.Unknown, At: it.Source}
	case it.Absent:
		return fact.Answer{At: it.Source}
	}
	v, ok := fact.Plain(it.Value)
	if !ok {
		return fact.Answer{Unknown: "rules cannot use a fact of this type", At: it.Source}
	}
	return fact.Answer{Value: v, At: it.Source, LowerBound: it.More}
}

func (f facts) Items(set string) (names []string, unknown string) {
	names, ok := f.index.Members(set)
	if !ok || names == nil {
		if it, ok := f.index.Lookup(set); ok {
			return nil, it.Unknown
		}
		return nil, "the machine has no facts of " + set
	}
	return names, ""
}
