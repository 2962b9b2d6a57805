package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPinned: on a real node with static managers of CPUs and of memory, pod explain says
// beforehand, by the rules of the node's own release, which CPUs and whose memory a Guaranteed
// pod gets, pod verify sees afterwards that it has them, a pod for which there are none is
// refused with the reason that was predicted, a copy by pod record says the same as the node,
// and a container that is let onto CPUs of another is found.
func TestPinned(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	c.Kubelet.DropIn("90-static", `{"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "topologyManagerPolicy": "single-numa-node",
"memoryManagerPolicy": "Static", "kubeReserved": {"memory": "400Mi"}, "reservedMemory": [{"numaNode": 0, "limits": {"memory": "400Mi"}}]}`)
	c.must(c.Kubelet.Stop())
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		c.must(os.Remove(filepath.Join(c.Kubelet.Dir, name)))
	}
	c.must(c.Kubelet.Start())
	c.Wait("the node to be Ready with static managers", time.Minute, c.Kubelet.Ready)
	server, err := c.Client.Discovery().ServerVersion()
	c.must(err)

	manifest := wholeManifest(t)
	var before prediction
	c.fettle(t, 0, &before, "pod", "explain", manifest, "--node", "node1", "--expect", "admitted")
	if len(before.Assumed) > 0 {
		t.Errorf("on the node itself something was assumed: %q", before.Assumed)
	}
	if release := server.Major + "." + server.Minor; before.Kubernetes != release || before.Newer != "" {
		t.Errorf("a node of Kubernetes %s, and the rules are those of %q, newer %q", release, before.Kubernetes, before.Newer)
	}
	cpus := before.Courses[0].Containers[0].CPUs
	if cpus == "" || cpus == "0" {
		t.Fatalf("predicted: CPUs %q", cpus)
	}

	pinned := c.pod(t, "pinned", whole)
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		if text := c.kept(t, name); !strings.Contains(text, string(pinned.UID)) {
			t.Errorf("%s has nothing of the pod: %s", name, text)
		}
	}
	shared := c.pod(t, "shared", nil)
	verify := func(p *core.Pod, code int) (v verified) {
		t.Helper()
		c.fettle(t, code, &v, "pod", "verify", p.Name)
		return v
	}
	// The kubelet lets go of the CPUs of others only when it reconciles.
	var v verified
	c.Wait("the CPU manager to have set all CPUs", time.Minute, func(context.Context) error {
		_, code := c.run(t, "pod", "verify", shared.Name)
		if code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	})
	v = verify(pinned, 0)
	if x := v.Containers[0]; v.Result != "pass" || !x.Exclusive || x.CPUs != cpus || x.CgroupCPUs != cpus || len(x.Processes) != 1 || x.Processes[0].CPUs != cpus || x.Processes[0].PID != c.Kubelet.Processes(pinned.UID)[0] {
		t.Errorf("CPUs %s were predicted, and the pod has: %+v", cpus, v)
	}
	if a := ask(t, pinned.Status.PodIP+":8080"); a.AllowedCPUs != cpus {
		t.Errorf("the pod itself says that it may run on %s", a.AllowedCPUs)
	}
	if v := verify(shared, 0); v.Containers[0].Exclusive || strings.Contains(v.Containers[0].CPUs, cpus) {
		t.Errorf("a pod of the shared pool: %+v", v)
	}

	// Where there are no CPUs left, the kubelet refuses as predicted. The pod names the
	// node, so that no scheduler keeps it back.
	var after prediction
	for {
		// On a machine with more CPUs all of them are taken first.
		if c.fettle(t, 0, &after, "pod", "explain", manifest); after.kubelet().Outcome == "refused" {
			break
		}
		c.pod(t, fmt.Sprintf("filler-%d", time.Now().UnixNano()), whole)
	}
	c.fettle(t, 3, &after, "pod", "explain", manifest, "--expect", "admitted")
	c.refused(t, "too-many", after.kubelet().Reason, whole)

	// A copy of the node says the same.
	copied := filepath.Join(t.TempDir(), "copy")
	if out, code := c.run(t, "pod", "record", copied); code != 0 {
		t.Fatalf("record: exit code %d: %s", code, out)
	}
	var elsewhere prediction
	c.fettle(t, 0, &elsewhere, "pod", "explain", manifest, "--state", copied)
	if elsewhere.Verdict != after.Verdict || elsewhere.Node != "node1" || elsewhere.Kubernetes != after.Kubernetes || len(elsewhere.Assumed) > 0 {
		t.Errorf("on the node %+v, from a copy %+v", after, elsewhere)
	}

	// A user lets a container onto the CPUs of the other.
	for _, name := range groupFiles(t, c.Kubelet.Processes(shared.UID)[0]) {
		all, err := os.ReadFile("/sys/devices/system/cpu/online")
		c.must(err)
		c.must(os.WriteFile(name, all, 0))
	}
	v = verify(pinned, 3)
	found := false
	for _, x := range v.Checks {
		found = found || x.Result == "fail" && strings.Contains(x.Says, "container workload of pod default/shared")
	}
	if !found {
		t.Errorf("a container that may run on CPUs of another was not found: %+v", v.Checks)
	}

	// A pod of another node is refused.
	nodes := c.Client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node2"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Patch(t.Context(), "node2", types.MergePatchType, []byte(`{"status": {"nodeInfo": {"bootID": "another"}}}`), meta.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "far"}, Spec: core.PodSpec{NodeName: "node2", Containers: []core.Container{{Name: "c", Image: "any"}}}}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run(t, "pod", "verify", "far"); code != 4 || !strings.Contains(out, "this machine is not node node2") {
		t.Errorf("a pod of another node: exit code %d: %s", code, out)
	}
}

