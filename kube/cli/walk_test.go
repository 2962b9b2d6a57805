package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/evidence"
	httpload "fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/scenario"
	testkit "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	loadrun "fettle.dev/fettle/kube/load/run"
	"fettle.dev/fettle/kube/machine/scale"
)

// walk is a call of a verb with usual arguments, on one of the clusters. whole is true if the output
// may exceed 40 lines: a list that was asked for, or rows that are never folded.
type walk struct {
	cluster, call string
	whole         bool
}

// walks call each verb. Words in capital letters are the files and directories of walkFiles.
var walks = []walk{
	{"", "check --root MUSTGATHER", false},
	{"", "check --root MUSTGATHER --details", true},
	{"", "check --root MUSTGATHER --explain O14", false},
	{"", "size openshift --pods 2200", false},
	{"", "size openshift --pods 2200 --details", true},
	{"", "size openshift --pods 120000 --services 30000", false},
	{"", "size satellite --hosts 12000", false},
	{"", "size postgresql --connections 200 --ram 64GiB --cpus 8", false},
	{"", "size hugepages --size 1GiB --ram 64GiB", false},
	{"", "size network --mtu 1500", false},
	{"", "size puppet --ram 16GiB --log ../../examples/logs/puppet.log", false},
	{"", "size httpd --log ../../internal/logformat/testdata/real/httpd-combined_TD.log", false},
	{"", "size router --log ../../internal/logformat/testdata/real/haproxy-local.log", false},
	{"", "load plan --offline", false},
	{"", "load plan ../../examples/kubernetes/load.yaml --offline", false},
	{"", "load status", false},
	{"", "pod explain POD --state STATE", false},
	{"", "pod explain POD --state STATE --details", true},
	{"", "pod explain LARGE --state STATE", false},
	{"pods", "pod explain POD --root NODE", false},
	{"pods", "pod explain POD --root NODE --details", true},
	{"pods", "pod verify cpumanager-6cqz7 --root NODE", false},
	{"pods", "pod verify cpumanager-6cqz7 --root NODE --details", true},
	{"tuned", "status", false},
	{"tuned", "status n1", false},
	{"tuned", "status --details", true},
	{"tuned", "status --file TUNED", false},
	{"kubelets", "kubelet plan KUBELET", false},
	{"kubelets", "kubelet plan KUBELET --details", true},
	{"machines", "health", false},
	{"machines", "health -n fleet", false},
	{"machines", "health --details -n fleet", true},
	{"machines", "scale plan workers-a workers-b --to 10", false},
	{"machines", "scale plan workers-a --to 2", false},
	{"machines", "scale plan workers-b --to 0", false},
	{"machines", "scale plan workers-a workers-b --roll", false},
	{"machines", "scale execute workers-a --to 3 --yes", false},
	{"checked", "check", false},
	{"checked", "check --details", true},
	{"checked", "check --all", true},
	{"checked", "check --for 1.37", false},
	{"load", "load plan load.yaml", false},
	{"load", "load plan load.yaml --details", true},
	{"teams", "load mirror --write DIR", false},
	{"load", "load status --state-dir runs", false},
	{"load", "load compare RUN RUN --state-dir runs", false},
	{"uninstall", "uninstall --timeout 1s --yes", false},
}

// clusters start a test server for the API of a cluster, and return the path of its kubeconfig.
var clusters = map[string]func(*testing.T) string{
	"":          func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") },
	"pods":      func(t *testing.T) string { return apiServer(t, nil) },
	"tuned":     func(t *testing.T) string { return api(t, tunedCluster()) },
	"kubelets":  func(t *testing.T) string { return api(t, kubeletCluster()) },
	"uninstall": func(t *testing.T) string { return api(t, tunedNodes()) },
	"teams":     func(t *testing.T) string { return apiServer(t, teams()) },
	"machines": func(t *testing.T) string {
		all := machines()
		maps.Copy(all, fleet())
		return apiServer(t, all)
	},
	"load": func(t *testing.T) string {
		serveLoad(t).made()
		return os.Getenv("KUBECONFIG")
	},
	"checked": func(t *testing.T) string {
		newEtcd(t)
		return apiServer(t, checked())
	},
}

const (
	largePod = `{apiVersion: v1, kind: Pod, metadata: {name: large}, spec: {containers: [{name: a, image: i, resources: {limits: {cpu: 16, memory: 200Gi}}}, {name: b, image: i}]}}`
	tunedOf  = "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: mine, namespace: openshift-cluster-node-tuning-operator}\nspec:\n  profile: [{name: mine, data: \"[main]\\ninclude=openshift-node\\n\"}]\n  recommend: [{profile: mine, priority: 20, match: [{label: a}]}]\n"
)

