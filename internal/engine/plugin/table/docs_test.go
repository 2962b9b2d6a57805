package table

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// proofs are the sorted lines that tests wrote to plugintest.ProofFile, each once; `make proofs`
// writes the file again.
const proofs = "testdata/proofs.txt"

// freeNames are the options whose names the profile chooses, each with an example and its form in
// the manual.
var freeNames = []struct{ plugin, example, written string }{
	{"bootloader", "cmdline_x", "cmdline_NAME"},
	{"modules", "nvme", "MODULE"},
	{"scheduler", "group.x", "group.NAME"},
	{"scheduler", "cgroup.x", "cgroup.NAME"},
	{"service", "service.x", "service.NAME"},
	{"sysctl", "net.core.somaxconn", "KEY"},
	{"sysfs", "/sys/x", "PATH"},
}

// TestManual compares the generated tables of the manual with the table of plug-ins and with the
// proofs of tests.
func TestManual(t *testing.T) {
	root.Manual(t, "plug-ins.md", root.Generated{Name: "plug-ins", Text: tables(t, readProofs(t))})
}

// proof is the place where an option was proved: the plug-in and the documentation, which all names
// of an option with a free name share.
type proof struct{ plugin, doc string }

// readProofs reads the committed proofs. A line about a removed option or test is an error.
func readProofs(t *testing.T) map[proof][]plugin.Ground {
	t.Helper()
	b, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	proved := map[proof][]plugin.Ground{}
	tests := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("%s: %q has not four parts", proofs, line)
		}
		ground, name, option, test := plugin.Ground(f[0]), f[1], f[2], f[3]
		if !slices.Contains(plugin.Grounds, ground) {
			t.Errorf("%s: unknown ground %q", proofs, ground)
		}
		p, ok := engineplugin.Find(All, name)
		if !ok {
			t.Errorf("%s: there is no plug-in %q any more; run make proofs", proofs, name)
			continue
		}
		o, ok := p.Option(option)
		if !ok {
			t.Errorf("%s: [%s] has no option %s any more; run make proofs", proofs, name, option)
			continue
		}
		if there, known := tests[test]; known && !there || !known && !testExists(t, test) {
			t.Errorf("%s: there is no test %s any more; run make proofs", proofs, test)
			tests[test] = false
			continue
		}
		tests[test] = true
		if at := (proof{name, o.Doc}); !slices.Contains(proved[at], ground) {
			proved[at] = append(proved[at], ground)
		}
	}
	return proved
}

// testExists searches the sources for a test ("internal/engine/plugin/vm.TestPlan").
func testExists(t *testing.T, name string) bool {
	t.Helper()
	i := strings.LastIndex(name, ".")
	if i < 0 {
		return false
	}
	files, err := filepath.Glob(filepath.Join(root.Module(t), name[:i], "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "\nfunc "+name[i+1:]+"(") {
			return true
		}
	}
	return false
}

func tables(t *testing.T, proved map[proof][]plugin.Ground) string {
	t.Helper()
	cell := strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, ">", `\>`)
	var w strings.Builder
	for _, p := range All {
		fmt.Fprintf(&w, "\n## %s\n\n%s.\n", p.Name, upper(p.Doc))
		if p.Devices != nil {
			w.WriteString("`devices=` selects from its devices")
			if p.DevicePath != nil {
				w.WriteString(", and so does `devices_udev_regex=`")
			}
			w.WriteString(".\n")
		}
		options := slices.Clone(p.Options)
		for _, free := range freeNames {
			if free.plugin != p.Name || p.Free == nil {
				continue
			}
			o, ok := p.Free(free.example)
			if !ok {
				t.Errorf("[%s] does not take %s", p.Name, free.example)
				continue
			}
			o.Name = free.written
			options = append(options, o)
		}
		if p.Free != nil && len(options) == len(p.Options) {
			t.Errorf("[%s] takes free names, of which freeNames has none", p.Name)
		}
		if len(options) == 0 {
			continue
		}
		w.WriteString("\n| option | what it sets | default | proved |\n|---|---|---|---|\n")
		for _, o := range options {
			grounds := proved[proof{p.Name, o.Doc}]
			if len(grounds) == 0 {
				t.Errorf("no test proves [%s] %s: assert its effect in a test, and record that in %s (CONTRIBUTING.md, Add a plug-in)", p.Name, o.Name, proofs)
			}
			var where []string
			for _, g := range plugin.Grounds {
				if slices.Contains(grounds, g) {
					where = append(where, string(g))
				}
			}
			if len(where) == 1 && where[0] == string(plugin.FakeTree) {
				where[0] += " only"
			}
			per := ""
			if o.PerDevice {
				per = " (per device)"
			}
			fmt.Fprintf(&w, "| `%s`%s | %s | %s | %s |\n", strings.ReplaceAll(o.Name, "|", `\|`), per, cell.Replace(o.Doc), cell.Replace(o.Default), strings.Join(where, ", "))
		}
	}
	w.WriteString("\n")
	return w.String()
}

func upper(sentence string) string { return strings.ToUpper(sentence[:1]) + sentence[1:] }
