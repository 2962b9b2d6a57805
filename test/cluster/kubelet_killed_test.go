package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet/node"
)

// killEnv is the number of the point at which a process of TestKubeletKilled kills
// itself; it is set for that process alone.
const killEnv = "FETTLE_TEST_KILL_AT"

// TestKubeletKilled kills the process that changes a real kubelet from none to static in
// the middle: when it has been stopped, between two files, after it was started, and when
// it was held to what it says. The next one brings the node into order.
func TestKubeletKilled(t *testing.T) {
	if os.Getenv(killEnv) != "" {
		killed(t)
		return
	}
	if !Inside(t, Setup{Node: true, Nightly: true}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	daemon := c.daemon(t, "daemon")
	pids := c.Kubelet.Processes(daemon.UID)
	v := c.theNode()
	want := settings(t, "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}")
	for _, point := range []string{"stop:after", "cpu_manager_state:after", node.DropIn + ":after", "start:after", "verify:after", "journal:commit:write"} {
		t.Run(point, func(t *testing.T) {
			// The process that dies cannot be this one, and cannot have the kubelet for a
			// child: this one starts and stops it for the other, which asks by files.
			orders := t.TempDir()
			serve, done := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() { defer close(served); c.serve(serve, orders) }()
			cmd := exec.Command(os.Args[0], "-test.run=^TestKubeletKilled$")
			cmd.Env = append(os.Environ(), killEnv+"="+point, "FETTLE_TEST_ORDERS="+orders, "KUBECONFIG="+c.Kubeconfig, "FETTLE_TEST_NODE="+c.Kubelet.Node)
			out, err := cmd.CombinedOutput()
			done()
			<-served
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if err == nil || !status.Signaled() {
				t.Fatalf("it was not killed: %v: %s", err, out)
			}
			r, err := v.Node.Recover(t.Context())
			if err != nil || r == nil || !r.Recovered {
				t.Fatalf("%+v %v", r, err)
			}
			t.Logf("%s: %s (%s)", point, r.Result, r.Error)
			finished := slices.Contains([]string{node.DropIn + ":after", "start:after", "verify:after", "journal:commit:write"}, point)
			if finished != (r.Result == node.Done) || !finished && r.Result != node.RolledBack {
				t.Errorf("%+v", r)
			}
			policy := map[bool]string{true: `"static"`, false: `"none"`}[finished]
			if got := c.configz(t, "cpuManagerPolicy"); got != policy {
				t.Errorf("cpuManagerPolicy is %s, want %s", got, policy)
			}
			if err := v.Node.Kubelet.Healthy(t.Context()); err != nil {
				t.Error(err)
			}
			c.untouched(t, daemon, pids)
			if finished { // and back, for the next
				if r, err := v.Run(t.Context(), settings(t, "{}")); err != nil || r.Result != node.Done {
					t.Fatalf("%+v %v", r, err)
				}
			}
			boot, err := host.Live().BootID()
			c.must(err)
			if s, err := journal.Read(node.DefaultStateDir, boot); err != nil || len(s.Interrupted()) > 0 {
				t.Errorf("the journal is open: %v", err)
			}
		})
	}
	if r, err := v.Run(t.Context(), want); err != nil || r.Result != node.Done {
		t.Errorf("%+v %v", r, err)
	}
}

// serve starts and stops the kubelet as files in a directory say, until ctx ends.
func (c *Cluster) serve(ctx context.Context, orders string) {
	h := harness{c.Kubelet}
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		order, err := os.ReadFile(filepath.Join(orders, "order"))
		if err != nil {
			continue
		}
		_ = os.Remove(filepath.Join(orders, "order"))
		do := map[string]func(context.Context) error{"stop": h.Stop, "start": h.Start}[string(order)]
		said := ""
		if err := do(ctx); err != nil {
			said = err.Error()
		}
		_ = os.WriteFile(filepath.Join(orders, "done.new"), []byte(said), 0o600)
		_ = os.Rename(filepath.Join(orders, "done.new"), filepath.Join(orders, "done"))
	}
}

// byOrder is the service of the process that is killed.
type byOrder struct{ dir string }

func (o byOrder) do(what string) error {
	if err := os.WriteFile(filepath.Join(o.dir, "order.new"), []byte(what), 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(o.dir, "order.new"), filepath.Join(o.dir, "order")); err != nil {
		return err
	}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		said, err := os.ReadFile(filepath.Join(o.dir, "done"))
		if err != nil {
			continue
		}
		_ = os.Remove(filepath.Join(o.dir, "done"))
		if len(said) > 0 {
			return fmt.Errorf("%s: %s", what, said)
		}
		return nil
	}
	return fmt.Errorf("nobody does %s", what)
}

func (o byOrder) Stop(context.Context) error  { return o.do("stop") }
func (o byOrder) Start(context.Context) error { return o.do("start") }

func (byOrder) Ended(context.Context) error {
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range all {
		if comm, err := os.ReadFile(name); err == nil && string(comm) == "kubelet\n" {
			return nil
		}
	}
	return node.ErrEnded
}

func (o byOrder) Steady(ctx context.Context) error { return o.Ended(ctx) }

func (byOrder) LastWords(context.Context) string { return "" }

// killed is the process that changes the kubelet and kills itself.
func killed(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Node{
		Host: host.Live(), StateDir: node.DefaultStateDir,
		Kubelet: &node.RunningKubelet{Service: byOrder{os.Getenv("FETTLE_TEST_ORDERS")}, Client: client, Node: os.Getenv("FETTLE_TEST_NODE")},
		At: func(point string) {
			if strings.HasSuffix(point, os.Getenv(killEnv)) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		},
	}
	v := &node.Visit{Node: n, API: &cluster.Node{Client: client, Name: n.Kubelet.(*node.RunningKubelet).Node, Patience: 2 * time.Minute, Interval: 500 * time.Millisecond}}
	r, err := v.Run(t.Context(), settings(t, "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}"))
	t.Fatalf("it was not killed: %+v %v", r, err)
}