// walkFiles writes the files that the calls name, and returns their names.
func walkFiles(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	worker(t, filepath.Join(dir, "worker-1"))
	file("mg/cluster-scoped-resources/config.openshift.io/networks/cluster.yaml", "apiVersion: config.openshift.io/v1\nkind: Network\nmetadata: {name: cluster}\nspec:\n  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 24}]\n  networkType: OVNKubernetes\n  serviceNetwork: [172.30.0.0/16]\n")
	file("mg/cluster-scoped-resources/machineconfiguration.openshift.io/kubeletconfigs/k.yaml", "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: k}\nspec: {kubeletConfig: {maxPods: 500, podsPerCore: 10, cpuManagerPolicy: static}}\n")
	return strings.NewReplacer("MUSTGATHER", filepath.Join(dir, "mg"), "STATE", filepath.Join(dir, "worker-1"), "NODE", vm(t),
		"POD", file("pod.yaml", nextPod), "LARGE", file("large.yaml", largePod), "TUNED", file("tuned.yaml", tunedOf), "KUBELET", file("kubelet.yaml", maxPodsConfig), "DIR", filepath.Join(dir, "mirror"))
}

// TestWalk: each verb prints the headline of its JSON output first, on a pipe and on a terminal of
// 80 columns; no line is longer except paths and commands that stand alone; and no output is
// longer than 40 lines unless it was asked for.
func TestWalk(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	files := walkFiles(t)
	for i, w := range walks {
		if i > 0 && walks[i-1].cluster == w.cluster {
			continue
		}
		config := clusters[w.cluster](t)
		run := ""
		if runs, err := os.ReadDir("runs"); err == nil {
			run = runs[0].Name()
		}
		for _, w := range walks[i:] {
			if w.cluster != walks[i].cluster {
				break
			}
			t.Run(w.call, func(t *testing.T) {
				t.Setenv("KUBECONFIG", config)
				p := program
				p.Main = func(version string, args []string, out, errw io.Writer) int {
					mirror := files.Replace("DIR")
					if err := os.RemoveAll(mirror); err != nil {
						t.Fatal(err)
					}
					return Main(version, args, out, errw)
				}
				p.Headline(t, w.call, strings.Fields(strings.ReplaceAll(files.Replace(w.call), "RUN", run)), !w.whole)
			})
		}
	}
}

// TestWalkMachines is TestWalk of the verbs that read a machine's copy, over all recorded machines.
func TestWalkMachines(t *testing.T) {
	machines, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(machines) < 15 {
		t.Fatalf("%d machines, %v", len(machines), err)
	}
	each := len(machines) / testkit.Sample(len(machines))
	for i, machine := range machines {
		if i%each != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(machine), ".txt"), func(t *testing.T) {
			t.Parallel()
			for _, call := range []string{"check", "check --details", "check --for 1.37", "check --explain T19"} {
				program.Headline(t, call, append(strings.Fields(call), "--root", machine), !strings.Contains(call, "--details"))
			}
		})
	}
}

