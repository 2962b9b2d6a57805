package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// TestOperatorWithoutTuned tests that a cluster without the kind Tuned is distinguished from one
// that does not answer.
func TestOperatorWithoutTuned(t *testing.T) {
	config := apiServer(t, map[string]any{
		"/api":    json.RawMessage(`{"kind":"APIVersions","versions":["v1"]}`),
		"/api/v1": json.RawMessage(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","namespaced":false,"kind":"Node","verbs":["list","watch"]}]}`),
		"/apis":   json.RawMessage(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`),
	})
	code, out, errs := run(t, "operator", "--kubeconfig", config, "--metrics-address=0", "--health-address=0")
	if code != ui.Refused || !strings.Contains(errs, "the cluster has no Tuned and Profile of tuned.openshift.io/v1") || !strings.Contains(errs, "create them with kubectl apply -f kube/deploy/kinds/plain (not on OpenShift)") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// TestOperatorSize runs the shipped operator with 500 nodes that report fifty images each and 500
// machines, on a simulated API server. It measures the memory at rest, including machine health,
// and the processor time when the labels of all nodes change so that each gets another profile.
func TestOperatorSize(t *testing.T) {
	root.Real(t, "builds and runs the operator")
	operatorSize(t, 500, 60e6, 2)
}

// TestOperatorSizeMany does the same with 5,000 nodes and as many machines.
func TestOperatorSizeMany(t *testing.T) {
	root.Nightly(t, "runs the operator with 5,000 nodes")
	operatorSize(t, 5000, 80e6, 20)
}

// operatorSize takes the maximum memory at rest, in bytes, and the maximum processor time for the
// change, in seconds. Between the two states the operator may use twice that memory.
func operatorSize(t *testing.T, nodes int, mostRSS, mostCPU float64) {
	allowed := nodes / 50 // 2 % unhealthy; one more is
	s := newStandIn(t)
	s.put("tuneds", object("Tuned", "openshift-cluster-node-tuning-operator", "halves", `{"profile":[{"name":"even","data":"[vm]\n"},{"name":"odd","data":"[vm]\n"}],
		"recommend":[{"profile":"even","priority":10,"match":[{"label":"half","value":"even"}]},{"profile":"odd","priority":10,"match":[{"label":"half","value":"odd"}]}]}`, ""))
	s.put("machinehealthchecks", object("MachineHealthCheck", "openshift-machine-api", "all", `{"selector":{},"maxUnhealthy":"2%","unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"}]}`, ""))
	for i := range nodes {
		s.put("nodes", aNode(i, 0, i <= allowed))
		m := object("Machine", "openshift-machine-api", fmt.Sprintf("m-%03d", i), `{"providerSpec":{"value":{"text":"`+strings.Repeat("x", 1500)+`"}}}`, fmt.Sprintf(`{"phase":"Running","nodeRef":{"kind":"Node","name":"node-%03d"}}`, i))
		m["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "set", "uid": "set", "controller": true}}
		s.put("machines", m)
	}

	metrics := fmt.Sprint("127.0.0.1:", root.Port(t))
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`, s.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c := exec.Command(root.Program(t, "./kube/cmd/kubectl-fettle"), "operator", "--kubeconfig="+config, "--leader-elect=false", "--metrics-address="+metrics, "--metrics-open", "--health-address=0")
	c.Stdout, c.Stderr, c.SysProcAttr = &log, &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String()[max(0, log.Len()-4000):])
		}
	})
	wait := func(what string, is func() string) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			why := is()
			if why == "" {
				return
			}
			select {
			case <-ended:
				t.Fatalf("the operator has ended before %s", what)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("waited for %s: %s", what, why)
			}
		}
	}
	right := func(round int) func() string {
		return func() (why string) {
			n := 0
			s.all("profiles", func(o map[string]any) {
				i, err := strconv.Atoi(strings.TrimPrefix(o["metadata"].(map[string]any)["name"].(string), "node-"))
				if got := o["spec"].(map[string]any)["config"].(map[string]any)["tunedProfile"]; err == nil && got == half(i, round) {
					n++
				}
			})
			if n != nodes {
				why = fmt.Sprintf("%d Profiles are right", n)
			}
			return why
		}
	}
	wait("the Profiles", right(0))
	status := func() (out string) {
		s.all("machinehealthchecks", func(o map[string]any) {
			text, _ := json.Marshal(o["status"])
			out = string(text)
		})
		return out
	}
	wait("the check's status", func() string {
		if said := status(); !strings.Contains(said, fmt.Sprintf("2 %% of %d machines is %d; %d are unhealthy: nothing is remediated", nodes, allowed, allowed+1)) {
			return said
		}
		return ""
	})
	rest := func(when string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); of(t, c.Process.Pid, "VmRSS:") > mostRSS && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		}
		t.Logf("memory %s: %.1f MB, of that %.1f MB anonymous; most %.1f MB", when, of(t, c.Process.Pid, "VmRSS:")/1e6, of(t, c.Process.Pid, "RssAnon:")/1e6, of(t, c.Process.Pid, "VmHWM:")/1e6)
		if size := of(t, c.Process.Pid, "VmRSS:"); size == 0 || size > mostRSS {
			t.Errorf("the operator takes %.1f MB %s, more than %.0f MB", size/1e6, when, mostRSS/1e6)
		}
	}
	time.Sleep(12 * time.Second) // it rests when it has done nothing for five
	rest(fmt.Sprintf("at rest with %d nodes and machines", nodes))

	before, writes, began := cpuOf(t, c.Process.Pid), s.wrote("PATCH profiles"), time.Now()
	for i := range nodes {
		s.put("nodes", aNode(i, 1, i <= allowed))
	}
	wait("the Profiles after the change", right(1))
	used := cpuOf(t, c.Process.Pid) - before
	t.Logf("labels of %d nodes changed: all Profiles are right %.2f s later, with %.2f s of processor time and %d writes", nodes, time.Since(began).Seconds(), used, s.wrote("PATCH profiles")-writes)
	if used > mostCPU {
		t.Errorf("%.2f s of processor time, more than %.0f s", used, mostCPU)
	}
	time.Sleep(12 * time.Second)
	rest("at rest after that")
	// The first lists come as streams, so the text of all nodes is never in its memory at once.
	if n := s.wrote("LIST nodes"); n > 0 {
		t.Errorf("nodes were listed %d times", n)
	}
	if most := of(t, c.Process.Pid, "VmHWM:"); most > 2*mostRSS {
		t.Errorf("it took %.1f MB at the most, more than %.0f MB", most/1e6, 2*mostRSS/1e6)
	}
	if n := s.wrote("DELETE machines"); n > 0 {
		t.Errorf("%d machines were deleted, with a check that is closed", n)
	}

	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf(`fettle_operator_nodes{state="decided"} %d`, nodes), `fettle_operator_machine_checks{reason="TooManyUnhealthy"} 1`,
		fmt.Sprintf(`fettle_operator_machines{check="openshift-machine-api/all",state="healthy"} %d`, nodes-allowed-1), `fettle_operator_machine_check_short_circuited{check="openshift-machine-api/all"} 1`,
		`fettle_operator_remediations_started_total 0`,
	} {
		if !strings.Contains(string(got), "\n"+line+"\n") {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// half returns the profile of a node in a round.
func half(i, round int) string { return []string{"even", "odd"}[(i+round)%2] }

// object returns an object with a spec and a status, as JSON.
func object(kind, namespace, name, spec, status string) map[string]any {
	version := map[string]string{"Tuned": "tuned.openshift.io/v1", "Machine": "machine.openshift.io/v1beta1", "MachineHealthCheck": "machine.openshift.io/v1beta1", "Node": "v1"}[kind]
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "creationTimestamp": "2026-03-01T12:00:00Z"}}
	if namespace != "" {
		o["metadata"].(map[string]any)["namespace"] = namespace
	}
	for field, text := range map[string]string{"spec": spec, "status": status} {
		var v map[string]any
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			panic(err)
		}
		o[field] = v
	}
	return o
}

