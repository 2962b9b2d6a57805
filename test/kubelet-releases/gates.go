package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// gatePackages declare the feature gates that are registered in a kubelet, by their own init or by
// cmd/kubelet/app and pkg/kubelet/server (AddFeatureGates). Not every release has all of them.
var gatePackages = []string{
	"k8s.io/kubernetes/pkg/features",
	"k8s.io/apiserver/pkg/features",
	"k8s.io/apiextensions-apiserver/pkg/features",
	"k8s.io/component-base/logs/api/v1",
	"k8s.io/component-base/metrics/features",
	"k8s.io/component-base/zpages/features",
	"k8s.io/client-go/features",
	// Through k8s.io/cloud-provider/options, which imports its register.
	"k8s.io/controller-manager/pkg/features",
}

// special are gates of component-base/featuregate that set all gates of a stage.
var special = map[string]string{"AllAlpha": "alpha,off", "AllBeta": "beta,off"}

// gates returns the feature gates of a kubelet with stage, default and lock: "beta,on",
// "ga,on,locked".
func gates(r release, dirs map[string]string) (map[string]string, error) {
	names := map[string]map[string]string{} // package, constant: text, or true and false
	files := map[string][]*ast.File{}
	for _, pkg := range gatePackages {
		dir, err := directory(r, pkg, dirs)
		if err != nil {
			return nil, err
		}
		if files[pkg], err = parse(dir); err != nil {
			return nil, err
		}
		names[pkg] = constants(files[pkg])
	}
	out := map[string]string{}
	for name, spec := range special {
		out[name] = spec
	}
	for _, pkg := range gatePackages {
		for _, f := range files[pkg] {
			var err error
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || err != nil || !isGateMap(lit.Type) {
					return err == nil
				}
				for _, e := range lit.Elts {
					pair := e.(*ast.KeyValueExpr)
					var name, spec string
					if name, err = gateName(pair.Key, pkg, f, names); err == nil {
						spec, err = specAt(pair.Value.(*ast.CompositeLit), r.minor, names[pkg])
					}
					if err != nil {
						err = fmt.Errorf("%s of 1.%d: %w", pkg, r.minor, err)
						return false
					}
					if was, ok := out[name]; ok && spec != was {
						err = fmt.Errorf("%s of 1.%d: %s is %s, and %s elsewhere", pkg, r.minor, name, spec, was)
						return false
					}
					if spec != "" {
						out[name] = spec
					}
				}
				return false
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// directory returns the directory of a package of a module.
func directory(r release, pkg string, dirs map[string]string) (string, error) {
	for _, m := range kubeletModules {
		if rest, ok := strings.CutPrefix(pkg, m+"/"); ok {
			return path.Join(dirs[r.of(m)], rest), nil
		}
	}
	return "", fmt.Errorf("%s is in none of the modules", pkg)
}

// parse reads the files of a package without its tests, or only the named files. It returns nothing
// if the release does not have the package.
func parse(dir string, only ...string) ([]*ast.File, error) {
	pkgs, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go") && (len(only) == 0 || slices.Contains(only, f.Name()))
	}, parser.SkipObjectResolution)
	if pathMissing(err) {
		return nil, nil
	}
	var out []*ast.File
	for _, p := range pkgs {
		for _, f := range p.Files {
			out = append(out, f)
		}
	}
	return out, err
}

// constants returns the text and boolean constants of a package.
func constants(files []*ast.File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						value := v.Values[i]
						if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
							value = call.Args[0] // featuregate.Feature("...")
						}
						switch value := value.(type) {
						case *ast.BasicLit:
							if value.Kind == token.STRING {
								out[name.Name], _ = strconv.Unquote(value.Value)
							}
						case *ast.Ident:
							out[name.Name] = value.Name
						}
					}
				}
			}
		}
	}
	return out
}

// isGateMap reports whether a type is a map from gates to their specification.
func isGateMap(t ast.Expr) bool {
	m, ok := t.(*ast.MapType)
	if !ok || lastName(m.Key) != "Feature" {
		return false
	}
	switch lastName(m.Value) {
	case "FeatureSpec", "VersionedSpecs":
		return true
	}
	return false
}

// lastName returns X for X and for pkg.X.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// gateName returns the name of a gate whose constant is in this package or in another.
func gateName(key ast.Expr, pkg string, f *ast.File, names map[string]map[string]string) (string, error) {
	if sel, ok := key.(*ast.SelectorExpr); ok {
		alias := sel.X.(*ast.Ident).Name
		pkg = ""
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			if i.Name != nil && i.Name.Name == alias || i.Name == nil && path.Base(p) == alias {
				pkg = p
			}
		}
	}
	name, ok := names[pkg][lastName(key)]
	if !ok {
		return "", fmt.Errorf("the constant %s of %q is not known", lastName(key), pkg)
	}
	return name, nil
}

