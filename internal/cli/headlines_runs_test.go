package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/runpage"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/stats"
)

// measuredRun is a result with the first line of its headline.
type measuredRun struct {
	kind, first string
	body        runpage.Result
}

// measuredRuns has a result of each kind.
var measuredRuns = []measuredRun{
	{disk.Kind, "/srv: fast enough for Pulp and PostgreSQL", &disk.Evidence{Places: []disk.Measured{{Place: disk.Place{Directory: "/srv"}, Results: []disk.Result{
		{Cell: disk.Cell{Name: "stream-read", Unit: "MB/s"}, Value: 894, Samples: make([]disk.Sample, 3)}, {Cell: disk.Cell{Name: "block-4k", Unit: "MB/s"}, Value: 50.94, Spread: 0.12, Samples: make([]disk.Sample, 3)}}}}}},
	{"bench-memory", "a random read: 4k 170 ns; thp 155 ns (1.09 times as fast as 4k, interval 1.04 to 1.14)", &memory.Result{Rounds: 13, SizeBytes: 32 << 20, Left: []memory.LeftOut{{Cell: "hugetlb-2m", Why: "--no-reserve: no huge pages are reserved"}},
		Cells:       []memory.Summary{{Cell: "4k", Random: 169.5, Touch: 0.544}, {Cell: "thp", Random: 155.2, Touch: 0.169}},
		Comparisons: []memory.Comparison{{Cell: "thp", Against: "4k", Measure: memory.Random, Speed: 1.09, Interval: &[2]float64{1.04, 1.14}}, {Cell: "thp", Against: "4k", Measure: memory.Touch, Speed: 0.9, Interval: &[2]float64{0.7, 1.2}}}}},
	{"bench-postgres", "1,188 transactions a second with 2 clients, p99 13.6 ms; the 3 rounds differ by 4.2 %", &postgres.Result{Rounds: 3, InCache: "the database fits into memory: this says nothing of the disk; --scale 2000 reaches it", Failed: []postgres.Failed{{Clients: 64, Why: "too few connections"}},
		Steps: []postgres.Step{{Clients: 1, TPS: 800, P99S: 0.009}, {Clients: 2, TPS: 1187.6, Spread: 0.042, P50S: 0.0016, P99S: 0.0136}}}},
	{"bench-etcd", "too slow: fsync in the window: p99 between 16 and 32 ms, not below 10 ms (limits: etcd's manual)", &etcd.Result{Word: etcd.Fail, Text: "too slow: fsync in the window: p99 between 16 and 32 ms, not below 10 ms", Member: "http://127.0.0.1:2379", LeaderChanges: 3,
		Writes: &etcd.Writes{N: 2000, P50S: 0.0021, RateS: 412.4}, Judged: []etcd.Judgement{{What: "fsync", When: "since-start", N: 9000}, {What: "fsync", When: "window", N: 2000, P99: stats.HistogramBucket{Low: 0.016, High: 0.032}, LimitS: 0.01}}}},
	{network.RecordKind, "send 941 Mbit/s (limit: link)", &network.Result{Peer: "192.0.2.7:5219", Path: &network.Path{Up: network.Way{MTU: 1500, How: network.ByInterface, Interface: 1500}, Down: network.Way{MTU: 1500, How: network.ByInterface, Interface: 1500}},
		Cells: []network.Summary{{Cell: "send-1", Runs: 10, Figures: []network.Figure{{Name: "goodput_bit_s", Value: 941e6}}, Limit: &network.Limit{Word: network.LimitLink, Text: "the link of eth0 has 1,000 Mbit/s"}}, {Cell: "udp", Runs: 10, Figures: []network.Figure{{Name: "p50_s", Value: 0.00021}}}}}},
	{load.Kind, "✗ 1 of 2 thresholds met; not met: p99 < 50ms (1.04 s)", &load.Result{Word: load.Limited, Text: "the generator was the limit, not the server: 20.4 answers a second, p50 18.5 ms, p99 1.04 s, 0.42 % errors", Model: "open",
		Gates:  []load.Gate{{Result: engine.Result{Gate: "p99 < 50ms", Text: "1.04 s"}}, {Result: engine.Result{Gate: "errors < 1%", Met: true, Text: "0.42 %"}}},
		Stages: []load.Stage{{Rate: "20/s"}}, Whole: load.Figures{AnswerRate: 20.4, Errors: 1, ErrorShare: 0.0042, Latency: engine.Times{N: 240, P50S: 0.0185, P99S: 1.04}},
		Generator: load.Generator{Limited: true, Texts: []string{"62.9 % of the requests were sent more than 1 ms late although a connection was free (p99 318 ms): this machine lacks processor time for the rate"}}}},
	{mqtt.Kind, "1014 of 5000 hosts were connected, the first refusal with 1014 connected: closed-early 3986 times", &mqtt.Result{Word: mqtt.NotSustained, Text: "1014 of 5000 hosts were connected, the first refusal with 1014 connected: closed-early 3986 times", Hosts: 5000,
		Connect: mqtt.Connect{Connected: 1014, Failures: map[string]engine.FailureCount{"closed-early": {N: 3986}}}, Rounds: []mqtt.Round{{Settings: "ttl=5s,resend=15m,limit=none", Jobs: 5000}}}},
	{search.Kind, "not proved: vm.swappiness=10: cannot tell yet [-1, 3.4]: about 40 more runs", &search.Evidence{Text: "not proved: vm.swappiness=10: cannot tell yet [-1, 3.4]: about 40 more runs", Metric: prove.Metric{Name: "time", Unit: "s"},
		Design: search.Design{Runs: 60, Space: search.Space{Knobs: []search.Knob{{Name: "vm.swappiness", Settings: []string{"vm.swappiness"}, Levels: []string{"10", "60"}, Default: 1}}}}, Best: []string{"vm.swappiness=10"}, Seen: 0.03,
		Proof: &search.Proof{Run: "0123456789abcdef", Word: prove.CannotTell, Text: "cannot tell yet [-1, 3.4]: about 40 more runs"}, Samples: []search.Sample{{Value: 1, Step: search.Step{Point: search.Point{1}}}, {Step: search.Step{Point: search.Point{0}}, Stopped: "the work failed: exit status 4"}}}},
	{scenario.Kind, "✗ 0 of 1 threshold met; not met: host errors < 1% (20 %)", &scenario.Result{Word: scenario.Measured, Text: "80 of 100 hosts did all steps (p50 1.2 s, p99 9.3 s); step register: wrong-status 20 times, as status 502", Scenario: "registration", StandIn: "foreman", Model: "closed", Hosts: 100, Repeat: 1, RunID: "20261130-080000-4711ab",
		Gates: []scenario.Judged{{Result: engine.Result{Gate: "errors < 1%", Text: "20 %"}}}, Whole: scenario.Figures{Runs: 100, Errors: 20, ErrorShare: 0.2, Latency: engine.Times{N: 80, P50S: 1.2, P99S: 9.3}}, Created: &scenario.Created{Intended: 100, Known: 80},
		Steps: []scenario.Step{{Name: "register", Kind: "http", Figures: scenario.Figures{Runs: 100, Errors: 20, Causes: map[string]engine.FailureCount{"wrong-status": {N: 20, Example: "status 502"}}}}}}},
}

