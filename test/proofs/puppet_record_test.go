package proofs

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/logs"
)

// The files of the record, below docs/proofs/puppet. What fettle has printed as JSON is
// kept as it is, but for loads, whose seconds and histograms are left out.
const (
	puppetExperimentFile = "experiment.json"
	puppetLogFile        = "log.json" // fettle logs of the server's own log
	puppetLoadsFile      = "loads.json"
	puppetAgentsFile     = "agents.json"
	puppetProbesFile     = "probes.json"
)

// of is the file of a front end: what fettle size puppet said, or logs compare.
func (f puppetFront) sizeFile() string    { return "size-" + f.Name + ".json" }
func (f puppetFront) compareFile() string { return "compare-" + f.Name + ".json" }

// puppetRecord is what TestPuppet has seen, and what TestPuppetPage makes the page of.
type puppetRecord struct {
	puppetExperiment
	Log      logs.Report
	Sizes    map[string]sizing.Result // by front end
	Loads    []puppetLoad
	Compared map[string]logs.Comparison // by front end
	Agents   []puppetRun
	Probes   []puppetSite
}

// puppetExperiment is on what machine it was made, and how.
type puppetExperiment struct {
	Began    time.Time         `json:"began"`
	Ended    time.Time         `json:"ended"`
	Machine  puppetMachine     `json:"machine"`
	Versions map[string]string `json:"versions"` // of packages
	// Files are the resources of a catalog with a source of their own; Directory is how
	// many files the one that is copied as a directory has.
	Files     int `json:"files"`
	Directory int `json:"files_of_directory"`
	// OneConnection is how many requests of the mix one connection had answered in a second
	// by a server that kept nothing, through Apache; Rate is what was asked of all.
	OneConnection float64       `json:"one_connection_per_s"`
	Rate          float64       `json:"rate_per_s"`
	WarmUpS       float64       `json:"warm_up_s"`
	WindowS       float64       `json:"window_s"` // of each turn of a front end
	Rounds        int           `json:"rounds"`
	Mix           []puppetAsked `json:"mix"`
	// LeftOut are requests of an agent that a load cannot make again, by their kind.
	LeftOut map[string]int `json:"mix_left_out"`
	Stages  []puppetStage  `json:"stages"`
}

// puppetMachine is where it was made.
type puppetMachine struct {
	CPU         string `json:"cpu"`
	CPUs        int64  `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Hypervisor  string `json:"hypervisor,omitempty"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
}

// puppetStage is a part of the experiment, and the load average of the machine over the
// last minute when it began and when it ended.
type puppetStage struct {
	Name       string    `json:"name"`
	Began      time.Time `json:"began"`
	Seconds    float64   `json:"seconds"`
	LoadBefore float64   `json:"load_average_before"`
	LoadAfter  float64   `json:"load_average_after"`
}

