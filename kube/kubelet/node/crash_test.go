package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/kube/kubelet"
)

// agent is the process that is killed. It does what agentEnv requests and lists the points that it
// passes; the last one is where it is killed.
func agent() {
	root := os.Getenv(standInEnv)
	n := nodeAt(root)
	die, _ := strconv.Atoi(os.Getenv(pointEnv))
	points, err := os.OpenFile(root+"/"+pointsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	count := 0
	n.At = func(point string) {
		count++
		fmt.Fprintln(points, point)
		if count == die {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	f, err := kubelet.Parse([]byte(os.Getenv(agentEnv)))
	if err != nil {
		panic(err)
	}
	w, err := kubelet.WantOf([]kubelet.Config{{Name: "test", Fields: f}})
	if err != nil {
		panic(err)
	}
	r, err := n.Apply(context.Background(), w, 10, true)
	for end := time.Now().Add(patience); errors.Is(err, journal.ErrBusy) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r, err = n.Apply(context.Background(), w, 10, true) // a child of the test that was about to be another program has the lock a moment longer
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(r.Result)
}

// apply runs an agent that kills itself at a point; 0 for none. With a time, it is killed after
// that time.
func apply(t *testing.T, root, text string, point int, after time.Duration) (killed bool, said string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), standInEnv+"="+root, agentEnv+"="+text, pointEnv+"="+strconv.Itoa(point))
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		time.AfterFunc(after, func() { _ = c.Process.Kill() })
	}
	err := c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !status.Signaled() {
		t.Fatalf("the agent: %v: %s", err, out.String())
	}
	return status.Signaled(), strings.TrimSpace(out.String())
}

// course is a change that is killed at every point.
type course struct {
	name, before, text, result string
	// then is the state of the CPU manager where the change holds; else it is as before.
	policy string
}

var courses = []course{
	{"to static", "", "cpuManagerPolicy: static", Done, "static"},
	{"does not start", "", "{cpuManagerPolicy: static, systemReserved: {memory: 900Ti}}", RolledBack, "none"},
	{"back to its own", "cpuManagerPolicy: static", "{}", Done, "none"},
}

// TestKilledEverywhere kills the agent at each point of a change, including records of the journal
// and writes of files. The next agent can always recover the node: it has all of the new settings
// or all of the former, and its kubelet runs.
func TestKilledEverywhere(t *testing.T) {
	for _, c := range courses {
		t.Run(c.name, func(t *testing.T) {
			n, k := prepared(t, c)
			if _, said := apply(t, k.root, c.text, 0, 0); said != c.result {
				t.Fatalf("without a death: %s; %s", said, k.LastWords(t.Context()))
			}
			held(t, n, c.digest(t, c.result), nil)
			list, err := os.ReadFile(k.root + "/" + pointsFile)
			if err != nil {
				t.Fatal(err)
			}
			points := strings.Split(strings.TrimSpace(string(list)), "\n")
			if len(points) < 15 {
				t.Fatalf("only %d points: %v", len(points), points)
			}
			step := 6 // a sample; the slow matrix takes all
			switch {
			case testing.Short():
				step = 12
			case os.Getenv("FETTLE_TEST_NIGHTLY") == "1":
				step = 1
			}
			t.Run("points", func(t *testing.T) {
				for i := 1; i <= len(points); i += step {
					t.Run(fmt.Sprint(i, " ", strings.ReplaceAll(points[i-1], "/", "_")), func(t *testing.T) {
						t.Parallel()
						n, k := prepared(t, c)
						if killed, said := apply(t, k.root, c.text, i, 0); !killed {
							t.Fatalf("the agent was not killed: %s", said)
						}
						if i%2 == 0 {
							c.guarded(t, k)
						}
						c.recovered(t, n)
					})
				}
			})
			t.Run("times", func(t *testing.T) {
				r := rand.New(rand.NewPCG(11, 11))
				for i := range 12 / step {
					after := time.Duration(1+r.IntN(400)) * time.Millisecond
					t.Run(fmt.Sprint(i, " ", after), func(t *testing.T) {
						t.Parallel()
						n, k := prepared(t, c)
						apply(t, k.root, c.text, 0, after)
						c.recovered(t, n)
					})
				}
			})
		})
	}
}

// prepared returns a node before the change.
func prepared(t *testing.T, c course) (*Node, standing) {
	t.Helper()
	n, k := newNode(t, nil)
	if c.before != "" {
		if r, err := n.Apply(t.Context(), wanted(t, c.before), 10, true); err != nil || r.Result != Done {
			t.Fatalf("%+v %v", r, err)
		}
		// The kubelet has gone on writing its state.
		if err := os.WriteFile(k.root+stateFile, []byte(state("static", "before")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return n, k
}

func (c course) digest(t *testing.T, result string) string {
	if result == Done {
		return wanted(t, c.text).Digest
	}
	return wanted(t, cmp.Or(c.before, "{}")).Digest
}

// guarded starts the kubelet as the service manager does without the agent: it starts with any
// written files, unless the requested settings themselves prevent it.
func (c course) guarded(t *testing.T, k standing) {
	t.Helper()
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		h, _ := k.Heartbeat(t.Context())
		if err := k.Healthy(t.Context()); errors.Is(err, ErrEnded) || err == nil && h.Ready {
			if err != nil && c.result == Done {
				t.Errorf("by itself it does not start: %s", k.LastWords(t.Context()))
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("neither healthy nor ended")
		}
	}
}

// recovered runs the next agent and checks its result.
func (c course) recovered(t *testing.T, n *Node) {
	t.Helper()
	r, err := n.Recover(t.Context())
	for end := time.Now().Add(patience); errors.Is(err, journal.ErrBusy) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r, err = n.Recover(t.Context()) // a child that was about to be another program has the lock a moment longer
	}
	if err != nil {
		t.Fatal(err)
	}
	has, err := n.Has()
	if err != nil {
		t.Fatal(err)
	}
	former, after := c.digest(t, RolledBack), c.digest(t, c.result)
	if has != former && has != after {
		t.Errorf("the node has %q, want %q or %q", has, former, after)
	}
	if r != nil && (!r.Recovered || r.Has != has || r.Result != Done && r.Result != RolledBack) {
		t.Errorf("what was recovered: %+v, and the node has %q", r, has)
	}
	policy := c.policy
	if has == former {
		policy = "none"
		if c.before != "" {
			policy = "static"
		}
		// The state is that of before, byte by byte.
		if got := stateText(t, n); got != state(policy, "before") {
			t.Errorf("the state: %s", got)
		}
	}
	held(t, n, has, kubelet.Fields{"cpuManagerPolicy": policy})
	// And the change can be made now.
	r, err = n.Apply(t.Context(), wanted(t, c.text), 10, true)
	if err != nil || r.Result != c.result && r.Result != Unchanged {
		t.Errorf("once more: %+v %v", r, err)
	}
	held(t, n, after, nil)
}

// TestStandIn tests that a simulated kubelet that is starting or ending does not count as ended,
// and that no process continues before it has ended.
func TestStandIn(t *testing.T) {
	k := standing{t.TempDir()}
	lock, err := k.free() // as a process that is not to be seen in /proc
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	if err := k.Healthy(t.Context()); err == nil || errors.Is(err, ErrEnded) {
		t.Errorf("about to begin: %v", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- k.Stop(t.Context()) }()
	select {
	case err := <-stopped:
		t.Errorf("it was said to have been stopped: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	lock.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := k.Healthy(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("none: %v", err)
	}
}
