package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loader runs kubectl fettle load against a cluster, with a state directory of its own.
type loader struct {
	t     *testing.T
	c     *Cluster
	state string
	dir   string // the working directory
}

func newLoader(t *testing.T, c *Cluster) *loader {
	return &loader{t, c, filepath.Join(t.TempDir(), "runs"), t.TempDir()}
}

func (l *loader) write(name, text string) string {
	l.t.Helper()
	name = filepath.Join(l.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name
}

func (l *loader) command(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	if args[0] == "run" || args[0] == "resume" {
		// A busy machine does not meet Kubernetes' own objectives.
		args = append(args, "--slo=errors < 1%")
		// Nor does it keep a cluster well, which the brake would see.
		if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--etcd-quota") }) {
			args = append(args, "--no-brake")
		}
	}
	cmd := exec.Command("kubectl-fettle", append([]string{"load", "--kubeconfig=" + l.c.Kubeconfig, "--state-dir=" + l.state, "--output=json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, &out, &errs
	return cmd, &out, &errs
}

// result is what of the documents these tests ask for.
type result struct {
	Run, State string
	Objects    json.RawMessage
	Removed    int
	RatePerS   float64 `json:"rate_per_s"`
	NotReady   int     `json:"not_ready"`
	Late       int
	Retried    int
	Widest     int   `json:"in_flight"`
	EtcdBytes  int64 `json:"etcd_bytes"`
	Kept       []struct{ Object, Why string }
	Servers    struct {
		GrownBytes int64 `json:"database_grown_bytes"`
		Members    []struct {
			DatabaseBytes int64 `json:"database_bytes"`
			QuotaBytes    int64 `json:"quota_bytes"`
		} `json:"etcd_members"`
		Calls []struct {
			Verb, Resource string
			N              int
		}
	}
	ExitCode int `json:"exit_code"`
	Pods     int
	Missing  []struct{ Kind string }
	Actions  struct {
		Planned, Patched, Deleted, Read, Failed, Skipped int
		Before                                           int `json:"done_before"`
		Others                                           []string
	}
	Gates []struct {
		Gate         string
		Met, Unknown bool
	}
	Times struct {
		WholeSeconds struct {
			Scheduled, Ready int
		} `json:"whole_seconds"`
		Scheduled, Ready struct {
			N    int
			MaxS float64 `json:"max_s"`
		}
		Create struct {
			N    int
			MaxS float64 `json:"max_s"`
		}
	}
	planned, before, created, adopted, reused, unmakeable int
}

// run runs it to its end and expects an exit code.
func (l *loader) run(want int, args ...string) (x result, said string) {
	l.t.Helper()
	cmd, out, errs := l.command(args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		l.t.Fatalf("load %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), got, want, out, errs)
	}
	if out.Len() > 0 {
		x = l.parse(out.Bytes())
	}
	return x, errs.String()
}

// resume ends a run that was cut off. It measures only what comes after that, which may be
// too little to tell whether a gate is met.
func (l *loader) resume() (x result, said string) {
	l.t.Helper()
	cmd, out, errs := l.command("resume")
	err := cmd.Run()
	if err != nil && (cmd.ProcessState.ExitCode() != 3 || !strings.Contains(errs.String(), ": cannot tell from ")) {
		l.t.Fatalf("load resume: %v\n%s\n%s", err, out, errs)
	}
	return l.parse(out.Bytes()), errs.String()
}

// parse reads a document.
func (l *loader) parse(text []byte) (x result) {
	l.t.Helper()
	if err := json.Unmarshal(text, &x); err != nil {
		l.t.Fatalf("%v\n%s", err, text)
	}
	var o struct {
		Planned, Created, Adopted, Reused, Failed int
		MadeBefore                                int `json:"made_before"`
	}
	if json.Unmarshal(x.Objects, &o) == nil {
		x.planned, x.before, x.created, x.adopted, x.reused, x.unmakeable = o.Planned, o.MadeBefore, o.Created, o.Adopted, o.Reused, o.Failed
	}
	return x
}

// kill runs it and kills it after a while; false if it has ended before.
func (l *loader) kill(after time.Duration, args ...string) bool {
	l.t.Helper()
	cmd, out, errs := l.command(args...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() && cmd.ProcessState.ExitCode() != 0 {
		l.t.Fatalf("load %s: exit code %d\n%s\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out, errs)
	}
	return status.Signaled()
}

// world is every object of some kinds, with its uid: what a load may have changed.
func (c *Cluster) world(ctx context.Context) map[string]string {
	c.t.Helper()
	all := map[string]string{}
	add := func(kind string, m *meta.ObjectMeta) {
		if m.Name != "kube-root-ca.crt" { // which a controller puts into each namespace, sooner or later
			all[kind+" "+m.Namespace+"/"+m.Name] = string(m.UID)
		}
	}
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	o := meta.ListOptions{}
	spaces, err := c.Client.CoreV1().Namespaces().List(ctx, o)
	must(err)
	for i := range spaces.Items {
		add("Namespace", &spaces.Items[i].ObjectMeta)
	}
	maps, err := c.Client.CoreV1().ConfigMaps("").List(ctx, o)
	must(err)
	for i := range maps.Items {
		add("ConfigMap", &maps.Items[i].ObjectMeta)
	}
	secrets, err := c.Client.CoreV1().Secrets("").List(ctx, o)
	must(err)
	for i := range secrets.Items {
		add("Secret", &secrets.Items[i].ObjectMeta)
	}
	services, err := c.Client.CoreV1().Services("").List(ctx, o)
	must(err)
	for i := range services.Items {
		add("Service", &services.Items[i].ObjectMeta)
	}
	pods, err := c.Client.CoreV1().Pods("").List(ctx, o)
	must(err)
	for i := range pods.Items {
		add("Pod", &pods.Items[i].ObjectMeta)
	}
	deployments, err := c.Client.AppsV1().Deployments("").List(ctx, o)
	must(err)
	for i := range deployments.Items {
		add("Deployment", &deployments.Items[i].ObjectMeta)
	}
	sets, err := c.Client.AppsV1().ReplicaSets("").List(ctx, o)
	must(err)
	for i := range sets.Items {
		add("ReplicaSet", &sets.Items[i].ObjectMeta)
	}
	return all
}

// runs is how many runs have a journal.
func (l *loader) runs() int {
	l.t.Helper()
	all, _ := filepath.Glob(filepath.Join(l.state, "*", "journal"))
	n := 0
	for _, name := range all {
		if st, err := os.Stat(name); err == nil && st.Size() > 0 {
			n++
		}
	}
	return n
}
