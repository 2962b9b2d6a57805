package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// jobTemplate is the metadata of a job template, with the keys that remote execution imports.
type jobTemplate struct {
	Kind, Name, Model, Description string
	Snippet                        bool
	Category                       string `yaml:"job_category"`
	Format                         string `yaml:"description_format"`
	Provider                       string `yaml:"provider_type"`
	Inputs                         []struct {
		Name, Description, Options, Default string
		Type                                string `yaml:"input_type"`
		Value                               string `yaml:"value_type"`
		Required, Advanced                  bool
	} `yaml:"template_inputs"`
}

var (
	erbMetadata = regexp.MustCompile(`(?s)\A<%#\n(.+?)-%>\n(#!/bin/sh\n.*)\z`)
	erbInput    = regexp.MustCompile(`input\("([a-z_]+)"\)`)
	// erbText is an input as text in single quotes, erbWords one as words, each in single quotes.
	// Both use only what Foreman's safe mode allows: calls of String, no regular expression and no
	// helper that an older Foreman lacks (shell_escape came with 3.0).
	erbText  = regexp.MustCompile(`\A[a-z_]+='<%= input\("[a-z_]+"\)` + regexp.QuoteMeta(`.to_s.gsub("'", "'\"'\"'")`) + ` %>'\n\z`)
	erbWords = regexp.MustCompile(`\Aset -- <%= input\("[a-z_]+"\)` + regexp.QuoteMeta(`.to_s.split(" ").map { |word| "'" + word.gsub("'", "'\"'\"'") + "'" }.join(" ")`) + ` %>\n\z`)
)

// TestForemanTemplates: each template has the metadata that Foreman's importer requires, declares
// the inputs that it uses, interprets none, and explains each exit code.
func TestForemanTemplates(t *testing.T) {
	files, err := filepath.Glob("foreman/*.erb")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	codes := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := erbMetadata.FindSubmatch(raw)
		if parts == nil {
			t.Errorf("%s: does not begin with metadata and #!/bin/sh", file)
			continue
		}
		var m jobTemplate
		strict := yaml.NewDecoder(strings.NewReader(string(parts[1])))
		strict.KnownFields(true) // older importers fail if no plug-in has registered the feature that a template names
		if err := strict.Decode(&m); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		// Foreman exports a template under this name of its own.
		if want := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".erb"), "_", " - "); m.Name != want {
			t.Errorf("%s: the name is %q, want %q", file, m.Name, want)
		}
		if m.Kind != "job_template" || m.Model != "JobTemplate" || m.Provider != "script" || m.Category != "fettle" || m.Snippet || m.Description == "" {
			t.Errorf("%s: %+v", file, m)
		}
		var declared []string
		for _, in := range m.Inputs {
			declared = append(declared, in.Name)
			if in.Type != "user" || in.Value != "plain" || in.Description == "" {
				t.Errorf("%s: input %+v", file, in)
			}
			if options := strings.Split(in.Options, "\n"); in.Options != "" && !slices.Contains(options, in.Default) {
				t.Errorf("%s: the default of %s is %q, not one of %q", file, in.Name, in.Default, options)
			}
		}
		body := string(parts[2])
		var used []string
		for _, in := range erbInput.FindAllStringSubmatch(body, -1) {
			used = append(used, in[1])
		}
		if !slices.Equal(slices.Sorted(slices.Values(used)), slices.Sorted(slices.Values(declared))) || len(slices.Compact(slices.Sorted(slices.Values(used)))) != len(used) {
			t.Errorf("%s: uses the inputs %q, declares %q", file, used, declared)
		}
		for _, in := range regexp.MustCompile(`%\{([a-z_]+)\}`).FindAllStringSubmatch(m.Format, -1) {
			if !slices.Contains(declared, in[1]) {
				t.Errorf("%s: the description names %s, which is no input", file, in[0])
			}
		}
		for line := range strings.Lines(body) {
			if strings.Contains(line, "<%") && !erbText.MatchString(line) && !erbWords.MatchString(line) {
				t.Errorf("%s: want an input in quotes: %s", file, line)
			}
		}
		_, explained, ok := strings.Cut(body, "\ncase $code in\n")
		if !ok {
			t.Errorf("%s: does not explain its exit code", file)
		}
		codes[explained] = file
	}
	if len(codes) != 1 {
		t.Errorf("the templates explain exit codes differently: %v", codes)
	}
	for explained := range codes {
		page, err := os.ReadFile("../docs/output.md")
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(page), "\n## Exit codes\n")
		table, _, _ = strings.Cut(table, "\n## ")
		rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(table, -1)
		if len(rows) < 9 {
			t.Errorf("only %d exit codes in docs/output.md", len(rows))
		}
		for _, row := range rows {
			if strings.Count("\n"+explained, "\n"+row[1]+") ") != 1 {
				t.Errorf("exit code %s is not explained", row[1])
			}
		}
		if strings.Count(explained, "exit 0") != 1 || !strings.HasPrefix(explained, "0) exit 0 ;;\n") || !strings.HasSuffix(explained, "\nexit \"$code\"\n") {
			t.Errorf("a job must succeed with exit code 0 only:\n%s", explained)
		}
	}
	if !slices.ContainsFunc(packageContents(t, "nfpm/fettle.yaml"), func(c nfpmContent) bool {
		return c.Src == "foreman/*.erb" && c.Dst == "/usr/share/fettle/foreman/"
	}) {
		t.Error("the package lacks the templates")
	}
}
