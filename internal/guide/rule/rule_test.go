package rule

import (
	"errors"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
)

var inputs = []fact.Input{
	{Name: "puma.workers", Type: fact.Number, Doc: "w"}, {Name: "puma.threads_max", Type: fact.Number}, {Name: "foreman.db_pool", Type: fact.Number},
	{Name: "machine.cpus", Type: fact.Number}, {Name: "machine.memory_bytes", Type: fact.Number, Unit: "bytes"}, {Name: "foreman.version", Type: fact.Text},
	{Name: "disk.*.scheduler", Type: fact.Text}, {Name: "disk.*.rotational", Type: fact.Truth}, {Name: "satellite.version", Type: fact.Text}, {Name: "virtualization.bare_metal", Type: fact.Truth},
}

const some = `
- id: S19
  title: The pool of database connections has one for each thread
  failed: not The pool of database connections has one for each thread
  platforms: [satellite]
  severity: fail
  inputs:
    pool: {input: foreman.db_pool, absent: 5}
    threads: puma.threads_max
    foreman: foreman.version
  variants:
    - when: since(foreman, "3.11")
      want: threads + 4
      why: Katello and Puma have four threads of their own.
      sources: [{document: puppet-foreman, section: b2feca1}]
  want: max(5, threads)
  pass: measured >= want
  depends-on: [S10]
  why: A thread that gets no connection within five seconds answers with an error.
  sources: [{document: handbook, section: 5.2.7}]
  fix: {artefact: installer, entries: [--foreman-db-pool]}
  examples:
    - {name: old, given: {pool: 16, threads: 16, foreman: "3.9"}, finding: pass, want: 16}
    - {name: new, given: {pool: 16, threads: 16, foreman: "3.12"}, finding: fail, want: 20}
    - {name: default, given: {threads: 5, foreman: 3.9.1}, finding: pass}
    - {name: not told, given: {threads: unknown, foreman: "3.12"}, finding: unknown}
    - {name: no puma, given: {foreman: "3.12"}, finding: not-applicable}
- id: S10
  title: Puma has a worker for each two thirds of a CPU
  failed: not Puma has a worker for each two thirds of a CPU
  platforms: [satellite]
  inputs: {workers: puma.workers, cpus: machine.cpus, memory: machine.memory_bytes}
  want: floor(min(cpus * 1.5, div(memory, gib(1)) - 1.5))
  nearly: measured > want - 2
  severity: fail
  why: w
  sources: [{document: handbook, section: 5.2.2}]
  examples:
    - {name: eight, given: {workers: 12, cpus: 8, memory: 42949672960}, finding: pass, want: 12}
    - {name: few, given: {workers: 11, cpus: 8, memory: 42949672960}, finding: warn}
    - {name: two, given: {workers: 2, cpus: 8, memory: 42949672960}, finding: fail}
- id: T02
  title: e
  failed: not e
  platforms: [linux]
  each: disk
  inputs: {scheduler: disk.*.scheduler, rotational: disk.*.rotational}
  applies: "!rotational"
  want: '"none"'
  versions: [{of: satellite, from: "6.10", before: "6.16"}]
  on: {kind: bare-metal}
  fix: {changes: ["sysfs:/sys/block/{instance}/queue/scheduler"]}
  why: w
  sources: [{document: handbook}]
  examples:
    - {name: a, given: {scheduler: none, rotational: false, satellite.version: 6.12.1, virtualization.bare_metal: true}, finding: pass}
    - {name: b, given: {scheduler: bfq, rotational: false, satellite.version: 6.12.1, virtualization.bare_metal: true}, finding: warn}
    - {name: c, given: {scheduler: bfq, rotational: true, satellite.version: 6.12.1, virtualization.bare_metal: true}, finding: not-applicable}
    - {name: d, given: {scheduler: bfq, rotational: false, satellite.version: 6.16.0, virtualization.bare_metal: true}, finding: not-applicable}
    - {name: e, given: {scheduler: bfq, rotational: false, satellite.version: 6.12.1, virtualization.bare_metal: false}, finding: not-applicable}
    - {name: f, given: {scheduler: bfq, rotational: false, satellite.version: unknown}, finding: unknown}
- id: T5
  title: t
  failed: not t
  platforms: [linux]
  inputs: {swappiness: {input: "sysctl:vm.swappiness", as: number}}
  pass: measured <= least("sizes", "6.10", "hosts_max", 6000, "swappiness") && cell("sizes", "", "medium", "ram") == gib(32)
  why: w
  sources: [{document: handbook}]
  examples:
    - {name: a, given: {swappiness: 10}, finding: pass}
    - {name: b, given: {swappiness: 11}, finding: warn}
- table: sizes
  ids: [S01]
  title: t
  columns: {hosts_max: number, ram: bytes, swappiness: number}
  editions:
    - {from: "6.13", sources: [{document: handbook, section: "2"}], rows: [{row: default, hosts_max: 5000, ram: 20GiB}, {row: medium, ram: 32GiB}]}
    - {before: "6.13", sources: [{document: handbook, section: "2"}], rows: [{row: default, hosts_max: 5000, ram: 20GiB}, {row: medium, swappiness: 10}]}
- evidence: S13
  title: e
  says: w
  explains: [S10, S01]
  sources: [{document: handbook, section: "2"}]
`

