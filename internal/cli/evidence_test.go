package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// asked is a machine that keeps its answers.
type asked struct {
	fact.MachineTree
	answers map[string]fact.Answer
}

func (a *asked) Answer(name string) fact.Answer {
	got := a.MachineTree.Answer(name)
	a.answers[name] = got
	return got
}

// On every recorded machine, where a finding or an input names the line of a file, the line has
// the value.
func TestEvidenceLines(t *testing.T) {
	hosts, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(hosts) < 10 {
		t.Fatal(hosts, err)
	}
	c, lines := loadCatalogue(t), 0
	for _, root := range hosts {
		h, err := host.OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		m := &asked{platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), map[string]fact.Answer{}}
		found := c.Check(t.Context(), m, audit.Platforms(), nil)
		at := map[string][]string{} // the inputs that name a place
		for name, a := range m.answers {
			line, ok := lineOf(t, h, a.At)
			at[a.At] = append(at[a.At], name)
			if !ok || a.Value == nil || strings.Contains(name, ".log.") {
				continue // of a log the line is the last of those counted
			}
			lines++
			if !has(line, a.Value) {
				t.Errorf("%s: %s is %v; %s is %q", filepath.Base(root), name, a.Value, a.At, line)
			}
		}
		for _, f := range found {
			for _, place := range f.MeasuredAt {
				if !slices.ContainsFunc(at[place], func(name string) bool { return reads(f.Rule, name) }) && !slices.ContainsFunc(f.Rule.Inputs, func(b rule.Binding) bool { return b.As != "" }) {
					t.Errorf("%s: %s: %s is not where its measured value was read", filepath.Base(root), f.ID, place)
				}
			}
			if f.State == rule.Unknown && f.Heading() == f.Title {
				t.Errorf("%s: %s is unknown, and its title is %q", filepath.Base(root), f.ID, f.Heading())
			}
		}
	}
	if lines < 300 {
		t.Errorf("only %d lines", lines)
	}
}

// reads reports whether an input is one of the rule's, for any item, that its measured value names.
func reads(r *rule.Rule, name string) bool {
	return slices.ContainsFunc(r.Inputs, func(b rule.Binding) bool {
		before, after, set := strings.Cut(b.Input, "*")
		named := regexp.MustCompile(`\b` + regexp.QuoteMeta(b.Name) + `\b`).MatchString(r.Measured.Text)
		return named && (b.Input == name || set && strings.HasPrefix(name, before) && strings.HasSuffix(name, after))
	})
}

var filePlace = internaltext.LazyRegexp(`^(/[^*]+):(\d+)$`) // as in SARIF

// lineOf returns the line that a place names; false if it is not a line.
func lineOf(t *testing.T, h *host.Host, at string) (string, bool) {
	m := filePlace().FindStringSubmatch(at)
	if m == nil || strings.HasPrefix(at, "/sys/dev/") {
		return "", false
	}
	text, err := h.Files.ReadFile(m[1])
	n, _ := strconv.Atoi(m[2])
	lines := strings.Split(string(text), "\n")
	if err != nil || n < 1 || n > len(lines) {
		t.Errorf("%s: no such line: %v", at, err)
		return "", false
	}
	return lines[n-1], true
}

// has reports whether a line has a value, in any spelling of the products.
func has(line string, v any) bool {
	switch v := v.(type) {
	case bool, []string:
		return true // what is said of the line; several lines
	case float64:
		for _, word := range regexp.MustCompile(`[0-9][0-9.]*[a-zA-Z]*`).FindAllString(line, -1) {
			if n, err := strconv.ParseFloat(word, 64); err == nil && slices.ContainsFunc([]float64{1, 1024, 8192, 1 << 20, 1e-3, 60, 1e-6}, func(by float64) bool { return n*by == v }) {
				return true
			}
			if size, err := unit.ParseSize(strings.TrimSuffix(strings.ToUpper(word), "B")); err == nil && float64(size) == v {
				return true
			}
			if d, err := unit.ParseDuration(word, 1); err == nil && d.Seconds() == v {
				return true
			}
		}
		return false
	}
	text := fmt.Sprint(v)
	if words := strings.Fields(line); len(words) > 2 && strings.Contains(text, strings.Join(words[1:], " ")) {
		return true // the last of several lines
	}
	return strings.Contains(strings.ToLower(line), strings.ToLower(text))
}