// TestWalkResults is TestWalk of the results of runs, whose times and names differ from run to run.
func TestWalkResults(t *testing.T) {
	run := &LoadRun{
		Run: "20261128-140000-123", File: "load.yaml", State: "done", Verdict: verdictNotMet, RatePerS: 1234.5, Throttled: 12345, Late: 23456, Widest: 2000, NotReady: 1, Example: "Pod/a",
		Actions: &LoadActions{Planned: 30000, Patched: 12000, Deleted: 11000, Read: 5000, Failed: 1000, Skipped: 1000},
		Errors:  map[string]int{"the API server answers 429": 1200, "timeout": 1}, Kept: []KeptObject{{"Namespace/mirror0-1", "it has objects of others"}}, NotSeen: "the metrics of etcd",
		Gates: []load.Measured{{Gate: "ready p99 < 5s", Text: "6.02 s of 12,000 pods"}, {Gate: "create p99 < 1s", Met: true, Text: "0.0213 s"}, {Gate: "throttled < 1%", Unknown: true, Text: "too few answers"}},
		Servers: &loadrun.Servers{
			Calls: []loadrun.Calls{{Series: loadrun.Series{Verb: "LIST", Resource: "networkpolicies.networking.k8s.io", Scope: "cluster"}, N: 123456, P50S: 0.0123, P99S: 1.234, LimitS: 30, Verdict: "met"}},
			EtcdN: 1234567, EtcdP99S: 0.01234, Members: []loadrun.Etcd{{Member: "https://10.0.0.11:2379", FsyncN: 12345, FsyncP99S: 0.00456}},
		},
	}
	run.Objects.Planned, run.Objects.Created, run.Objects.Failed, run.Objects.Before, run.Objects.Reused = 120_000, 100_000, 1201, 17_799, 1000
	times := engine.Times{N: 100_000, P50S: 0.01234, P95S: 0.1234, P99S: 6.0234, MaxS: 12.345}
	run.Times.Create, run.Times.Ready, run.Times.Scheduled = times, times, times
	run.Headline = run.headline()
	undo := &LoadUndo{Run: run.Run, Removed: 120_000, Absent: 12_345, Kept: run.Kept, Waiting: slices.Repeat([]string{"mirror0-1"}, 1200), Unknown: 10_000, Delete: "kubectl delete configmaps --all-namespaces -l fettle.dev/run=20261128-140000-123"}
	undo.Headline = undo.headline()
	scaled := &ScaleRun{State: "stopped", Done: make([]scale.Done, 1), Plan: scale.Plan{To: 1200, Steps: make([]scale.Step, 12)}}
	scaled.headline()
	figures := httpload.Figures{Starts: 1_200_000, AnswerRate: 19_999, Statuses: map[string]int64{"200": 1_199_000, "503": 1000}, Errors: 1000, ErrorShare: 0.000833, Latency: times}
	loaded := &httpload.Result{Word: httpload.Sustained, Text: "the server sustained 20,000/s: p50 12.3 ms, p99 6.02 s, errors 0.0833 %", Connections: 20_000, Model: "open", Whole: figures, Stages: []httpload.Stage{{Rate: "20000/s", Figures: figures}}}
	for i := range 20 {
		loaded.Generator.Clients = append(loaded.Generator.Clients, httpload.Client{Name: fmt.Sprintf("fettle-load-x7k2p-%d-abcde", i), Starts: 60_000, Connections: 1000, Processors: 16, ClockErrorS: 0.001})
	}
	loaded.Generator.Clients[7].Lost = "the pod was deleted on node worker-2"
	hosts := &scenario.Result{Word: scenario.Measured, Text: "all 900 hosts did all steps (p50 12.3 ms, p99 6.02 s)", Scenario: "registration", Model: "closed", Hosts: 900, Repeat: 1, RunID: "20261130-065501-0a1b2c3", Created: &scenario.Created{Intended: 900, Known: 899}}
	hosts.Whole = scenario.Figures{Runs: 900, Latency: times}
	undone := &scenario.Undone{Run: hosts.RunID, Scenario: "registration", Removed: 898, Objects: []scenario.UndoneObject{{Step: "record", Name: "loadtest-000007", State: scenario.StateUnknown, Text: "recorded before the request; the answer is not known: look for it by its name"}}}
	undone.Headline.Line("%s removed", undone.Headline.Count("removed", undone.Removed, "object"))
	for name, r := range map[string]struct {
		doc   any
		print func(*app)
	}{
		"load http":          {RunResult{loaded.Headline(), &evidence.Run{}}, func(a *app) { loaded.Print(a.screen, &evidence.Run{ID: "0123456789abcdef"}) }},
		"load scenario":      {RunResult{hosts.Headline(), &evidence.Run{}}, func(a *app) { hosts.Print(a.screen, &evidence.Run{ID: "0123456789abcdef"}) }},
		"load scenario undo": {undone, func(a *app) { undone.Print(a.screen) }},
		"load run":           {run, func(a *app) { a.printRun(run) }},
		"load undo":          {undo, func(a *app) { a.printUndo(undo, "no rights to list secrets") }},
		"scale execute":      {scaled, func(a *app) { ui.PrintHeadline(a.screen, &scaled.Headline) }},
	} {
		p := program
		p.Main = func(_ string, args []string, out, errw io.Writer) int {
			a := &app{screen: ui.NewScreen(out, errw)}
			a.screen.Format = ui.Table
			if slices.Contains(args, "json") {
				a.screen.Format = ui.JSON
			}
			return cliutil.Ended(a.screen, a.show(r.doc, nil, func() { r.print(a) }))
		}
		p.Headline(t, name, nil, true)
	}
}

// TestWalksAreComplete: each verb that prints a document is in the table. TestLogs has the output of
// logs.
func TestWalksAreComplete(t *testing.T) {
	for verb, kind := range documentOf {
		if shown := slices.Contains([]string{"cluster-load-run", "cluster-load-undo", "run", "scenario-undo", "logs"}, kind); !shown && !strings.HasPrefix(kind, "(") && !slices.ContainsFunc(walks, func(w walk) bool { return w.call == verb || strings.HasPrefix(w.call, verb+" ") }) {
			t.Errorf("walks have no call of %s", verb)
		}
	}
}
