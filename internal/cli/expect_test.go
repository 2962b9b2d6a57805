package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
)

// elsewhere are the rules that have an id's guidance where it is not, or not all,
// in the rule of that id (or in those of its parts, ID.PART), and what the
// machines' writer called guidance without an id in the documents.
var elsewhere = map[string][]string{
	"hiera-override":  {"S44", "S67"},
	"oom-log":         {"S62"},
	"aio":             {"T12"},
	"conntrack":       {"T14"},
	"elevator":        {"T17"},
	"jruby-heap":      {"P07"},
	"jruby-instances": {"P08"},
	"file-metadata":   {"P01", "P10"},

	"S23": {"S23", "S68"}, // httpd's own invariant, and the size's number of threads
	"S27": {"S27", "T12"}, // what the hosts will ask for, and what is in use
	"S30": {"S30", "S50"}, // the number of workers, and the threads of each
	"S31": {"S31", "S69"}, // the limit for the hosts, and whether it was reached
	"T06": {"T11"},        // T06 is the evidence for pinning, T11 finds who needs it

	// O03, O05, O19, O20 and O38 are about a cluster's documents; what they say of a
	// node that runs has rules of its own.
	"O03": {"O03", "O65"}, // what pods the node takes
	"O05": {"O05", "O61"}, // how often its kubelet may ask
	"O19": {"O63"},        // the static CPU manager
	"O20": {"O20", "O64"}, // the topology manager
	"O38": {"O38", "T05"}, // sizes of huge pages, and whether they were obtained
}

// disagreements are expectations that the rules do not share, by machine and id:
// what they say in place of it, and why.
var disagreements = map[string]struct {
	got rule.State
	why string
}{
	"satellite-612-overloaded S01 with 30000 hosts": {rule.Passed, "chapter 2 has the sizes \"based on expected managed host counts and hardware allocation\": one larger than the hosts need is for them too; that the machine has not its hardware is S02, which fails"},
	"openshift-node-overloaded T06":                 {rule.Unknown, "/proc/48211/status has no Cpus_allowed_list, which the kernel always has: whether half of the memory is far from the process depends on it"},
}

// Machines whose author had not seen the rules get what the
// guidance says of them.
func TestExpectations(t *testing.T) {
	c := loadCatalogue(t)
	files, err := filepath.Glob("../../testdata/hosts/*.expect")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	asked := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expect")
		t.Run(name, func(t *testing.T) {
			root := filepath.Join("../../testdata/hosts", name+".txt")
			if _, err := os.Stat(root); err != nil {
				root = filepath.Join(t.TempDir(), "machine") // a sosreport is a directory
				unpack(t, filepath.Join("../../testdata/hosts", name+".tree"), root)
			}
			got := judged(t, c, root)
			named := map[string]bool{}
			for _, e := range expectations(t, file) {
				found := got
				if e.hosts == "" {
					named[e.id] = true
				} else {
					found = judged(t, c, withHosts(t, root, e.hosts))
				}
				if e.id != "*" {
					asked[e.of(name)] = true
					e.holds(t, name, found)
				}
			}
			healthy := named["*"] || name == "satellite-612-default" || name == "satellite-616-large"
			for id, findings := range got {
				for _, f := range findings {
					if healthy && !named[id] && f.State == rule.Failed {
						t.Errorf("%s %s fails on a healthy machine: %v, wanted %v", id, f.Instance, f.Measured, f.Want)
					}
				}
			}
		})
	}
	for of := range disagreements {
		if !asked[of] {
			t.Errorf("nobody expects anything of %q, which disagrees", of)
		}
	}
}

// judged is what the rules find, by id.
func judged(t *testing.T, c *rule.Catalogue, root string) map[string][]rule.Finding {
	t.Helper()
	h, err := host.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]rule.Finding{}
	for _, f := range c.Check(t.Context(), platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), audit.Platforms(), nil) {
		got[f.ID] = append(got[f.ID], f)
	}
	return got
}

// withHosts is the machine with the report of satellite-maintain that counts its
// hosts, which the archives do not have.
func withHosts(t *testing.T, archive, hosts string) string {
	t.Helper()
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	head, entries, ok := strings.Cut(string(text), "\n-- ")
	if !ok {
		t.Fatalf("%s has no entries", archive)
	}
	const report = "\n-- file 0644 /var/lib/foreman-maintain/satellite_metrics.yml --\nforeman.hosts_by_type_count|Managed: "
	with := filepath.Join(t.TempDir(), "machine.txt")
	if err := os.WriteFile(with, []byte(head+report+hosts+"\n-- "+entries), 0o644); err != nil {
		t.Fatal(err)
	}
	return with
}

type expectation struct {
	id, why string
	states  []string
	hosts   string // it is of a machine with so many
}

// of names the expectation among all machines'.
func (e expectation) of(machine string) string {
	if e.hosts != "" {
		return machine + " " + e.id + " with " + e.hosts + " hosts"
	}
	return machine + " " + e.id
}

func expectations(t *testing.T, file string) (all []expectation) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		text, given := strings.CutPrefix(s.Text(), "#? ")
		line, why, _ := strings.Cut(text, "#")
		why = strings.TrimSpace(why)
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue // a comment
		}
		e := expectation{id: fields[0], why: why, states: strings.Split(fields[1], "|")}
		if given {
			input, _, _ := strings.Cut(why, ":")
			name, value, _ := strings.Cut(input, "=")
			if !strings.HasSuffix(name, "hosts") || value == "" {
				t.Errorf("%s: %q gives an input that this test cannot give", file, text)
				continue
			}
			e.hosts = value
		}
		all = append(all, e)
	}
	return all
}

// holds wants the worst finding of the id to be one of those expected, or the one
// that is disagreed to.
func (e expectation) holds(t *testing.T, machine string, got map[string][]rule.Finding) {
	t.Helper()
	state, reason := worst(t, e.id, got)
	expected := slices.Contains(e.states, string(state))
	other, disagree := disagreements[e.of(machine)]
	switch {
	case disagree && expected:
		t.Errorf("%s is %s, as expected: it is no disagreement any more", e.id, state)
	case disagree && state != other.got:
		t.Errorf("%s is %s (%s), expected %v, disagreed to %s (%s)", e.id, state, reason, e.states, other.got, other.why)
	case !disagree && !expected:
		t.Errorf("%s is %s (%s), expected %v: %s", e.id, state, reason, e.states, e.why)
	}
}

// worst is the worst finding of the rules that have an id's guidance.
func worst(t *testing.T, id string, got map[string][]rule.Finding) (state rule.State, reason string) {
	t.Helper()
	ids, ok := elsewhere[id]
	if !ok {
		ids = []string{id}
	}
	var findings []rule.Finding
	for found, f := range got {
		if slices.ContainsFunc(ids, func(id string) bool { return found == id || strings.HasPrefix(found, id+".") }) {
			findings = append(findings, f...)
		}
	}
	if len(findings) == 0 {
		t.Errorf("%s: no rule", id)
	}
	rank := len(rule.States)
	for _, f := range findings {
		if i := slices.Index(rule.States, f.State); i < rank {
			rank, state, reason = i, f.State, f.ID+" "+f.Instance+": "+f.Reason
		}
	}
	return state, reason
}
