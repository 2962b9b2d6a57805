package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

func TestLoadUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("ClusterLoader:\n  project: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	twice := filepath.Join(t.TempDir(), "twice.yaml")
	if err := os.WriteFile(twice, []byte("ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    pods: [{num: 1, basename: a, image: i}, {num: 1, basename: a, image: i}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate.yaml")
	if err := os.WriteFile(gate, []byte("ClusterLoader:\n  projects:\n  - {num: 1, basename: p}\n  slo: [\"foo p99 < 1\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	few := filepath.Join(t.TempDir(), "few.yaml")
	if err := os.WriteFile(few, []byte("ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    pods: [{num: 100, basename: a, image: i}]\n  slo: [\"create p95 < 1s\", \"ready p99 < 5s\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(huge, []byte("ClusterLoader:\n  projects:\n  - num: 2000000000\n    basename: p\n    pods:\n    - {num: 2000000000, basename: a, image: i}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"load plan --offline " + huge, ui.Usage, huge + ":3: the load is too large: 2,000,000,000 objects, at most 2,000,000 supported"},
		{"load plan --offline --etcd-quota 10KiB", ui.Refused, "KiB in etcd: the maximum is 10 KiB (--etcd-quota)"},
		{"load plan --offline --etcd-quota much", ui.Usage, "--etcd-quota"},
		{"load plan --offline --openshift banana", ui.Usage, `--openshift "banana": want a version from 4.1 to 4.22; newer ones get the figures of 4.22`},
		{"load plan --offline --openshift 4.", ui.Usage, `--openshift "4.": want a version`},
		{"load plan --offline --openshift 99", ui.Usage, `--openshift "99": want a version`},
		{"load plan --offline --openshift 3.11", ui.Usage, `--openshift "3.11": want a version`},
		{"load plan --offline --openshift 9.9", ui.Done, "OpenShift 9.9 is newer than all known versions; the maximums of 4.22 are used"},
		{"load plan --offline --openshift 4.21.3", ui.Done, "OpenShift 4.21.3 is judged by the maximums of versions 4.13 and later"},
		{"load", ui.Done, "kubectl fettle load COMMAND"},
		{"load start", ui.Usage, `unknown command "start"`},
		{"load run --in-flight 9000", ui.Usage, `--in-flight "9000": want 1 to 5,000`},
		{"load run --in-flight 0", ui.Usage, `--in-flight "0": want 1 to 5,000`},
		{"load resume --in-flight -1", ui.Usage, `--in-flight "-1": want 1 to 5,000`},
		{"load run --rate fast", ui.Usage, "want a rate such as"},
		{"load run --slo p99<1s", ui.Usage, ": want create, scheduled or ready before the percentile"},
		{"load run --slo", ui.Usage, "--slo needs a value"},
		{"load run --etcd-quota much", ui.Usage, "--etcd-quota"},
		{"load run --etcd-metrics 2381", ui.Usage, "--etcd-metrics"},
		{"load run --for-prove --keep", ui.Usage, "leave out --keep and --slo"},
		{"load mirror", ui.Usage, "--write DIR missing; name the directory for the load"},
		{"load mirror --write x", ui.Usage, "no cluster"},
		{"load compare 1", ui.Usage, "B is missing: want kubectl fettle load compare A B"},
		{"load compare 1 2", ui.Usage, "run 1 not found in"},
		{"load compare 1 2 --margin 2", ui.Usage, `--margin "2": want a percentage`},
		{"load run", ui.Usage, "no cluster"},
		{"load run " + bad, ui.Usage, bad + `:2: ClusterLoader: unknown field "project" (did you mean "projects"?)`},
		{"load run /nowhere.yaml", ui.Usage, "/nowhere.yaml"},
		{"load resume", ui.Usage, "no run found in"},
		{"load resume ../x", ui.Usage, `"../x" is not a valid run name`},
		{"load undo 2026", ui.Usage, "run 2026 not found in"},
		{"load status", ui.Done, "there are no runs in"},
		{"load plan --openshift 4.4", ui.Usage, "--openshift needs --offline; a cluster reports its own version"},
		{"load plan --offline", ui.Done, "30 objects, 10 pods"},
		{"load plan --offline " + gate, ui.Usage, gate + ":4: "},
		{"load plan --offline " + few, ui.Done, few + ":6: ready p99 < 5s cannot be judged: cannot tell from 100 answers: 300 are needed; p95 can be\n101 objects"},
		{"load plan --offline " + twice, ui.Usage, "Pod p0/a-pod-0 would be created twice"},
	} {
		code, out, errs := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs+out, c.want) {
			t.Errorf("%s: exit code %d, printed %q, said %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

func TestLoadPlanJSON(t *testing.T) {
	code, out, errs := run(t, "load", "plan", "--offline", "--output", "json")
	var doc struct {
		Schema  string
		Objects int
		Kinds   []struct {
			Kind  string
			Count int
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != ui.Done || doc.Schema != "fettle/cluster-load-plan/v1" || doc.Objects != 30 || len(doc.Kinds) != 4 {
		t.Errorf("%d %v %s\n%s", code, err, out, errs)
	}
	sameHeadline(t, "load", "plan", "--offline")
	sameHeadline(t, "load", "status", "--state-dir", t.TempDir())
	code, out, _ = run(t, "load", "status", "--output", "json")
	if !strings.Contains(out, `"runs": []`) || code != ui.Done {
		t.Errorf("%d %s", code, out)
	}
}

// teams are the answers of an API server with two equal namespaces and a different one.
func teams() map[string]any {
	type o = map[string]any
	list := func(items ...any) o { return o{"items": items} }
	meta := func(space, name string) o { return o{"name": name, "namespace": space} }
	var spaces, maps, secrets, deployments, jobs []any
	for _, space := range []string{"shop-blue", "shop-green", "billing"} {
		spaces = append(spaces, o{"metadata": o{"name": space}})
		maps = append(maps, o{"metadata": meta(space, "kube-root-ca.crt"), "data": o{"ca.crt": "x"}})
		for _, name := range []string{"settings", "texts"} {
			maps = append(maps, o{"metadata": meta(space, name), "data": o{"a": strings.Repeat(name, 50)}})
		}
		if space == "billing" {
			jobs = append(jobs, o{"metadata": meta(space, "nightly")})
			continue
		}
		secrets = append(secrets, o{"metadata": meta(space, "login")})
		deployments = append(deployments, o{"metadata": meta(space, "web"), "spec": o{"replicas": 3, "template": o{"spec": o{"containers": []any{o{"name": "web", "resources": o{"requests": o{"cpu": "250m"}}}}}}}})
	}
	none := list()
	all := map[string]any{"/api/v1/namespaces": list(append(spaces, o{"metadata": o{"name": "kube-system"}})...)}
	for _, path := range []string{"/api/v1/serviceaccounts", "/api/v1/services", "/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/apps/v1/replicasets", "/api/v1/replicationcontrollers", "/apis/batch/v1/cronjobs", "/api/v1/pods",
		"/api/v1/persistentvolumeclaims", "/apis/networking.k8s.io/v1/ingresses", "/apis/networking.k8s.io/v1/networkpolicies", "/apis/rbac.authorization.k8s.io/v1/rolebindings", "/apis/autoscaling/v2/horizontalpodautoscalers", "/apis/policy/v1/poddisruptionbudgets"} {
		all[path] = none
	}
	all["/api/v1/configmaps"], all["/api/v1/secrets"], all["/apis/apps/v1/deployments"], all["/apis/batch/v1/jobs"] = list(maps...), list(secrets...), list(deployments...), list(jobs...)
	asked := map[string]any{}
	for path, answer := range all {
		asked[path+"?limit=250"] = answer
	}
	return asked
}

// TestQuotaOfBrake tests the quota that the brake uses if neither etcd nor --etcd-quota states one:
// that of the kind of cluster, also for a run without a check of the maximums and for a resumed
// one.
func TestQuotaOfBrake(t *testing.T) {
	for _, c := range []struct {
		version string // of OpenShift; "" for none
		o       loadOptions
		want    int64
	}{
		{"", loadOptions{}, 2 << 30},
		{"4.17.3", loadOptions{}, 8 << 30},
		{"4.17.3", loadOptions{quota: "4GiB"}, 4 << 30},
		{"4.17.3", loadOptions{noBrake: true}, 0},
		{"4.17.3", loadOptions{quota: "-1"}, -1}, // as etcd's own flag
		{"4.17.3", loadOptions{quota: "-2"}, -1},
		{"4.17.3", loadOptions{quota: "0"}, 2 << 30},
	} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.version == "" || r.URL.Path != "/apis/config.openshift.io/v1/clusterversions/version" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprintf(w, `{"status":{"desired":{"version":%q}}}`, c.version)
		}))
		base, err := url.Parse(h.URL)
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.o.driving()
		if err == nil {
			err = (&app{}).loadEtcd(t.Context(), &c.o, cluster.New(base, http.DefaultTransport), &x)
		}
		h.Close()
		if err != nil || x.QuotaBytes != c.want {
			t.Errorf("OpenShift %q, %+v: %d, want %d: %v", c.version, c.o, x.QuotaBytes, c.want, err)
		}
	}
}

// TestBrakeNotes tests that a load that fits into etcd but would trigger the brake has a note in
// the plan.
func TestBrakeNotes(t *testing.T) {
	of := func(mib int, over bool) *plan.Tally {
		return &plan.Tally{Limits: []plan.Limit{{What: "pods", Value: 90, Maximum: 100}, {What: plan.BytesInEtcd, Value: mib << 20, Maximum: 100 << 20, Over: over}}}
	}
	if got := brakeNotes(of(81, false), false); len(got) != 1 || got[0] != "81 MiB in etcd exceed 80 % of etcd's quota of 100 MiB; at that size the brake ends the run, unless --no-brake is given" {
		t.Errorf("%q", got)
	}
	for _, none := range [][]string{brakeNotes(of(80, false), false), brakeNotes(of(81, false), true), brakeNotes(of(101, true), false)} {
		if none != nil {
			t.Errorf("%q", none)
		}
	}
}

// TestLoadStatusOrder checks that runs that need attention come first, that the figures of the
// headline count all, and that the command deletes the objects of the first run that has some.
func TestLoadStatusOrder(t *testing.T) {
	d := LoadStatus{Runs: []LoadRunStatus{{Run: "1", Phase: "ended", Created: 1200}, {Run: "2", Phase: "undone", Reused: 5}, {Run: "3", Phase: "stopped", Created: 3}, {Run: "4", Phase: "unreadable"}}}
	d.Headline = d.headline("/dir")
	want := map[string]float64{"runs": 4, "unreadable": 1, "stopped": 1, "ended": 1, "undone": 1, "objects": 1203}
	if diff := cmp.Diff(want, d.Headline.Figures); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	a := &app{screen: ui.NewScreen(&out, &out)}
	a.printLoadStatus(&d, &loadOptions{}, false)
	var order []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 6 && f[0] != "run" && !strings.HasSuffix(f[0], ":") && f[1] != "runs:" {
			order = append(order, f[0])
		}
	}
	if diff := cmp.Diff([]string{"4", "3", "1", "2"}, order); diff != "" || !strings.Contains(out.String(), "    kubectl fettle load undo 3\n") {
		t.Errorf("%s\n%s", diff, out.String())
	}
}
