package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/kube/kubelet"
)

// The tests here kill processes at hundreds of points, for which a real kubelet takes
// too long; test/cluster has those with one. This stand-in is a process of its own that
// does what decides a transaction: it reads its files at its start only, does not start
// with the state of another policy, writes that state anew, answers before it is sure to
// stay, and outlives whoever has started it.

const (
	standInEnv = "FETTLE_TEST_STANDIN" // the directory of its node
	agentEnv   = "FETTLE_TEST_AGENT"   // what the process that is killed is to do
	pointEnv   = "FETTLE_TEST_POINT"   // the number of the point at which it kills itself
	pointsFile = "points"              // where it lists those that it has passed
	config     = "/etc/kubernetes/kubelet.conf"
	configDir  = "/etc/kubernetes/kubelet.conf.d"
	stateFile  = "/var/lib/kubelet/cpu_manager_state"
	stateDir   = "/var/lib/fettle-kubelet"
	// patience is the time limit for waiting for a simulated kubelet or a lock; an idle machine
	// needs only a moment.
	patience = 2 * time.Minute
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(agentEnv) != "":
		agent()
	case os.Getenv(standInEnv) != "":
		if err := standIn(os.Getenv(standInEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// state returns a cpu_manager_state; who marks its writer.
func state(policy, who string) string {
	return fmt.Sprintf(`{"policyName":%q,"defaultCpuSet":"","checksum":1,"who":%q}`, policy, who)
}

// standIn is the process that simulates a kubelet.
func standIn(root string) error {
	names := []string{root + config}
	drop, _ := filepath.Glob(root + configDir + "/*.conf")
	slices.Sort(drop)
	var all kubelet.Fields
	for _, name := range append(names, drop...) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := kubelet.Parse(text)
		if err != nil {
			return err
		}
		all = kubelet.Merge(all, f)
	}
	maps.Copy(all, kubelet.Values(all, kubelet.Names())) // as a kubelet, it says its defaults too
	listener, err := net.Listen("unix", filepath.Join(socketDir(root), strconv.Itoa(os.Getpid())))
	if err != nil {
		return err
	}
	answer := http.NewServeMux()
	answer.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	answer.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(all) })
	go func() { _ = http.Serve(listener, answer) }()
	beat := func(ready bool) error {
		return os.WriteFile(root+"/lease.new", fmt.Appendf(nil, "%s %t", time.Now().Format(time.RFC3339Nano), ready), 0o600)
	}
	_ = beat(false)
	_ = os.Rename(root+"/lease.new", root+"/lease")
	time.Sleep(30 * time.Millisecond) // its managers start when it answers already
	policy, _ := all["cpuManagerPolicy"].(string)
	if policy == "" {
		policy = "none"
	}
	text, err := os.ReadFile(root + stateFile)
	switch {
	case os.IsNotExist(err):
		if err := os.WriteFile(root+stateFile, []byte(state(policy, "kubelet")), 0o600); err != nil {
			return err
		}
	case err != nil:
		return err
	case !strings.Contains(string(text), fmt.Sprintf("%q", policy)):
		return fmt.Errorf("configured policy %q differs from state checkpoint policy in %s", policy, text)
	}
	if reserved, _ := all["systemReserved"].(map[string]any); reserved["memory"] == "900Ti" {
		return fmt.Errorf("invalid Node Allocatable configuration")
	}
	for {
		if err := beat(true); err != nil {
			return err
		}
		if err := os.Rename(root+"/lease.new", root+"/lease"); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// socketDir is short, because the paths of sockets must be.
func socketDir(root string) string {
	name, err := os.ReadFile(root + "/sockets")
	if err != nil {
		panic(err)
	}
	return string(name)
}

// standing is the Kubelet of a node with a simulated kubelet.
type standing struct{ root string }

// free holds the lock on a file that a running simulated kubelet otherwise has; nil while one runs.
// The descriptor is passed on when it starts. /proc does not show this reliably: while a process
// executes another program, and while it ends, it has no environment. So it looked as if it had
// ended while it was starting, or while it still held what the next one needs.
func (s standing) free() (*os.File, error) {
	lock, err := os.OpenFile(s.root+"/lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return lock, nil
	}
	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, err
}

// pids returns its processes: those with its directory in their environment.
func (s standing) pids() []int {
	var out []int
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, text...), []byte("\x00"+standInEnv+"="+s.root+"\x00")) ||
			bytes.Contains(text, []byte(agentEnv+"=")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

func (s standing) Stop(context.Context) error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		lock, err := s.free()
		if err != nil {
			return err
		}
		if lock != nil {
			return lock.Close()
		}
		pids := s.pids()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v do not end", pids)
		}
	}
}