// aNode returns a node as reported by a kubelet.
func aNode(i, round int, unhealthy bool) map[string]any {
	ready := "True"
	if unhealthy {
		ready = "False"
	}
	var images []string
	for j := range 50 {
		images = append(images, fmt.Sprintf(`{"names":["registry.example.com/some/team/image-%d-%d@sha256:%064d","registry.example.com/some/team/image-%d-%d:v1.2.%d"],"sizeBytes":268435456}`, i, j, j, i, j, j))
	}
	var conditions []string
	for kind, is := range map[string]string{"Ready": ready, "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"} {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":%q,"reason":"KubeletSays","message":"what the kubelet says of it","lastHeartbeatTime":"2026-03-01T12:00:00Z","lastTransitionTime":"2026-03-01T12:00:00Z"}`, kind, is))
	}
	n := object("Node", "", fmt.Sprintf("node-%03d", i), fmt.Sprintf(`{"providerID":"aws:///eu-west-1a/i-%017d"}`, i), `{"images":[`+strings.Join(images, ",")+`],"conditions":[`+strings.Join(conditions, ",")+`]}`)
	m := n["metadata"].(map[string]any)
	m["labels"] = map[string]any{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": m["name"], "node-role.kubernetes.io/worker": "", "half": half(i, round)}
	m["uid"] = m["name"]
	return n
}

// of returns a size from a process's status, in bytes (proc(5)).
func of(t *testing.T, pid int, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib * 1024
		}
	}
	return 0
}

// cpuOf returns the processor time of a process, in seconds (proc(5): utime and stime, in
// hundredths).
func cpuOf(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return float64(user+system) / 100
}
