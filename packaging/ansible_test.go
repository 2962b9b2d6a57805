package packaging

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// documented returns the options of the DOCUMENTATION block, or of another, in a Python file.
func documented(t *testing.T, file, block string) []string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, file), block+` = r"""`)
	text, _, closed := strings.Cut(rest, `"""`)
	if !found || !closed {
		t.Fatalf("%s has no %s", file, block)
	}
	var doc struct {
		Options map[string]any `yaml:"options"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s, %s: %v", file, block, err)
	}
	return slices.Sorted(maps.Keys(doc.Options))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// argument is the start of an option in an argument_spec.
var argument = regexp.MustCompile(`(?m)(\w+)"?(?:=|: )\{(?:"type": "|$)`)

// arguments returns the names that a Python text gives types to.
func arguments(text string) []string {
	var names []string
	for _, m := range argument.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The documentation of each module names the options of its code.
func TestAnsibleModulesAreDocumented(t *testing.T) {
	common := read(t, "ansible/plugins/module_utils/fettle.py")
	common, _, _ = strings.Cut(common, "# What an exit code")
	var shared []string
	for _, block := range []string{"DOCUMENTATION", "WRITES", "TUNES"} {
		shared = append(shared, documented(t, "ansible/plugins/doc_fragments/common.py", block)...)
	}
	if slices.Sort(shared); !slices.Equal(shared, arguments(common)) {
		t.Errorf("the fragment documents %q, module_utils has %q", shared, arguments(common))
	}
	files, err := filepath.Glob("ansible/plugins/modules/*.py")
	if err != nil || len(files) != 6 {
		t.Fatalf("modules: %q, %v", files, err)
	}
	for _, file := range files {
		_, code, _ := strings.Cut(read(t, file), "argument_spec=dict(")
		code, _, _ = strings.Cut(code, "supports_check_mode")
		// Options of a suboption stand in the code too.
		got := slices.DeleteFunc(arguments(code), func(name string) bool {
			return filepath.Base(file) == "settings.py" && (name == "name" || name == "value" || name == "options")
		})
		if want := documented(t, file, "DOCUMENTATION"); !slices.Equal(got, want) {
			t.Errorf("%s documents %q, its code has %q", file, want, got)
		}
	}
}

// The role's argument specification has its defaults, with their values, and nothing else but
// the keys of tuned-main.conf, which have none.
func TestAnsibleRoleSpecification(t *testing.T) {
	var defaults map[string]any
	var spec struct {
		Specs struct {
			Main struct {
				Options map[string]struct {
					Type, Description string
					Default           any
				}
			}
		} `yaml:"argument_specs"`
	}
	for file, into := range map[string]any{"defaults/main.yml": &defaults, "meta/argument_specs.yml": &spec} {
		if err := yaml.Unmarshal([]byte(read(t, "ansible/roles/tuning/"+file)), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	options := spec.Specs.Main.Options
	for name, value := range defaults {
		o, ok := options[name]
		if a, b := show(t, o.Default), show(t, value); !ok || a != b {
			t.Errorf("%s has the default %s, its specification %s", name, b, a)
		}
	}
	for name, o := range options {
		if _, ok := defaults[name]; !ok && !strings.Contains(o.Description, "of tuned-main.conf") || o.Type == "" {
			t.Errorf("%s: no default, or no type", name)
		}
	}
}

func show(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every YAML file of the collection can be read.
func TestAnsibleYAML(t *testing.T) {
	n := 0
	for _, pattern := range []string{"ansible/*.yml", "ansible/*/*.yml", "ansible/*/*/*/*.yml", "../test/ansible/testdata/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			var any any
			if err := yaml.Unmarshal([]byte(read(t, file)), &any); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			n++
		}
	}
	if n < 10 {
		t.Errorf("only %d files found", n)
	}
}
