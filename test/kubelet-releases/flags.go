package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// everyProgram are the flags that are added by the packages for logs and versions, and by the
// command line itself.
var everyProgram = []string{"help", "log-flush-frequency", "v", "version", "vmodule"}

// delegating are the files of k8s.io/apiserver/pkg/server/options with the flags of programs that
// delegate authentication and authorization to the API server.
var delegating = []string{"authentication.go", "authorization.go", "serving.go", "serving_with_loopback.go"}

// flagPackages are the packages with the flags of the control-plane programs that kubeadm starts.
// Each has the names of the files to read; no names mean all files.
var flagPackages = map[string]map[string][]string{
	"kube-apiserver": {
		"k8s.io/kubernetes/cmd/kube-apiserver/app/options":                nil,
		"k8s.io/kubernetes/pkg/controlplane/apiserver/options":            nil,
		"k8s.io/kubernetes/pkg/kubeapiserver/options":                     nil,
		"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds": nil,
		"k8s.io/apiserver/pkg/server/options":                             nil,
		"k8s.io/component-base/logs/api/v1":                               nil,
		"k8s.io/component-base/metrics":                                   nil,
	},
	"kube-controller-manager": {
		"k8s.io/kubernetes/cmd/kube-controller-manager/app/options": nil,
		"k8s.io/controller-manager/options":                         nil,
		"k8s.io/controller-manager/pkg/leadermigration/options":     nil,
		"k8s.io/cloud-provider/options":                             nil,
		"k8s.io/apiserver/pkg/server/options":                       delegating,
		"k8s.io/component-base/config/options":                      nil,
		"k8s.io/component-base/logs/api/v1":                         nil,
		"k8s.io/component-base/metrics":                             nil,
	},
	"kube-scheduler": {
		"k8s.io/kubernetes/cmd/kube-scheduler/app/options": nil,
		"k8s.io/apiserver/pkg/server/options":              delegating,
		"k8s.io/component-base/config/options":             nil,
		"k8s.io/component-base/logs/api/v1":                nil,
		"k8s.io/component-base/metrics":                    nil,
	},
	kubelet: {
		"k8s.io/kubernetes/cmd/kubelet/app/options": {"options.go", "container_runtime.go", "globalflags.go", "globalflags_linux.go", "globalflags_providers.go", "osflags_others.go"},
		"k8s.io/kubernetes/pkg/kubelet/config":      {"flags.go"},
		"k8s.io/component-base/logs/api/v1":         nil,
	},
}

const kubelet = "kubelet"

// versionFlags are the packages that register versions and gates: in 1.31, in 1.32, and from 1.33
// on. A program adds their flags as a whole. Before 1.31 the only flag is feature-gates. A kubelet
// has none of these flags.
var versionFlags = []string{"k8s.io/apiserver/pkg/util/version", "k8s.io/component-base/featuregate", "k8s.io/component-base/compatibility"}

// defining matches the methods of a set of flags that define one.
var defining = regexp.MustCompile(`^(Var|VarP|(Bool|String|Int|Int32|Int64|Uint|Uint32|Uint64|Float32|Float64|Duration|IP|IPNet|StringArray|StringTo[A-Za-z0-9]+|[A-Z][a-z0-9A-Z]*Slice)(Var|VarP|))$`)

// registering are the functions with which a kubelet adopts a flag of a library such as cAdvisor:
// register(global, local, "name").
var registering = map[string]bool{"register": true, "registerDeprecated": true, "pflagRegister": true}

func isMethod(call *ast.CallExpr) bool { _, ok := call.Fun.(*ast.SelectorExpr); return ok }

// programFlags returns the flags of each program in a release, as "PROGRAM FLAG".
func programFlags(r release, dirs map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for program, packages := range flagPackages {
		names := slices.Concat(everyProgram, []string{"feature-gates"})
		all := map[string][]string{}
		for pkg, files := range packages {
			all[pkg] = files
		}
		for _, pkg := range versionFlags {
			if program != kubelet {
				all[pkg] = nil
			}
		}
		for pkg, files := range all {
			found, err := flagsOf(r, pkg, files, dirs)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
		}
		if len(names) < 40 {
			return nil, fmt.Errorf("%s of 1.%d: only %d flags found", program, r.minor, len(names))
		}
		for _, name := range names {
			out[program+" "+name] = "yes"
		}
	}
	return out, nil
}

// flagsOf returns the flags that a package defines: fs.StringVar(&o.X, "name", ...) and
// fs.Int("name", ...). A name may be a constant of the package.
func flagsOf(r release, pkg string, only []string, dirs map[string]string) (names []string, err error) {
	dir, err := directory(r, pkg, dirs)
	if err != nil {
		return nil, err
	}
	files, err := parse(dir, only...)
	if err != nil {
		return nil, err
	}
	known := constants(files)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var at int
			switch name := lastName(call.Fun); {
			case len(call.Args) < 3:
				return true
			case registering[name]:
				at = 2
			case !isMethod(call) || !defining.MatchString(name):
				return true
			case strings.Contains(name, "Var"):
				at = 1
			}
			for _, name := range namesOf(call.Args[at], known) {
				name = strings.ReplaceAll(name, "_", "-") // as the programs read them
				if flagName.MatchString(name) {
					names = append(names, name)
				}
			}
			return true
		})
	}
	return names, nil
}

// capital matches a capital letter within a name.
var capital = regexp.MustCompile(`([a-z])([A-Z])`)

var flagName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// namesOf returns the names in an expression: a literal text, or a constant of the package.
// fmt.Sprintf("audit-%s-mode", pluginName) gives two names, because the audit log has two backends.
func namesOf(e ast.Expr, known map[string]string) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return []string{text}
		}
	case *ast.Ident:
		return []string{known[e.Name]}
	case *ast.SelectorExpr: // cadvisorflags.HousekeepingInterval, a constant named like the flag
		return []string{strings.ToLower(capital.ReplaceAllString(e.Sel.Name, "$1-$2"))}
	case *ast.CallExpr:
		if len(e.Args) == 2 && lastName(e.Fun) == "Sprintf" && lastName(e.Args[1]) == "pluginName" {
			format := namesOf(e.Args[0], known)
			return []string{fmt.Sprintf(format[0], "log"), fmt.Sprintf(format[0], "webhook")}
		}
	}
	return nil
}
