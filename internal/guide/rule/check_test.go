package rule

import (
	"context"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
)

// answers is a machine that has these values.
type answers map[string]any

func (m answers) Answer(input string) fact.Answer { return fact.Answer{Value: m[input]} }
func (m answers) Read(setting string, as fact.Type) fact.Answer {
	return fact.Answer{Value: m[setting]}
}
func (m answers) Items(string) (names []string, u string) { return []string{"a", "b"}, "" }

const chain = `
- id: A
  title: The cause
  failed: The cause is there
  platforms: [linux]
  inputs: {workers: puma.workers}
  want: '8'
  why: w
  sources: [{document: handbook}]
  fix: {changes: ["sysctl:vm.a"], text: "fettle tune {want}"}
- id: B
  title: What comes of it
  failed: not What comes of it
  platforms: [linux]
  inputs: {cpus: machine.cpus}
  want: '8'
  why: w
  sources: [{document: handbook}]
  depends-on: [A]
  fix: {artefact: installer, entries: [--b]}
- id: C
  title: What comes of that
  failed: not What comes of that
  platforms: [linux]
  inputs: {pool: foreman.db_pool}
  want: '8'
  why: w
  sources: [{document: handbook}]
  depends-on: [B]
`

// What another rule explains is mended with the first cause, and its own fix is kept
// for who asks for it.
func TestOneCauseOneRemedy(t *testing.T) {
	c, err := load(t, chain)
	if err != nil {
		t.Fatal(err)
	}
	all := c.Check(t.Context(), answers{"puma.workers": 1.0, "machine.cpus": 1.0, "foreman.db_pool": 1.0}, []string{"linux"}, nil)
	if len(all) != 3 || all[0].Because != "" || all[1].Because != "A" || all[2].Because != "B" {
		t.Fatalf("%+v", all)
	}
	if f := all[0].Fix; f.Text != "fettle tune 8" || len(f.Changes) != 1 {
		t.Errorf("the cause is mended by %+v", f)
	}
	for _, f := range all[1:] {
		if f.Fix == nil || f.Fix.Text != "see A: fettle fix A" || f.Fix.Command != "" || len(f.Fix.Entries) > 0 {
			t.Errorf("%s is mended by %+v", f.ID, f.Fix)
		}
	}
	if own := all[1].Own; own == nil || own.Command != "satellite-installer --b 8" || all[2].Own != nil {
		t.Errorf("the rules' own fixes are %+v and %+v", own, all[2].Own)
	}
	all = c.Check(t.Context(), answers{"puma.workers": 8.0, "machine.cpus": 1.0, "foreman.db_pool": 8.0}, []string{"linux"}, nil)
	if f := all[1]; f.Because != "" || f.Fix.Command != "satellite-installer --b 8" {
		t.Errorf("without the cause B is because of %q and mended by %+v", f.Because, f.Fix)
	}
}

// What has no value is not known, and nothing is said of it.
func TestNothingMeasured(t *testing.T) {
	c, err := load(t, `
- id: A
  title: t
  failed: not t
  platforms: [linux]
  inputs: {workers: puma.workers}
  measured: "workers > 5 ? workers : nil"
  want: '8'
  why: w
  sources: [{document: handbook}]
`)
	if err != nil {
		t.Fatal(err)
	}
	f := c.Check(t.Context(), answers{"puma.workers": 1.0}, []string{"linux"}, nil)[0]
	if f.State != Unknown || f.Reason != "a.yaml:7: workers > 5 ? workers : nil: has no value on this machine" {
		t.Errorf("it is %s: %q", f.State, f.Reason)
	}
}

