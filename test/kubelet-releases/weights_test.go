package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// weights is the table of shares and weights that internal/kuberelease is held against.
const weights = "../../internal/kuberelease/testdata/weights.txt"

// TestWeights runs the functions that make a cpu.weight of CPU shares: the kubelets' own of
// each release, and those of opencontainers/cgroups and runc, each as its module has it.
// FETTLE_UPDATE_GOLDEN=1 writes the table.
func TestWeights(t *testing.T) {
	dirs, err := download(os.Getenv("FETTLE_TEST_REQUIRE") == "1" || os.Getenv("FETTLE_UPDATE_GOLDEN") == "1")
	if err != nil {
		missing(t, "the modules: %v", err)
	}
	type source struct{ name, file, function string }
	var all []source
	for _, r := range releases {
		all = append(all, source{fmt.Sprintf("kubelet-1.%s", r.version), filepath.Join(dirs[r.of("k8s.io/kubernetes")], "pkg/kubelet/cm/cgroup_manager_linux.go"), "getCPUWeight"})
	}
	for _, m := range []string{"opencontainers/cgroups@v0.0.1", "opencontainers/cgroups@v0.0.4", "opencontainers/cgroups@v0.0.7", "opencontainers/cgroups@v0.1.0", "opencontainers/runc@v1.2.8"} {
		dir, err := moduleDir("github.com/" + m)
		if err != nil {
			missing(t, "%s: %v", m, err)
		}
		file := filepath.Join(dir, "utils.go")
		if strings.Contains(m, "/runc@") {
			file = filepath.Join(dir, "libcontainer/cgroups/utils.go")
		}
		_, name, _ := strings.Cut(m, "/")
		all = append(all, source{strings.Replace(name, "@v", "-", 1), file, "ConvertCPUSharesToCgroupV2Value"})
	}
	var program bytes.Buffer
	program.WriteString("package main\n\nimport (\n\t\"fmt\"\n\t\"math\"\n)\n\nvar _ = math.Log2\n\n")
	var names, calls []string
	for i, s := range all {
		text, err := function(s.file, s.function, fmt.Sprintf("weight%d", i))
		if err != nil {
			t.Fatal(err)
		}
		program.WriteString(text + "\n\n")
		names = append(names, s.name)
		argument := "shares"
		if s.function == "getCPUWeight" {
			argument = "&shares"
		}
		calls = append(calls, fmt.Sprintf("weight%d(%s)", i, argument))
	}
	fmt.Fprintf(&program, "func main() {\n\tfmt.Println(\"shares %s\")\n\tfor shares := uint64(2); shares <= 262144; shares += 1 + shares/50 {\n\t\tfmt.Println(shares, %s)\n\t}\n\tfor _, shares := range []uint64{102, 256, 1024, 1126, 2048, 3072, 4096, 8192, 16384} {\n\t\tfmt.Println(shares, %[2]s)\n\t}\n}\n", strings.Join(names, " "), strings.Join(calls, ", "))
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": program.String(), "go.mod": "module weights\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "run", ".")
	run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "PWD="+dir)
	got, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(weights, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(weights); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the modules' functions give (%v): FETTLE_UPDATE_GOLDEN=1 go test -run TestWeights .", weights, err)
	}
}

// function is the source of a function of a file, under another name.
func function(file, name, as string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		return "", err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
			fn.Name.Name, fn.Doc = as, nil
			var b bytes.Buffer
			err := printer.Fprint(&b, fset, fn)
			return b.String(), err
		}
	}
	return "", fmt.Errorf("%s has no function %s", file, name)
}

// moduleDir is the directory of a module, MODULE@VERSION, downloaded where it is allowed.
func moduleDir(module string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "PWD="+os.TempDir())
	if os.Getenv("FETTLE_TEST_REQUIRE") != "1" && os.Getenv("FETTLE_UPDATE_GOLDEN") != "1" {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if json.Unmarshal(out, &m) == nil && m.Dir != "" {
		return m.Dir, nil
	}
	return "", fmt.Errorf("go mod download: %w: %s", err, m.Error)
}
