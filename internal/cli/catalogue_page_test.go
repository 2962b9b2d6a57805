package cli

import (
	gocmp "cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/rule"
)

// cataloguePages are the pages of the catalog, each with the rule files that it lists; the first lists all
// others. key explains the letters of the ids.
var cataloguePages = []struct{ page, title, files, key string }{
	{"catalogue.md", "The catalog: Linux, storage, servers", "", "D: storage; G: PostgreSQL; H: Apache httpd; L: HAProxy; M: Prometheus; N: nginx; R: Redis; T: Linux; S: Satellite, only the rules about disks and profiles"},
	{"catalogue-satellite.md", "The catalog: Satellite, Foreman, Puppet", "satellite.yaml satellite-plan.yaml satellite-sizes.yaml puppet.yaml puma.yaml dynflow.yaml qpid.yaml mosquitto.yaml", "B: qpidd; P: Puppet; Q: mosquitto; S: Satellite; U: Puma; Y: Dynflow"},
	{"catalogue-kubernetes.md", "The catalog: Kubernetes, OpenShift, etcd", "openshift.yaml openshift-documents.yaml kubernetes-node.yaml cluster.yaml etcd.yaml", "E: etcd; O: OpenShift and Kubernetes; an ID with a dot, such as O04.keys, is a part of a rule"},
}

// widestRow is the width of a row of the catalog's tables.
const widestRow = 100

// catalogueRow returns a row whose cells fit: the last ones are cut first.
func catalogueRow(cells ...string) string {
	left := widestRow - len("| ") - len(" |") - len(" | ")*(len(cells)-1)
	for i, c := range cells {
		c = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", "/")
		most := max(left-2*(len(cells)-1-i), 1) // what follows has a sign at least
		if i == 1 {
			most = min(most, 64)
		}
		if n := utf8.RuneCountInString(c); n > most {
			c = strings.TrimRight(string([]rune(c)[:most-1]), " `,;:") + "…"
			if strings.Count(c, "`")%2 == 1 {
				c = strings.ReplaceAll(c, "`", "")
			}
		}
		left -= utf8.RuneCountInString(c)
		cells[i] = c
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// limitWords returns the limit of a rule, or "-" if the title says it all.
func limitWords(r *rule.Rule) string {
	if r.Want == nil {
		return "-"
	}
	text := strings.Trim(r.Want.Text, `"`)
	if slices.Contains([]string{"", "[]", "true", "false", "0"}, text) || utf8.RuneCountInString(text) > 22 {
		return "-"
	}
	return text
}

// fixWords returns how the finding of a rule is fixed.
func fixWords(r *rule.Rule) string {
	var names []string
	if f := r.Fix; f != nil {
		for _, w := range slices.Concat(f.Changes, f.Entries) {
			names = append(names, strings.TrimPrefix(w.Name, "sysctl:"))
		}
		return gocmp.Or(strings.Join(names, ", "), f.Text, f.Command, "-")
	}
	return "-"
}

type catalogueLine struct {
	id, file string
	rule     bool
	row      string
}

func catalogueLines(c *rule.Catalogue) (lines []catalogueLine) {
	for _, r := range c.Rules() {
		severity, limit, fix := string(r.Severity), limitWords(r), fixWords(r)
		if r.Reminder {
			severity, limit, fix = "reminder", "-", gocmp.Or(fixWords(r), "-")
		}
		lines = append(lines, catalogueLine{r.ID, r.At.File, true, catalogueRow(r.ID, r.Title, severity, limit, fix)})
	}
	for _, tb := range c.Tables() {
		for _, id := range tb.IDs {
			lines = append(lines, catalogueLine{id, tb.At.File, false, catalogueRow(id, tb.Title, "table `"+tb.Name+"`")})
		}
	}
	for _, e := range c.Evidence() {
		lines = append(lines, catalogueLine{e.ID, e.At.File, false, catalogueRow(e.ID, e.Title, "explains "+strings.Join(e.Explains, ", "))})
	}
	slices.SortStableFunc(lines, func(a, b catalogueLine) int { return compareIDs(a.id, b.id) })
	return lines
}

// TestCatalogueTable compares the manual's tables with the catalog.
func TestCatalogueTable(t *testing.T) {
	lines := catalogueLines(loadCatalogue(t))
	for i, p := range cataloguePages {
		var rules, others strings.Builder
		for _, l := range lines {
			page := max(slices.IndexFunc(cataloguePages, func(p struct{ page, title, files, key string }) bool {
				return slices.Contains(strings.Fields(p.files), l.file)
			}), 0)
			switch {
			case page != i:
			case l.rule:
				rules.WriteString(l.row)
			default:
				others.WriteString(l.row)
			}
		}
		text := fmt.Sprintf(`# %s

`+"`fettle rules show ID`"+` prints a rule with its limits, reason, fix and sources. `+"`fettle check --explain ID`"+` shows its result on this machine. In the tables, a cut text ends with "…". A limit of "-" means that the limit is in the title, or depends on the machine. [Rules of your own](rules.md) explains the parts of a rule.

First letters of the IDs on this page: %s.

Pages: [Linux, storage, servers](catalogue.md), [Satellite, Foreman, Puppet](catalogue-satellite.md), [Kubernetes, OpenShift, etcd](catalogue-kubernetes.md).

| id | what must hold | if not | limit | fix |
|---|---|---|---|---|
%s
A reminder is a rule that no program can check.

## Tables and evidence

A table contains figures that rules and sizes use. Evidence is a measurement from a source that explains rules.

| id | what | kind |
|---|---|---|
%s`, p.title, p.key, rules.String(), others.String())
		file := "../../docs/" + p.page
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(old), text); diff != "" {
			t.Errorf("docs/%s is not that of the rules (make golden writes it):\n%s", p.page, diff)
		}
	}
}
