package cluster

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet/node"
)

// supervised is the kubelet of the node as systemd runs it with Restart=always: one that
// ends by itself is started again a second later, which is counted from the last
// start by a command on.
type supervised struct {
	harness
	mu       sync.Mutex
	wanted   bool
	restarts int
}

// supervise watches the kubelet, which runs, until the test ends.
func (c *Cluster) supervise(t *testing.T) *supervised {
	s := &supervised{harness: harness{c.Kubelet}, wanted: true}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			s.mu.Lock()
			if s.wanted && !s.k.Running() {
				s.restarts++
				_ = s.harness.Start(ctx) // if it ends again it is started again
			}
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

func (s *supervised) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = false
	return s.harness.Stop(ctx)
}

func (s *supervised) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.restarts = true, 0
	return s.harness.Start(ctx)
}

func (s *supervised) Ended(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restarts > 0 {
		return fmt.Errorf("%w: it was started again (%d times)", node.ErrEnded, s.restarts)
	}
	return s.harness.Ended(ctx)
}

// Steady says nothing of how often it was started again before.
func (s *supervised) Steady(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.harness.Ended(ctx)
}

func (s *supervised) LastWords(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.harness.LastWords(ctx)
}

// asking is a transport that is a function.
type asking func(*http.Request) (*http.Response, error)

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// kill is kill -9 of the kubelet.
func (s *supervised) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.k.Kill()
}

// TestKubeletEnds: kill -9 of a real kubelet, which its supervisor starts again, at each
// step of a change of its settings, while they are verified, and while they are taken
// back. In the end it runs with all of the new settings or all of the former, as the
// report says; the pods have not noticed, and the node is not cordoned.
func TestKubeletEnds(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{Node: true}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	daemon := c.daemon(t, "daemon")
	pids := c.Kubelet.Processes(daemon.UID)
	c.deployment(t, "moved")
	s := c.supervise(t)
	// evict is called before a pod is asked to go; moved says that one was.
	evict, moved := func() {}, false
	config := rest.CopyConfig(c.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return asking(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction") {
				evict()
			}
			return next.RoundTrip(r)
		})
	})
	evicting, err := kubernetes.NewForConfig(config)
	c.must(err)
	v := &node.Visit{
		Node: &node.Node{
			Host: host.Live(), StateDir: node.DefaultStateDir, Patience: 2 * time.Minute,
			Kubelet: &node.RunningKubelet{Service: s, Client: c.Client, Node: c.Kubelet.Node},
		},
		API: &cluster.Node{Client: evicting, Name: c.Kubelet.Node, Patience: 2 * time.Minute, Interval: 500 * time.Millisecond},
	}
	// at kills the kubelet when a point is reached for the nth time, or a while after that.
	// over is called when the change has ended: a kill that has not come by then does not come
	// any more, and would be one of the next change's kubelet.
	over := func() {}
	at := func(point string, nth int, after time.Duration) {
		v.Node.At = func(p string) {
			if p == point {
				nth--
			}
			switch {
			case p != point || nth != 0:
			case after == 0:
				s.kill()
			default:
				killed := make(chan struct{})
				timer := time.AfterFunc(after, func() { s.kill(); close(killed) })
				over = func() {
					if !timer.Stop() {
						<-killed
					}
				}
			}
		}
	}
	has := "110" // maxPods of the kubelet's own
	for i, x := range []struct {
		name   string
		kill   func()
		fields string // besides maxPods
		result string
	}{
		{"before it is stopped", func() { at("stop:before", 1, 0) }, "", node.Done},
		{"when it was started", func() { at("start:after", 1, 0) }, "", node.RolledBack},
		{"while it is verified", func() { at("start:after", 1, 200*time.Millisecond) }, "", ""},
		{"when it was verified", func() { at("verify:after", 1, 0) }, "", node.Done},
		{"when it is kept", func() { at("journal:commit:write", 1, 0) }, "", node.Done},
		{"while pods are moved away", func() { evict = sync.OnceFunc(func() { s.kill(); moved = true }) }, ", topologyManagerPolicy: best-effort", node.Done},
		{"while it is taken back", func() { at("start:after", 2, 0) }, ", systemReserved: {memory: 900Ti}", node.Incomplete},
	} {
		ok := t.Run(x.name, func(t *testing.T) {
			v.Node.At, over, evict = nil, func() {}, func() {}
			s.anew(c)
			x.kill()
			want := fmt.Sprint(60 + i)
			began := time.Now()
			r, err := v.Run(t.Context(), settings(t, "{maxPods: "+want+x.fields+"}"))
			over()
			if err != nil {
				t.Fatal(err)
			}
			v.Node.At = nil
			t.Logf("%s after %.1f s; %s", r.Result, time.Since(began).Seconds(), r.Error)
			if x.result != "" && r.Result != x.result {
				t.Fatalf("%+v, want %s", r, x.result)
			}
			if r.Result == node.Incomplete { // it stays cordoned until the next one comes
				if !c.cordoned(t) {
					t.Error("pods come to a node whose kubelet was not brought into order")
				}
				if r, err = v.Recover(t.Context()); err != nil || r == nil || r.Result != node.RolledBack {
					t.Fatalf("the next one: %+v %v", r, err)
				}
				c.must(v.Uncordon(t.Context()))
			}
			switch r.Result {
			case node.Done:
				has = want
			case node.RolledBack:
			default:
				t.Fatalf("%+v", r)
			}
			c.Wait("the kubelet to run", 3*time.Minute, func(ctx context.Context) error {
				_, err := (&node.RunningKubelet{Service: s, Client: c.Client, Node: c.Kubelet.Node}).Configz(ctx)
				return err
			})
			if got := c.configz(t, "maxPods"); got != has {
				t.Errorf("maxPods is %s, want %s", got, has)
			}
			if c.cordoned(t) {
				t.Error("the node is cordoned")
			}
			c.untouched(t, daemon, pids)
			boot, err := host.Live().BootID()
			c.must(err)
			if j, err := journal.Read(node.DefaultStateDir, boot); err != nil || len(j.Interrupted()) > 0 {
				t.Errorf("the journal is open: %v", err)
			}
		})
		if !ok {
			return
		}
	}

	if !moved {
		t.Error("no pod was asked to go, and the kubelet was not killed meanwhile")
	}

	// And back to what it had.
	s.anew(c)
	if r, err := v.Run(t.Context(), settings(t, "{}")); err != nil || r.Result != node.Done {
		t.Errorf("%+v %v", r, err)
	}
	if got := c.configz(t, "maxPods") + c.configz(t, "topologyManagerPolicy"); got != `110"none"` {
		t.Errorf("back to its own: %s", got)
	}
	if left, _ := filepath.Glob(c.Kubelet.ConfigDir + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	c.untouched(t, daemon, pids)
}

// anew is systemctl restart, by an administrator who has seen that the kubelet had ended: until
// then no other change is begun.
func (s *supervised) anew(c *Cluster) {
	c.t.Helper()
	c.must(s.Stop(context.Background()))
	c.must(s.Start(context.Background()))
	c.Wait("the node to be Ready after the kubelet's restart", 3*time.Minute, s.k.Ready)
}