// Nothing waits for an expression when the context has ended.
func TestCheckInterrupted(t *testing.T) {
	c, err := load(t, `
- id: A
  title: t
  failed: not t
  platforms: [linux]
  inputs: {workers: puma.workers}
  measured: 'let text = join(map(1..100000, "aaaaaaaaaaaaaaaaaaaa"), ""); all(1..500000, not (text matches "a*b$")) ? 1 : 2'
  want: '8'
  why: w
  sources: [{document: handbook}]
`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, end)
	ended := make(chan []Finding, 1)
	go func() { ended <- c.Check(ctx, answers{"puma.workers": 1.0}, []string{"linux"}, nil) }()
	select {
	case all := <-ended:
		if ctx.Err() == nil || len(all) > 0 {
			t.Errorf("%v: %+v", ctx.Err(), all)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it is still evaluated five minutes later")
	}
}

// What a table has no figure for is said in words, not as the expression that asked.
func TestNoFigure(t *testing.T) {
	c, err := load(t, `
- table: sizes
  ids: [A]
  title: Sizes
  columns: {cores: number, hosts: number}
  editions:
    - sources: [{document: handbook}]
      rows:
        - {row: medium, cores: 8, hosts: 5000}
        - {row: large, cores: 16, hosts: 10000}
- id: A
  title: It has its cores
  failed: not It has its cores
  platforms: [linux]
  inputs: {size: foreman.version}
  want: float(cell("sizes", "", size, "cores")) + 0
  why: w
  sources: [{document: handbook}]
- id: B
  title: It has the size
  failed: not It has the size
  platforms: [linux]
  inputs: {cpus: machine.cpus}
  want: float(least("sizes", "", "hosts", cpus * 1000, "cores"))
  why: w
  sources: [{document: handbook}]
`)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"gigantic": `a.yaml:7: no row "gigantic": want medium, large`,
		"mediun":   `a.yaml:7: no row "mediun" (did you mean "medium"?)`,
	} {
		all := c.Check(t.Context(), answers{"foreman.version": kind, "machine.cpus": 20.0}, []string{"linux"}, nil)
		if f := all[0]; f.State != Unknown || f.Reason != want {
			t.Errorf("%s %q, want %q", f.State, f.Reason, want)
		}
		if f := all[1]; f.State != Unknown || f.Reason != "a.yaml:7: no row has hosts of 20,000 or more" {
			t.Errorf("%s %q", f.State, f.Reason)
		}
	}
}

// running is a machine whose Puma says what it runs with.
type running struct{ answers }

func (m running) Answer(input string) fact.Answer {
	a := m.answers.Answer(input)
	if input == "puma.workers" {
		a.From, a.At = fact.Running, "process 7 of puma"
	}
	return a
}

// A finding says of its inputs about a program whether that is what runs.
func TestFindingInputs(t *testing.T) {
	c, err := load(t, chain)
	if err != nil {
		t.Fatal(err)
	}
	all := c.Check(t.Context(), running{answers{"puma.workers": 1.0, "machine.cpus": 1.0, "foreman.db_pool": 1.0}}, []string{"linux"}, nil)
	if len(all) != 3 || len(all[0].Inputs) != 1 || all[0].Inputs[0] != (ProgramInput{"puma.workers", fact.Running, "process 7 of puma"}) || len(all[1].Inputs) > 0 {
		t.Errorf("%+v", all)
	}
}

// TestFixWords: words and commands of a fix have the wanted value and the item, words also the text
// of inputs.
func TestFixWords(t *testing.T) {
	x := &Fix{Text: "other storage below {instance}, not {type} ({size})", Command: "fettle bench disk {instance} {want}"}
	r, err := x.fill(map[string]any{"type": "$(nfs)", "size": 1.0}, &Finding{Instance: "/srv/my data", Want: 8.0})
	if err != nil || r.Text != "other storage below '/srv/my data', not $(nfs) ({size})" || r.Command != "fettle bench disk '/srv/my data' 8" {
		t.Errorf("%+v %v", r, err)
	}
}

// TestHeading holds the two titles and the comparison of a finding.
func TestHeading(t *testing.T) {
	c, err := Load([]fact.Input{{Name: "cpu.wait", Type: fact.Number, Unit: "%"}}, nil, []File{{Name: "a.yaml", Text: []byte(`
- id: T1
  title: Tasks do not wait
  failed: Tasks wait
  platforms: [linux]
  inputs: {wait: cpu.wait}
  want: "50"
  pass: measured < want
  variants: [{when: wait < 10, pass: measured >= want}, {when: wait > 90, pass: measured <= want}]
  why: It is slow.
  sources: [{document: handbook}]
`)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		wait    float64
		heading string
		compare Compare
	}{{20, "Tasks do not wait", ""}, {50, "Tasks wait", LessThan}, {5, "Tasks wait", AtLeast}, {95, "Tasks wait", AtMost}} {
		f := c.Check(t.Context(), answers{"cpu.wait": tt.wait}, []string{"linux"}, nil)[0]
		if f.Heading() != tt.heading || f.Compare != tt.compare {
			t.Errorf("%g: %q, %q; want %q, %q", tt.wait, f.Heading(), f.Compare, tt.heading, tt.compare)
		}
	}
}
