package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/plugin/table"
	"fettle.dev/fettle/internal/rule"
)

// words are what the machines' writer called guidance that has no id in the
// documents.
var words = map[string]string{
	"hiera-override": "S44", "oom-log": "T25", "aio": "T21", "conntrack": "T22", "elevator": "T12",
	"jruby-heap": "P02", "jruby-instances": "P01", "file-metadata": "P05",
}

// Machines written by somebody who had not seen the rules are told what the
// guidance says of them.
func TestExpectations(t *testing.T) {
	c := loadCatalogue(t)
	files, err := filepath.Glob("../../testdata/hosts/*.expect")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expect")
		t.Run(name, func(t *testing.T) {
			root := filepath.Join("../../testdata/hosts", name+".txt")
			if _, err := os.Stat(root); err != nil {
				root = filepath.Join(t.TempDir(), "machine") // a sosreport is a directory
				unpack(t, filepath.Join("../../testdata/hosts", name+".tree"), root)
			}
			h, err := host.OpenRoot(root)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]rule.Finding{}
			for _, f := range c.Check(platform.NewSubject(t.Context(), h, table.Kinds(h), sources()), platformNames(), nil) {
				got[f.ID] = append(got[f.ID], f)
			}
			named := map[string]bool{}
			for _, e := range expectations(t, file) {
				named[e.id] = true
				if e.id != "*" {
					holds(t, c, e, got[e.id])
				}
			}
			for id, findings := range got {
				if !named["*"] || named[id] {
					continue
				}
				for _, f := range findings {
					if f.State == rule.Failed {
						t.Errorf("%s %s fails on a healthy machine: %v, wanted %v", id, f.Instance, f.Measured, f.Want)
					}
				}
			}
		})
	}
}

type expectation struct {
	id, why string
	states  []string
}

func expectations(t *testing.T, file string) (all []expectation) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line, why, _ := strings.Cut(s.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue // a comment, or one that holds when an input is given
		}
		id := fields[0]
		if w, ok := words[id]; ok {
			id = w
		}
		all = append(all, expectation{id, strings.TrimSpace(why), strings.Split(fields[1], "|")})
	}
	return all
}

// holds wants the worst finding of the id to be one of those expected.
func holds(t *testing.T, c *rule.Catalogue, e expectation, findings []rule.Finding) {
	t.Helper()
	worst := rule.NotApplicable
	reason := "there is no such rule"
	for _, f := range findings {
		if slices.Index(rule.States, f.State) <= slices.Index(rule.States, worst) {
			worst, reason = f.State, f.Reason
		}
	}
	if len(findings) == 0 && c.Rule(e.id) == nil {
		t.Errorf("%s: no rule; expected %v: %s", e.id, e.states, e.why)
		return
	}
	if !slices.Contains(e.states, string(worst)) {
		t.Errorf("%s is %s (%s), expected %v: %s", e.id, worst, reason, e.states, e.why)
	}
}