// Each kind of run is shown with its headline first, as the JSON output has it, in 80 columns
// and 40 lines; so are the list and a comparison.
func TestRunHeadlines(t *testing.T) {
	state := t.TempDir()
	store := evidence.Store{Dir: filepath.Join(state, "runs")}
	for _, kind := range runpage.Kinds() {
		if kind != "prove" && !slices.ContainsFunc(measuredRuns, func(m measuredRun) bool { return m.kind == kind }) {
			t.Errorf("no result of kind %s", kind)
		}
	}
	all := []string{"runs list"}
	for i, m := range measuredRuns {
		body, err := json.Marshal(m.body)
		if err != nil {
			t.Fatal(err)
		}
		r := &evidence.Run{Schema: "fettle/run/v1", Kind: m.kind, Command: "fettle bench", Version: "test", Began: time.Unix(int64(i), 0).UTC(), Verdict: m.first, Body: body, Machine: evidence.Machine{Hardware: "here"}}
		if err := store.Put(r); err != nil {
			t.Fatal(err)
		}
		all = append(all, "runs show "+r.ID)
		if got := m.body.Headline().Lines[0]; got != m.first {
			t.Errorf("%s: %q, want %q", m.kind, got, m.first)
		}
		r.Body, r.Began = []byte(`{"series":[{"name":"a","unit":"ms","samples":[1,1.1,1.2]},{"name":"b","unit":"ms","samples":[`+fmt.Sprint(i+1)+`,1.1,1.2]}]}`), time.Unix(int64(100+i), 0).UTC()
		if err := store.Put(r); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			all = append(all, "runs compare "+r.ID+" "+r.ID)
		}
	}
	all = append(all, "runs trend ../../examples/trend/commits.txt", "runs prune --older-than 1d --yes")
	for _, call := range all {
		args := append([]string{"--state-dir", state}, strings.Fields(call)...)
		if strings.HasPrefix(call, "runs prune") { // it removes them once
			args = append([]string{"--state-dir", filepath.Join(t.TempDir(), "none")}, strings.Fields(call)...)
		}
		program.Headline(t, call, args, call != "runs list")
	}
}