// whole makes a pod Guaranteed, with one whole CPU.
func whole(p *core.Pod) {
	one := core.ResourceList{core.ResourceCPU: resource.MustParse("1"), core.ResourceMemory: resource.MustParse("64Mi")}
	p.Spec.Containers[0].Resources = core.ResourceRequirements{Requests: one, Limits: one}
}

// wholeManifest writes a manifest of such a pod and returns the name of the file.
func wholeManifest(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(name, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: next}, spec: {containers: [{name: workload, image: any, resources: {limits: {cpu: 1, memory: 64Mi}}}]}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// prediction is what is read of pod explain.
type prediction struct {
	Verdict struct{ Outcome, Reason, Message string }
	// Kubelet is what the kubelet would do with a pod that the scheduler keeps back.
	Kubelet *struct{ Outcome, Reason, Message string } `json:"kubelet_verdict"`
	// Kubernetes is the release of the rules, Newer that of a node newer than all that are
	// known.
	Kubernetes string
	Newer      string `json:"newer_kubernetes"`
	Node       string
	Policies   struct {
		CPUManager string `json:"cpu_manager"`
	}
	Assumed []string
	Courses []struct {
		Containers []struct {
			CPUs    string
			Devices []struct {
				Resource string
				Devices  []string
				Certain  bool
			}
		}
	}
}

// verified is what is read of pod verify.
type verified struct {
	Result     string
	Checks     []struct{ Container, Check, Result, Says string }
	Containers []struct {
		Exclusive  bool
		CPUs       string
		CgroupCPUs string `json:"cgroup_cpus"`
		Processes  []struct {
			PID  int
			CPUs string `json:"allowed_cpus"`
		}
	}
	Left struct {
		Free string `json:"free_cpus"`
	}
}

// kubelet is the kubelet's part of the answer, whatever the scheduler does.
func (p *prediction) kubelet() struct{ Outcome, Reason, Message string } {
	if p.Kubelet != nil {
		return *p.Kubelet
	}
	return p.Verdict
}

// refused makes a pod that names the node, so that no scheduler keeps it back, and waits
// until the kubelet has refused it with a reason.
func (c *Cluster) refused(t *testing.T, name, reason string, change func(*core.Pod)) {
	t.Helper()
	none := int64(1)
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.PodSpec{
		NodeName: c.Kubelet.Node, TerminationGracePeriodSeconds: &none,
		Containers: []core.Container{{Name: "workload", Image: Workload, ImagePullPolicy: core.PullNever}},
	}}
	change(p)
	pods := c.Client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), p, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Wait("the kubelet to refuse a pod as predicted: "+reason, time.Minute, func(ctx context.Context) error {
		got, err := pods.Get(ctx, name, meta.GetOptions{})
		if err == nil && (got.Status.Phase != core.PodFailed || got.Status.Reason != reason) {
			err = fmt.Errorf("it is %s, %s: %s", got.Status.Phase, got.Status.Reason, got.Status.Message)
		}
		return err
	})
}

// run runs kubectl fettle and returns all that it says, and the exit code.
func (c *Cluster) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kubectl-fettle", append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// fettle runs kubectl fettle, which is to end with an exit code, and reads its JSON.
func (c *Cluster) fettle(t *testing.T, code int, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kubectl-fettle", append([]string{"--kubeconfig", c.Kubeconfig, "--output", "json"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s: exit code %d, want %d: %v\n%s\n%s", strings.Join(args, " "), got, code, err, errs.String(), out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// groupFiles are the files with the CPUs of a process's control group, in every hierarchy
// that has some.
func groupFiles(t *testing.T, pid int) (files []string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		group := strings.SplitN(strings.TrimSpace(line), ":", 3)[2]
		for _, root := range hierarchies() {
			name := filepath.Join(root, group, "cpuset.cpus")
			if _, err := os.Stat(name); err == nil && group != "/" {
				files = append(files, name)
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("no control group of process %d has CPUs: %s", pid, text)
	}
	return files
}
