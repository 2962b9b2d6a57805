package foreman

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
)

const wants = "/etc/systemd/system/multi-user.target.wants/dynflow-sidekiq@"

func dynflowMachine(t testing.TB) *host.Host {
	return machine.Mounted(t, map[string]string{
		"/usr/lib/systemd/system/dynflow-sidekiq@.service": "[Service]\nExecStart=/usr/bin/sidekiq -C /etc/foreman/dynflow/%i.yml\n",
		wants + "orchestrator.service":                     "-> /usr/lib/systemd/system/dynflow-sidekiq@.service",
		wants + "worker-1.service":                         "-> /usr/lib/systemd/system/dynflow-sidekiq@.service",
		wants + "worker-hosts-queue-1.service":             "-> /usr/lib/systemd/system/dynflow-sidekiq@.service",
		wants + "gone.service":                             "-> /usr/lib/systemd/system/dynflow-sidekiq@.service",
		"/etc/foreman/dynflow/orchestrator.yml":            ":concurrency: 1\n:queues:\n  - dynflow_orchestrator\n",
		"/etc/foreman/dynflow/worker-1.yml":                "---\n# by the installer\n:concurrency: 5 # threads\n:queues:\n  - [default, 2]\n  - remote_execution\n",
		"/etc/foreman/dynflow/worker-hosts-queue-1.yml":    "queues: [hosts_queue]\n",
	})
}

func TestDynflowFind(t *testing.T) {
	all, err := Dynflow.Find(t.Context(), dynflowMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range all {
		o := i.Option("concurrency")
		got = append(got, fmt.Sprintf("%s %s %s %v", i.Name(), o.File.Or("-"), strings.TrimPrefix(o.File.Source(), dir), i.Answer("queues").Value))
	}
	want := "gone - /gone.yml <nil>; orchestrator 1 /orchestrator.yml:1 [dynflow_orchestrator]; worker-1 5 /worker-1.yml:3 [default remote_execution]; worker-hosts-queue-1 - /worker-hosts-queue-1.yml [hosts_queue]"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if all[0].Option("concurrency").File.Unknown() == "" {
		t.Error("a unit without its file is not known")
	}
}

// What runs is what the title of the process says.
func TestRunning(t *testing.T) {
	for argv, want := range map[string]string{
		"sidekiq 6.3.1 foreman [0 of 5 busy]":          "0 5",
		"sidekiq 5.2.7 dynflow sidekiq [3 of 5 busy]":  "3 5",
		"sidekiq 6.3.1 [12 of 15 busy] stopping":       "12 15",
		"/usr/bin/ruby /usr/bin/sidekiq -e production": "",
		"sidekiq 6.3.1 foreman [many of 5 busy]":       "",
	} {
		got := ""
		if m := title().FindStringSubmatch(argv); m != nil {
			got = m[1] + " " + m[2]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
	run := []dynflowRunning{{Process: product.Process{PID: 7, Unit: "dynflow-sidekiq@worker-1.service"}, Busy: 2, Threads: 4}, {Process: product.Process{PID: 8, Unit: "dynflow-sidekiq@orchestrator.service"}}}
	b, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	h := dynflowMachine(t)
	h.Querier = answered{"dynflow": b}
	all, err := Dynflow.Find(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if o := all[2].Option("concurrency"); o.Running.Or("") != "4" || o.File.Or("") != "5" || all[2].Answer("busy").Value != 2.0 {
		t.Errorf("worker-1: %+v", o)
	}
	if o := all[1].Option("concurrency"); o.Running.Unknown() != "the process has not finished starting" {
		t.Errorf("orchestrator: %+v", o.Running)
	}
	k := Dynflow.Kind(h)
	s, err := k.Resolve(setting.Setting{Kind: "dynflow", Name: "worker-1/concurrency"})
	if err != nil || s.Name != dir+"/worker-1.yml#:concurrency" {
		t.Fatalf("%s, %v", s, err)
	}
	effect := k.(interface {
		Effect(context.Context, setting.Setting, setting.Value) (plugin.Verdict, string)
	}).Effect
	for text, want := range map[string]plugin.Verdict{"5": plugin.NeedsRestart, "4": plugin.OK} {
		if v, why := effect(t.Context(), s, setting.Text(text)); v != want {
			t.Errorf("%s: %v: %s, want %v", text, v, why, want)
		}
	}
}

func TestChecks(t *testing.T) {
	for key, want := range map[string]string{":concurrency=5": "", "concurrency=100": "", ":concurrency=0": "from 1 to 100", ":concurrency=x": "from 1 to 100", ":queues=1": "only concurrency"} {
		name, value, _ := strings.Cut(key, "=")
		if err := checkDynflow(name, value); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func FuzzDynflowSet(f *testing.F) {
	f.Add(":concurrency: 1\n:queues:\n  - a\n", "5")
	f.Add("---\nconcurrency: '1' # x", "x")
	f.Fuzz(func(t *testing.T, text, value string) {
		testkitproduct.Bytes(t, Dynflow, map[string]string{
			"/etc/foreman/dynflow/w.yml": text, wants + "w.service": "", "/etc/systemd/system/dynflow-sidekiq@.service": "[Service]\n",
		}, "concurrency", value)
	})
}

// What a merge brings in is Ruby's to know: the value is unknown there, with its line.
func TestMergeIsNotIgnored(t *testing.T) {
	for text, want := range map[string]string{
		":a: &few\n  :concurrency: 2\n<<: *few\n:queues: [default]\n":      "worker-1.yml:3: ",
		"\"<<\": 1\n:concurrency: 5\n:queues:\n  - default\n":              "",
		"<<: {\":concurrency\": 2}\n:concurrency: 5\n:queues: [default]\n": "worker-1.yml:1: ",
	} {
		h := machine.Mounted(t, map[string]string{
			"/usr/lib/systemd/system/dynflow-sidekiq@.service": "[Service]\nExecStart=/usr/bin/sidekiq -C /etc/foreman/dynflow/%i.yml\n",
			wants + "worker-1.service":                         "-> /usr/lib/systemd/system/dynflow-sidekiq@.service",
			"/etc/foreman/dynflow/worker-1.yml":                text,
		})
		all, err := Dynflow.Find(t.Context(), h)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		f := all[0].Option("concurrency").File
		if got := f.Unknown(); !strings.Contains(got, want) || (want == "") != (got == "") || want == "" && f.Or("") != "5" {
			t.Errorf("%q: value %q, unknown %q, want %q", text, f.Or(""), got, want)
		}
	}
}
