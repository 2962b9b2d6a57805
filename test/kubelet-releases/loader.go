package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"path"
	"slices"
	"strings"
)

// loader returns the ways in which a release reads its configuration files. It recognizes each way
// by a name that the functions of cmd/kubelet/app/server.go mention.
func loader(r release, dirs map[string]string) (map[string]string, error) {
	files, err := parse(path.Join(dirs[r.of("k8s.io/kubernetes")], "cmd/kubelet/app"))
	if err != nil {
		return nil, err
	}
	source := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				var b bytes.Buffer
				if err := printer.Fprint(&b, token.NewFileSet(), fn); err != nil {
					return nil, err
				}
				source[fn.Name.Name] = b.String()
			}
		}
	}
	out := map[string]string{}
	for way, in := range map[string]struct{ function, mentions string }{
		"gate":      {"NewKubeletCommand", "KUBELET_CONFIG_DROPIN_DIR_ALPHA"},
		"versioned": {"mergeKubeletConfigurations", "SetDefaults_KubeletConfiguration"},
		"kinds":     {"mergeKubeletConfigurations", "SchemeGroupVersion.WithKind"},
		"eviction":  {"loadConfigFile", "MergeDefaultEvictionSettings"},
		"skipped":   {"mergeKubeletConfigurations", "skippedFiles"},
	} {
		text, ok := source[in.function]
		if !ok {
			return nil, fmt.Errorf("1.%d: cmd/kubelet/app has no %s", r.minor, in.function)
		}
		if strings.Contains(text, in.mentions) {
			out[way] = "yes"
		}
	}
	return out, nil
}

// kubeadmEtcd returns the version of etcd that kubeadm of a release installs, and the oldest
// external etcd that it accepts, without the revision of the image.
func kubeadmEtcd(r release, dirs map[string]string) (map[string]string, error) {
	files, err := parse(path.Join(dirs[r.of("k8s.io/kubernetes")], "cmd/kubeadm/app/constants"))
	if err != nil {
		return nil, err
	}
	named, out := constants(files), map[string]string{}
	for key, name := range map[string]string{"default": "DefaultEtcdVersion", "least": "MinExternalEtcdVersion"} {
		if out[key], _, _ = strings.Cut(named[name], "-"); out[key] == "" {
			return nil, fmt.Errorf("1.%d: cmd/kubeadm/app/constants has no %s", r.minor, name)
		}
	}
	return out, nil
}

// needs returns the gates that each gate requires, separated by commas. Gates without requirements
// are omitted.
func needs(r release, dirs map[string]string) (map[string]string, error) {
	const pkg = "k8s.io/kubernetes/pkg/features"
	dir, err := directory(r, pkg, dirs)
	if err != nil {
		return nil, err
	}
	files, err := parse(dir)
	if err != nil {
		return nil, err
	}
	names := map[string]map[string]string{pkg: constants(files)}
	for _, other := range gatePackages {
		if dir, err = directory(r, other, dirs); err != nil {
			return nil, err
		}
		more, err := parse(dir)
		if err != nil {
			return nil, err
		}
		names[other] = constants(more)
	}
	out := map[string]string{}
	for _, f := range files {
		var wrong error
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || wrong != nil || !isNeedMap(lit.Type) {
				return wrong == nil
			}
			for _, e := range lit.Elts {
				pair := e.(*ast.KeyValueExpr)
				var all []string
				for _, item := range append([]ast.Expr{pair.Key}, pair.Value.(*ast.CompositeLit).Elts...) {
					if call, ok := item.(*ast.CallExpr); ok && len(call.Args) == 1 {
						item = call.Args[0] // featuregate.Feature(...)
					}
					name, err := gateName(item, pkg, f, names)
					if err != nil {
						wrong = err
						return false
					}
					all = append(all, name)
				}
				if slices.Sort(all[1:]); len(all) > 1 {
					out[all[0]] = strings.Join(all[1:], ",")
				}
			}
			return false
		})
		if wrong != nil {
			return nil, fmt.Errorf("%s of 1.%d: %w", pkg, r.minor, wrong)
		}
	}
	return out, nil
}

// isNeedMap reports whether a type is a map from gates to lists of gates.
func isNeedMap(t ast.Expr) bool {
	m, ok := t.(*ast.MapType)
	if !ok || lastName(m.Key) != "Feature" {
		return false
	}
	list, ok := m.Value.(*ast.ArrayType)
	return ok && lastName(list.Elt) == "Feature"
}