// specAt returns the specification of a gate in a release, or "" if the gate is newer. A list has
// an entry for each release that changed the gate. A kubelet emulates at least the release before
// its own (featuregate.NewFeatureGate); entries that require more do not apply to it.
func specAt(lit *ast.CompositeLit, minor int, constants map[string]string) (string, error) {
	if len(lit.Elts) > 0 {
		if _, ok := lit.Elts[0].(*ast.KeyValueExpr); ok {
			s, err := readSpec(lit, constants)
			return s.text, err
		}
	}
	out, last := "", -1
	for _, e := range lit.Elts {
		s, err := readSpec(e.(*ast.CompositeLit), constants)
		if err != nil {
			return "", err
		}
		if s.since >= last && s.since <= minor && s.compatible < minor {
			out, last = s.text, s.since
		}
	}
	return out, nil
}

// spec is a stage of a gate, the release in which it begins, and the minimum compatibility version
// that the program must have.
type spec struct {
	since, compatible int
	text              string
}

// readSpec parses {Version: version.MustParse("1.35"), Default: true, PreRelease:
// featuregate.Beta}.
func readSpec(lit *ast.CompositeLit, constants map[string]string) (s spec, err error) {
	stage, on, locked := "", "off", ""
	for _, e := range lit.Elts {
		pair := e.(*ast.KeyValueExpr)
		switch key := lastName(pair.Key); key {
		case "Default", "LockToDefault":
			value := lastName(pair.Value)
			if c, ok := constants[value]; ok {
				value = c
			}
			switch {
			case value != "true" && value != "false":
				return s, fmt.Errorf("%s is neither true nor false", key)
			case value == "true" && key == "Default":
				on = "on"
			case value == "true":
				locked = ",locked"
			}
		case "PreRelease":
			switch stage = strings.ToLower(lastName(pair.Value)); stage {
			case "alpha", "beta", "ga", "deprecated":
			default:
				return s, fmt.Errorf("unknown stage %q", stage)
			}
		case "Version":
			s.since, err = minorOf(pair.Value)
		case "MinCompatibilityVersion":
			s.compatible, err = minorOf(pair.Value)
		default:
			return s, fmt.Errorf("unknown field %s", key)
		}
		if err != nil {
			return s, err
		}
	}
	if stage == "" {
		return s, fmt.Errorf("no stage")
	}
	s.text = stage + "," + on + locked
	return s, nil
}

// minorOf returns 35 for version.MustParse("1.35") and for version.MajorMinor(1, 35).
func minorOf(e ast.Expr) (int, error) {
	call, ok := e.(*ast.CallExpr)
	if ok && len(call.Args) > 0 {
		if lit, ok := call.Args[len(call.Args)-1].(*ast.BasicLit); ok {
			text := strings.Trim(lit.Value, `"`)
			return strconv.Atoi(strings.TrimPrefix(text, "1."))
		}
	}
	return 0, fmt.Errorf("a version is not a call with a number")
}

// policyOptions returns the options of the CPU and topology managers' policies, as "FIELD NAME",
// with their stages.
func policyOptions(r release, dirs map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for field, pkg := range map[string]string{"cpuManagerPolicyOptions": "cpumanager", "topologyManagerPolicyOptions": "topologymanager"} {
		dir, err := directory(r, "k8s.io/kubernetes/pkg/kubelet/cm/"+pkg, dirs)
		if err != nil {
			return nil, err
		}
		files, err := parse(dir, "policy_options.go")
		if err != nil {
			return nil, err
		}
		known, found := constants(files), 0
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				v, ok := n.(*ast.ValueSpec)
				if !ok || len(v.Values) != 1 {
					return true
				}
				stage := map[string]string{"alphaOptions": "alpha", "betaOptions": "beta", "stableOptions": "ga"}[v.Names[0].Name]
				if set, ok := v.Values[0].(*ast.CallExpr); ok && stage != "" {
					found++
					for _, e := range set.Args {
						out[field+" "+known[lastName(e)]] = stage
					}
				}
				return false
			})
		}
		if _, unnamed := out[field+" "]; found != 3 || unnamed {
			return nil, fmt.Errorf("%s of 1.%d: %d stages of options found, and not 3 with names", pkg, r.minor, found)
		}
	}
	return out, nil
}