func (s standing) Start(context.Context) error {
	var lock *os.File
	for end := time.Now().Add(patience); lock == nil; time.Sleep(5 * time.Millisecond) {
		var err error
		if lock, err = s.free(); err != nil {
			return err
		}
		if lock != nil {
			break
		}
		if len(s.pids()) > 0 {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("neither does it run nor has it ended")
		}
	}
	defer lock.Close()
	log, err := os.OpenFile(s.root+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(os.Args[0])
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = append(os.Environ(), standInEnv+"="+s.root, agentEnv+"="), log, log, &syscall.SysProcAttr{Setsid: true}
	c.Env = slices.DeleteFunc(c.Env, func(e string) bool { return strings.HasPrefix(e, agentEnv) })
	c.ExtraFiles = []*os.File{lock}
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }()
	return nil
}

func (s standing) get(ctx context.Context, path string) ([]byte, error) {
	pids := s.pids()
	if len(pids) == 0 {
		lock, err := s.free()
		if err != nil {
			return nil, err
		}
		if lock == nil {
			return nil, errors.New("it is about to begin, or to end")
		}
		lock.Close()
		return nil, ErrEnded
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(socketDir(s.root), strconv.Itoa(pids[0])))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kubelet"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Well reports the present state; only Start restarts a simulated kubelet.
func (s standing) Well(ctx context.Context) error { return s.Healthy(ctx) }

func (s standing) Healthy(ctx context.Context) error {
	_, err := s.get(ctx, "/healthz")
	return err
}

func (s standing) Configz(ctx context.Context) (kubelet.Fields, error) {
	text, err := s.get(ctx, "/configz")
	if err != nil {
		return nil, err
	}
	return kubelet.Parse(text)
}

func (s standing) Heartbeat(context.Context) (Heartbeat, error) {
	text, err := os.ReadFile(s.root + "/lease")
	if err != nil {
		return Heartbeat{}, err
	}
	at, ready, _ := strings.Cut(string(text), " ")
	when, err := time.Parse(time.RFC3339Nano, at)
	return Heartbeat{Lease: when, Status: when.Truncate(time.Second), Ready: ready == "true", Why: "its managers start"}, err
}

func (s standing) LastWords(context.Context) string {
	text, _ := os.ReadFile(s.root + "/log")
	return string(text)
}

// newNode returns a node with a running simulated kubelet, with policy none and its state.
func newNode(t testing.TB, more map[string]string) (*Node, standing) {
	t.Helper()
	files := map[string]string{
		"proc/sys/kernel/random/boot_id": "b7d3c6a1-0000-4000-8000-000000000011\n",
		"proc/41/comm":                   "kubelet\n",
		"proc/41/cmdline":                "/usr/bin/kubelet\x00--config=" + config + "\x00--config-dir=" + configDir + "\x00",
		config[1:]:                       "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nkubeReserved: {cpu: 500m}\n",
		configDir[1:] + "/10-own.conf":   "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 100\n",
		stateFile[1:]:                    state("none", "before"),
	}
	maps.Copy(files, more)
	root := t.TempDir()
	sockets, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	files["sockets"] = sockets
	machine.Write(t, root, files)
	k := standing{root}
	t.Cleanup(func() {
		if err := k.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := nodeAt(root)
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		h, _ := k.Heartbeat(t.Context())
		if h.Ready && k.Healthy(t.Context()) == nil {
			return n, k
		}
		if time.Now().After(end) {
			t.Fatalf("the stand-in does not start: %s", k.LastWords(t.Context()))
		}
	}
}

func nodeAt(root string) *Node {
	return &Node{Host: host.Mounted(root), Kubelet: standing{root}, StateDir: root + stateDir, Patience: patience}
}
