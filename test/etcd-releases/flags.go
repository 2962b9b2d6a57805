package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kinds maps each method of flag.FlagSet that defines a flag to the kind of the flag.
var kinds = map[string]string{
	"StringVar": "string", "UintVar": "uint", "Uint64Var": "uint", "IntVar": "int", "Int64Var": "int",
	"BoolVar": "bool", "DurationVar": "duration", "Var": "string",
}

// zero maps a kind to its default, for fields that NewConfig does not set.
var zero = map[string]string{"uint": "0", "int": "0", "bool": "false", "duration": "0s"}

// flag is a flag in one release.
type flag struct{ kind, def string }

// flags returns the flags of the server. "ignored" flags are accepted with or without a value, and
// have no effect.
func (s *source) flags() (map[string]flag, error) {
	config, err := s.newConfig()
	if err != nil {
		return nil, err
	}
	out := map[string]flag{}
	for _, below := range []string{"embed", "etcdmain"} {
		p, err := s.load(below)
		if err != nil {
			return nil, err
		}
		for _, f := range p.files {
			in := scope{source: s, file: f, pkg: p, config: config}
			for _, d := range f.Decls {
				// The other commands of etcdmain, gateway and grpc-proxy, have flags by pflag.
				if fn, ok := d.(*ast.FuncDecl); ok && (fn.Name.Name == "newConfig" || fn.Name.Name == "AddFlags") {
					ast.Inspect(fn.Body, func(n ast.Node) bool {
						if call, ok := n.(*ast.CallExpr); ok {
							in.defined(out, call)
						}
						return true
					})
				}
			}
		}
		if names, ok := p.values["ignored"].(*ast.CompositeLit); ok {
			for _, e := range names.Elts {
				name, err := strconv.Unquote(e.(*ast.BasicLit).Value)
				if err != nil {
					return nil, err
				}
				out[name] = flag{kind: "ignored"}
			}
		}
	}
	if len(out) < 80 {
		return nil, fmt.Errorf("%s: only %d flags found", s.name, len(out))
	}
	return out, nil
}

// defined reads fs.UintVar(&cfg.TickMs, "heartbeat-interval", cfg.TickMs, "usage") and
// GATES.AddFlag(fs, "feature-gates").
func (s scope) defined(out map[string]flag, call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return
	}
	kind, known := kinds[sel.Sel.Name]
	switch {
	case known && fieldPath(sel.X) == "fs":
	case sel.Sel.Name == "AddFlag" && fieldPath(call.Args[0]) == "fs":
		kind, known = "string", false
	default:
		return
	}
	name := s.eval(call.Args[1])
	if name == nil || name.Kind() != constant.String {
		return // of the loop over those that are ignored
	}
	f := flag{kind: kind}
	switch {
	case !known:
	case sel.Sel.Name == "Var":
		if of, ok := call.Args[0].(*ast.CallExpr); ok && fieldPath(of.Fun) == "flags.NewUint32Value" {
			f.kind = "uint"
		}
		if v := s.eval(call.Args[0]); v != nil {
			f.def = text(v, f.kind)
		}
	default:
		field := strings.TrimPrefix(strings.TrimPrefix(fieldPath(call.Args[2]), "cfg."), "ec.")
		if v := s.eval(call.Args[2]); v != nil {
			f.def = text(v, kind)
		} else if _, set := s.config[field]; !set && !strings.Contains(field, ".") {
			f.def = zero[kind]
		} // else it is set to what is not a constant of this module
	}
	out[constant.StringVal(name)] = f
}

// text returns a constant in the form of a command line.
func text(v constant.Value, kind string) string {
	if kind == "duration" {
		n, _ := constant.Int64Val(constant.ToInt(v))
		return time.Duration(n).String()
	}
	switch v.Kind() {
	case constant.String:
		return constant.StringVal(v)
	case constant.Float:
		return constant.ToInt(v).ExactString()
	}
	return v.ExactString()
}

// gates returns the feature gates that replaced flags (3.6, features).
func (s *source) gates() (map[string]string, error) {
	p, err := s.load("features")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	lit, _ := p.values["ExperimentalFlagToFeatureMap"].(*ast.CompositeLit)
	for i := 0; lit != nil && i < len(lit.Elts); i++ {
		pair := lit.Elts[i].(*ast.KeyValueExpr)
		in := scope{source: s, pkg: p}
		if name, gate := in.eval(pair.Key), in.eval(pair.Value); name != nil && gate != nil {
			out[constant.StringVal(name)] = constant.StringVal(gate)
		}
	}
	return out, nil
}

// features returns the gates that the server's feature-gates accepts: its own gates, and those that
// set all gates of a stage (go.etcd.io/etcd/pkg/v3/featuregate).
func (s *source) features() (out []string, err error) {
	p, err := s.load("features")
	if err != nil {
		return nil, err
	}
	lit, ok := p.values["DefaultEtcdServerFeatureGates"].(*ast.CompositeLit)
	if !ok {
		return nil, nil
	}
	for _, e := range lit.Elts {
		if name := (scope{source: s, pkg: p}).eval(e.(*ast.KeyValueExpr).Key); name != nil {
			out = append(out, constant.StringVal(name))
		}
	}
	if len(out) != len(lit.Elts) {
		return nil, fmt.Errorf("%s: %d of %d features have a name", s.name, len(out), len(lit.Elts))
	}
	return append(out, "AllAlpha", "AllBeta"), nil
}

// keys returns the keys of the configuration file; nested keys are joined with a dot. etcd ignores
// other keys silently.
func (s *source) keys() ([]string, error) {
	out := map[string]bool{}
	for _, below := range []string{"embed", "etcdmain"} {
		p, err := s.load(below)
		if err != nil {
			return nil, err
		}
		structs := map[string]*ast.StructType{}
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if t, ok := n.(*ast.TypeSpec); ok {
					if st, ok := t.Type.(*ast.StructType); ok {
						structs[t.Name.Name] = st
					}
				}
				return true
			})
		}
		for _, name := range map[string][]string{"embed": {"Config", "configJSON"}, "etcdmain": {"configProxy"}}[below] {
			if st := structs[name]; st != nil {
				addKeys(out, "", st, structs)
			}
		}
	}
	if len(out) < 70 {
		return nil, fmt.Errorf("%s: only %d keys found", s.name, len(out))
	}
	return slices.Sorted(maps.Keys(out)), nil
}

func addKeys(out map[string]bool, prefix string, st *ast.StructType, structs map[string]*ast.StructType) {
	for _, field := range st.Fields.List {
		for range field.Names {
			key := ""
			if field.Tag != nil {
				tag, _ := strconv.Unquote(field.Tag.Value)
				key, _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			}
			if key == "" || key == "-" {
				continue // no document names a field by its name in Go
			}
			out[prefix+key] = true
			if of, ok := field.Type.(*ast.Ident); ok && structs[of.Name] != nil {
				addKeys(out, prefix+key+".", structs[of.Name], structs)
			}
		}
	}
}