func load(t *testing.T, text string) (*Catalogue, error) {
	t.Helper()
	return Load(inputs, []string{"disk"}, []File{{Name: "a.yaml", Text: []byte(text)}})
}

func TestExamples(t *testing.T) {
	c, err := load(t, some)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Rules() {
		for _, p := range c.TestExamples(t.Context(), r) {
			t.Error(p)
		}
	}
	if c.Rules()[0].ID != "S10" {
		t.Error("what S19 depends on does not come first")
	}
}

// Loading is strict, and says where.
func TestLoadIsStrict(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"severity: fail", "severity: bad", `a.yaml:6: severity "bad": want fail or warn`},
		{"  failed: not The pool of database connections has one for each thread\n", "", `a.yaml:3: S19: failed is missing: add the title`},
		{"title: The pool", "titel: The pool", `a.yaml:3: a rule cannot have "titel" (did you mean "title"?)`},
		{"input: foreman.db_pool", "input: foreman.dbpool", `a.yaml:8: S19: unknown input "foreman.dbpool" (did you mean "foreman.db_pool"?)`},
		{"want: threads + 4", `want: threads + "4"`, `a.yaml:13: threads + "4": `},
		{"want: max(5, threads)", "want: max(5, thread)", "a.yaml:16: max(5, thread): unknown name thread"},
		{"pass: measured >= want", "pass: measured + want", "a.yaml:17: measured + want: expected bool"},
		{"[S10]", "[S11]", "a.yaml:18: S19: depends on unknown rule S11"},
		{"- id: S10", "- id: S19", "a.yaml:28: S19 is already defined at a.yaml:2"},
		{"absent: 5", "absent: five", "a.yaml:8: S19: absent: five: want a number"},
		{"  each: disk\n", "", "disk.*.scheduler belongs to each disk: the rule needs each: disk"},
		{"  nearly: measured", "  depends-on: [S19]\n  nearly: measured", "circular dependency: S19 -> S10 -> S19"},
		{"as: number", "as: whole", `sysctl:vm.swappiness: as "whole": want the type`},
		{"each: disk\n", "each: disc\n", `unknown set "disc" (did you mean "disk"?)`},
		{"ram: 20GiB", "ram: 20GiX", `ram: size "20GiX": unknown unit`},
		{`before: "6.13"`, `before: "6.14"`, "this edition must end (before:) where the previous one begins"},
		{"explains: [S10, S01]", "explains: [S02]", "explains S02, which is neither a rule nor a table"},
		{"kind: bare-metal", "kind: metal", `on: kind "metal": want bare-metal or guest`},
		{"  severity: fail\n", "  severity: fail\n  severity: fail\n", `has the key "severity" twice`},
	} {
		c, err := load(t, strings.Replace(some, tt.old, tt.new, 1))
		if err == nil {
			for _, r := range c.Rules() {
				err = errors.Join(err, c.Compile(r))
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.new, err, tt.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		later bool
	}{{"6.12", "6.11", true}, {"6.9", "6.11", false}, {"3.11.0", "3.11", true}, {"3.11", "3.11", true}, {"1.15.0-2.el9", "1.15.0", true}, {"4.4", "4.10", false}} {
		if got := compareVersions(tt.a, tt.b) >= 0; got != tt.later {
			t.Errorf("%s is %s or later: %v", tt.a, tt.b, got)
		}
	}
}