// puppetAsked is a line of the mix.
type puppetAsked struct {
	Weight int    `json:"weight"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// puppetLoad is one run of fettle load http.
type puppetLoad struct {
	Of      string    `json:"of"`    // warm-up, one connection, mix, file or replay
	Front   string    `json:"front"` // of puppetFronts
	Cached  bool      `json:"cached"`
	Round   int       `json:"round,omitempty"`
	Command string    `json:"command"`
	Began   time.Time `json:"began"`
	Verdict string    `json:"verdict"`
	// Result is fettle/load-http/v1 without series, curves, slices, stages, the samples of
	// what was observed, the list of requests and the histogram.
	Result load.Result `json:"result"`
}

// puppetRun is one run of an agent.
type puppetRun struct {
	What        string  `json:"what"`
	Environment string  `json:"environment"`
	Front       string  `json:"front,omitempty"` // "" for none
	Cached      bool    `json:"cached"`
	Static      bool    `json:"static_catalogs"`
	Changed     int     `json:"files_changed"` // on the server since the last run
	Applied     float64 `json:"applied_s"`     // as the agent says of its catalog
	Whole       float64 `json:"whole_s"`
	// Behind are the requests that came to Puppet Server, by method and indirector, and
	// AtFront those that came to the front end.
	Behind  map[string]uint64 `json:"behind"`
	AtFront map[string]uint64 `json:"at_front,omitempty"`
}

// puppetSite is a server that was asked for what it should refuse.
type puppetSite struct {
	Name string `json:"name"`
	// Ours says that its configuration is what fettle wrote.
	Ours bool `json:"ours"`
	// Configuration is what is particular to it.
	Configuration string `json:"configuration,omitempty"`
	// Kept says that a request that was made again did not come to Puppet Server.
	Kept    bool           `json:"kept"`
	Answers []puppetAnswer `json:"answers"`
	// Findings of fettle check puppet --probe, by rule.
	Findings map[string]puppetFinding `json:"findings"`
}

// puppetAnswer is what was asked and what came.
type puppetAnswer struct {
	Question string `json:"question"` // of puppetQuestions
	Status   string `json:"status"`   // of HTTP; 000 where there is no connection
	Says     string `json:"says,omitempty"`
	Open     bool   `json:"open"` // it should not have been given
}

// puppetFinding is what a rule says.
type puppetFinding struct {
	State    string `json:"state"`
	Measured any    `json:"measured,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// answer is that to a question; nil where it was not asked.
func (s puppetSite) answer(question string) *puppetAnswer {
	for i := range s.Answers {
		if s.Answers[i].Question == question {
			return &s.Answers[i]
		}
	}
	return nil
}

// open says that what was asked should not have been given.
func (s puppetSite) open(question string) bool {
	a := s.answer(question)
	return a != nil && a.Open
}

// keep writes a file of the record.
func (x *puppetProof) keep(name string, v any) {
	x.Helper()
	text, ok := v.([]byte)
	if !ok {
		var err error
		if text, err = json.MarshalIndent(v, "", " "); err != nil {
			x.Fatal(err)
		}
		text = append(text, '\n')
	}
	dir := filepath.Join(out, "puppet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		x.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		x.Fatal(err)
	}
}

// readPuppetRecord reads what keep has written; nil where nothing was.
func readPuppetRecord(t *testing.T, dir string) *puppetRecord {
	t.Helper()
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	r := &puppetRecord{Sizes: map[string]sizing.Result{}, Compared: map[string]logs.Comparison{}}
	read := func(name string, to any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	read(puppetExperimentFile, &r.puppetExperiment)
	read(puppetLogFile, &r.Log)
	read(puppetLoadsFile, &r.Loads)
	read(puppetAgentsFile, &r.Agents)
	read(puppetProbesFile, &r.Probes)
	for _, f := range puppetFronts {
		var size sizing.Result
		read(f.sizeFile(), &size)
		var compared logs.Comparison
		read(f.compareFile(), &compared)
		r.Sizes[f.Name], r.Compared[f.Name] = size, compared
	}
	return r
}

// stage is a part of the experiment.
func (x *puppetProof) stage(name string, do func()) {
	s := puppetStage{Name: name, Began: puppetNow(), LoadBefore: averageLoad(x)}
	began := time.Now()
	do()
	s.Seconds, s.LoadAfter = math.Round(10*time.Since(began).Seconds())/10, averageLoad(x)
	x.Logf("%s: %.0f s, load average %.1f to %.1f", name, s.Seconds, s.LoadBefore, s.LoadAfter)
	x.record.Stages = append(x.record.Stages, s)
}

func puppetNow() time.Time { return time.Now().UTC().Truncate(time.Second) }

// averageLoad is that of the machine, over the last minute.
func averageLoad(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// load runs fettle load http as a node, and keeps what it says.
func (x *puppetProof) load(of string, f puppetFront, cached bool, round int, args ...string) load.Result {
	x.Helper()
	words := append([]string{"load", "http", "--output", "json", "--timeout", "60s", "--observe", "local", "--puppet-ssldir", x.node.SSLDir, "--certname", x.node.Name}, args...)
	var run evidence.Run
	x.decode(x.fettle(words...), &run)
	l := puppetLoad{Of: of, Front: f.Name, Cached: cached, Round: round, Command: run.Command, Began: run.Began.Truncate(time.Second), Verdict: run.Verdict}
	x.decode(run.Body, &l.Result)
	if x.record.Machine.CPUs == 0 {
		m := run.Machine
		x.record.Machine = puppetMachine{CPU: m.CPU, CPUs: m.CPUs, MemoryBytes: m.MemoryBytes, Hypervisor: m.Hypervisor, OS: m.OS, Kernel: m.Kernel}
	}
	x.Logf("%s through %s, cached %v: %s", of, f.Name, cached, l.Verdict)
	whole := l.Result
	l.Result.Series, l.Result.Curves, l.Result.Slices, l.Result.Stages, l.Result.Requests, l.Result.Histogram = nil, nil, nil, nil, nil, ""
	for i := range l.Result.Observed {
		l.Result.Observed[i].Samples = nil
	}
	x.record.Loads = append(x.record.Loads, l)
	return whole
}

func (x *puppetProof) decode(text []byte, to any) {
	x.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		x.Fatalf("%v: %s", err, text)
	}
}

// puppetApplied is what an agent says of its catalog.
var puppetApplied = regexp.MustCompile(`Applied catalog in ([0-9.]+) seconds`)
