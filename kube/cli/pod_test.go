package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/pod/admission/state"
	"fettle.dev/fettle/kube/pod/admission/state/checksum"
)

const bootID = "5c9a1bd2-0000-4000-8000-000000000001"

// vm is the machine of chapter 6 of the OpenShift guide, as a root directory: two CPUs, a static
// CPU manager with CPU 0 reserved, and a pod whose process runs on CPU 1.
func vm(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := &state.CPUManagerCheckpoint{PolicyName: "static", DefaultCPUSet: "0", Entries: map[string]map[string]string{"uid-1": {"cpumanager": "1"}}}
	c.Checksum = checksum.Of(c)
	files := map[string]string{
		"/proc/sys/kernel/random/boot_id": bootID + "\n",
		"/proc/meminfo":                   "MemTotal: 8162900 kB\n",
		"/proc/1/mountinfo":               "24 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"/proc/1/stat":                    "1 (systemd) S 0 1 1 0 -1 4194560 0 0 0 0\n",
		"/proc/1/cgroup":                  "0::/init.scope\n",
		"/proc/1/task/1/status":           "Cpus_allowed_list:\t0-1\n",
		"/proc/32706/stat":                "32706 (pause) S 1 1 1 0 -1 4194560 0 0 0 0\n",
		"/proc/32706/cgroup":              "0::" + podGroup + "\n",
		"/proc/32706/task/32706/status":   "Cpus_allowed_list:\t1\n",
		"/sys/fs/cgroup" + podGroup + "/cpuset.cpus.effective":                   "1\n",
		"/sys/devices/system/cpu/online":                                         "0-1\n",
		"/sys/devices/system/node/node0/cpulist":                                 "0-1\n",
		"/sys/devices/system/node/node0/meminfo":                                 "Node 0 MemTotal: 8162900 kB\n",
		"/sys/devices/system/node/node0/distance":                                "10\n",
		"/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
		"/var/lib/kubelet/cpu_manager_state":                                     fmt.Sprintf(`{"policyName":"static","defaultCpuSet":"0","entries":{"uid-1":{"cpumanager":"1"}},"checksum":%d}`, c.Checksum),
	}
	// One CPU: 39 by the kubelet, 100 by the runtime; 1500m are allocatable.
	for group, weight := range map[string]int{podGroup: 100, path.Dir(podGroup): 39, "/kubepods.slice": 59, "/system.slice": 100, "/init.scope": 100} {
		files["/sys/fs/cgroup"+group+"/cpu.weight"] = fmt.Sprintln(weight)
	}
	for cpu := range 2 {
		at := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/", cpu)
		files[at+"core_id"], files[at+"physical_package_id"] = fmt.Sprintf("%d\n", cpu), "0\n"
	}
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const podGroup = "/kubepods.slice/kubepods-poduid_1.slice/crio-b5437308.scope"

func pinnedPod() core.Pod {
	one := core.ResourceList{core.ResourceCPU: resource.MustParse("1"), core.ResourceMemory: resource.MustParse("1G")}
	return core.Pod{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "cpumanager-6cqz7", UID: "uid-1"},
		Spec:       core.PodSpec{NodeName: "perf-node", Containers: []core.Container{{Name: "cpumanager", Resources: core.ResourceRequirements{Requests: one, Limits: one}}}},
		Status: core.PodStatus{
			Phase: core.PodRunning, QOSClass: core.PodQOSGuaranteed,
			ContainerStatuses: []core.ContainerStatus{{Name: "cpumanager", ContainerID: "cri-o://b5437308", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}},
		},
	}
}

// apiServer starts an API server with two nodes, of which perf-node is the machine, and with its
// pod. It returns a kubeconfig.
func apiServer(t *testing.T, answers map[string]any) string {
	t.Helper()
	node := func(name, boot string) core.Node {
		n := core.Node{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta.ObjectMeta{Name: name}}
		n.Status.Allocatable = core.ResourceList{core.ResourceCPU: resource.MustParse("1500m"), core.ResourceMemory: resource.MustParse("7548500Ki"), core.ResourcePods: resource.MustParse("250")}
		n.Status.NodeInfo = core.NodeSystemInfo{BootID: boot, KubeletVersion: "v1.34.4"}
		return n
	}
	far, pending, ended, unsaid := pinnedPod(), pinnedPod(), pinnedPod(), pinnedPod()
	unsaid.Spec.NodeName = "new"
	far.Spec.NodeName, pending.Spec.NodeName, ended.Status.Phase = "other", "", core.PodSucceeded
	pending.Status.Phase = core.PodPending
	list := core.PodList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []core.Pod{pinnedPod()}}
	paths := map[string]any{
		"/api/v1/nodes":                                        core.NodeList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []core.Node{node("other", "another"), node("perf-node", bootID), node("new", "")}},
		"/api/v1/nodes/perf-node":                              node("perf-node", bootID),
		"/api/v1/nodes/other":                                  node("other", "another"),
		"/api/v1/nodes/new":                                    node("new", ""),
		"/api/v1/namespaces/default/pods/unsaid":               unsaid,
		"/api/v1/nodes/perf-node/proxy/configz":                json.RawMessage(`{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":"restricted","evictionHard":{"memory.available":"0%"}}}`),
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dperf-node": list,
		"/api/v1/namespaces/default/pods/cpumanager-6cqz7":     pinnedPod(),
		"/api/v1/namespaces/default/pods/far":                  far,
		"/api/v1/namespaces/default/pods/pending":              pending,
		"/api/v1/namespaces/default/pods/ended":                ended,
	}
	for path, answer := range answers {
		paths[path] = answer
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if r.URL.RawQuery != "" {
			path += "?" + r.URL.RawQuery
		}
		w.Header().Set("Content-Type", "application/json")
		answer, ok := paths[path]
		if !ok || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			answer = meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: meta.StatusReasonNotFound, Message: r.Method + " " + path + " is not there", Code: 404}
		}
		if status, ok := answer.(meta.Status); ok && status.Code != 404 {
			w.WriteHeader(int(status.Code))
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sameHeadline checks that the first printed lines are the headline of the document.
func sameHeadline(t *testing.T, args ...string) {
	t.Helper()
	_, page, _ := run(t, args...)
	_, text, _ := run(t, append(args, "--output", "json")...)
	var d struct {
		Headline struct{ Lines []string }
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Headline.Lines) == 0 || !strings.HasPrefix(page, strings.Join(d.Headline.Lines, "\n")+"\n") {
		t.Errorf("headline %q, but the page begins:\n%s", d.Headline.Lines, page)
	}
}

func manifest(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

const nextPod = `{apiVersion: v1, kind: Pod, metadata: {name: next}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1G}}}]}}`

// TestPodExplain tests the second pod of chapter 6: no CPU is free for it, and the kubelet would
// reject it, on the node and with a record of the node.
func TestPodExplain(t *testing.T) {
	config, root, file := apiServer(t, nil), vm(t), manifest(t, nextPod)
	code, out, errs := run(t, "--kubeconfig", config, "pod", "explain", file, "--node", "perf-node", "--root", root, "--details")
	for _, want := range []string{"pod next on perf-node: stays Pending, Insufficient cpu", "with spec.nodeName, which bypasses the scheduler: refused, TopologyAffinityError", "Class Guaranteed", "cpu_manager_state: " + root, "containers[c].resources.requests.cpu"} {
		if code != ui.Done || !strings.Contains(out, want) {
			t.Errorf("exit code %d, not printed: %s\n%s%s", code, want, out, errs)
		}
	}
	sameHeadline(t, "--kubeconfig", config, "pod", "explain", file, "--root", root)
	state := filepath.Join(t.TempDir(), "copy")
	if code, out, errs := run(t, "--kubeconfig", config, "pod", "record", state, "--root", root); code != ui.Done || out != "" || !strings.Contains(errs, "node perf-node") {
		t.Fatalf("record: exit code %d: %s%s", code, out, errs)
	}
	// From here on there is no cluster.
	code, out, errs = run(t, "pod", "explain", file, "--state", state, "--output", "json", "--expect", "admitted")
	if code != ui.GateNotMet || !strings.Contains(errs, "the pod would be pending; expected admitted") {
		t.Errorf("exit code %d, said %q", code, errs)
	}
	valid(t, "pod-admission", []byte(out))
	var d struct {
		Node    string
		Verdict struct{ Outcome, Reason string }
		Kubelet struct{ Outcome, Reason string } `json:"kubelet_verdict"`
		Code    int                              `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Node != "perf-node" || d.Verdict.Outcome != "pending" || d.Kubelet.Reason != "TopologyAffinityError" || d.Code != ui.GateNotMet {
		t.Errorf("%+v %v", d, err)
	}
}

func TestPodExplainRefuses(t *testing.T) {
	config, root, file := apiServer(t, nil), vm(t), manifest(t, nextPod)
	stranger, unbooted := vm(t), vm(t)
	for at, id := range map[string]string{stranger: "stranger\n", unbooted: "\n"} {
		if err := os.WriteFile(filepath.Join(at, "/proc/sys/kernel/random/boot_id"), []byte(id), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	two := manifest(t, nextPod+"\n---\n"+strings.Replace(nextPod, "next", "other", 1))
	denied := apiServer(t, map[string]any{"/api/v1/nodes/perf-node/proxy/configz": meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: meta.StatusReasonForbidden, Code: 403, Message: "no"}})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pod", "explain", file + ".gone"}, ui.Usage, "no such file"},
		{[]string{"pod", "explain", manifest(t, "kind: x")}, ui.Usage, "apiVersion"},
		{[]string{"pod", "explain", two, "--root", root}, ui.Usage, "contains Pod/next, Pod/other; choose one with --only"},
		{[]string{"pod", "explain", two, "--root", root, "--only", "Pod/third"}, ui.Usage, "has no Pod/third"},
		{[]string{"pod", "explain", two, "--root", root, "--only", "pod/other"}, ui.Done, "pod other on perf-node"},
		{[]string{"pod", "explain", file, "--expect", "good"}, ui.Usage, `--expect "good": want admitted`},
		{[]string{"pod", "explain", file, "--root", root, "--node", "other"}, ui.Refused, "is not node other, but node perf-node (its boot id is " + bootID + "; node other has another)"},
		{[]string{"pod", "explain", file, "--root", root, "--node", "other"}, ui.Refused, "run this command on node other as root, over ssh or in a pod with hostPID and the node's root file system: kubectl debug node/other, then --root /host; or run kubectl fettle pod record DIR on the node, and pod explain FILE --state DIR on this machine"},
		{[]string{"pod", "explain", file, "--root", root, "--node", "new"}, ui.Failed, " is node new: the Node object has no boot id (status.nodeInfo.bootID)"},
		{[]string{"pod", "explain", file, "--root", stranger}, ui.Refused, "is not a node of this cluster: none of its 3 nodes has the boot id stranger; 1 node has no boot id"},
		{[]string{"pod", "explain", file, "--root", unbooted}, ui.Failed, "boot_id is empty"},
		{[]string{"pod", "explain", file, "--root", root, "--node", "none"}, ui.Usage, `no node is named "none"`},
		{[]string{"pod", "explain", file, "--state", root + "/none"}, ui.Usage, "--state: "},
		{[]string{"pod", "explain", file, "--root", root + "/none"}, ui.Usage, "no such directory"},
		{[]string{"pod", "explain", file, "--root", root, "--state", root}, ui.Usage, "want --state or --root, not both"},
		{[]string{"pod", "explain", file, "--state", root}, ui.Failed, "has no configz.json"},
		{[]string{"pod", "explain", file, "--root", root, "--kubelet-dir", "kubelet"}, ui.Usage, "--kubelet-dir kubelet"},
		{[]string{"pod", "explain", file, "--root", root, "--kubelet-dir", "/else"}, ui.Done, "the node has no file /else/cpu_manager_state"},
		{[]string{"pod", "exlpain"}, ui.Usage, `unknown command "exlpain"`},
		{[]string{"--kubeconfig", denied, "pod", "explain", file, "--root", root}, ui.Failed, "allow this user to get nodes/proxy\n"},
	} {
		code, out, errs := run(t, append([]string{"--kubeconfig", config}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

func TestPodVerify(t *testing.T) {
	config, root := apiServer(t, nil), vm(t)
	code, out, errs := run(t, "--kubeconfig", config, "pod", "verify", "cpumanager-6cqz7", "--root", root, "--details")
	for _, want := range []string{"pod default/cpumanager-6cqz7 on perf-node: has the promised resources: 1 warning", "cpuset.cpus.effective has 1", "cpumanager  32706", "1500m"} {
		if code != ui.Done || !strings.Contains(out, want) {
			t.Errorf("exit code %d, not printed: %s\n%s%s", code, want, out, errs)
		}
	}
	sameHeadline(t, "--kubeconfig", config, "pod", "verify", "cpumanager-6cqz7", "--root", root)
	// The control group and a thread get out.
	for name, text := range map[string]string{"/sys/fs/cgroup" + podGroup + "/cpuset.cpus.effective": "0-1\n", "/proc/32706/task/32706/status": "Cpus_allowed_list:\t0-1\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sameHeadline(t, "--kubeconfig", config, "pod", "verify", "cpumanager-6cqz7", "--root", root)
	code, out, errs = run(t, "--kubeconfig", config, "pod", "verify", "pod/cpumanager-6cqz7", "--root", root, "--output", "json")
	valid(t, "pod-verify", []byte(out))
	var d struct {
		Weights struct {
			Pod struct{ Formula string }
		} `json:"cpu_weights"`
		Result   string
		Checks   []struct{ Check, Result string }
		Messages []any
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, c := range d.Checks {
		if c.Result == "fail" {
			failed++
		}
	}
	if code != ui.GateNotMet || d.Result != "fail" || failed != 2 || d.Weights.Pod.Formula != "linear" || !strings.Contains(errs, "does not have the resources it was promised") {
		t.Errorf("exit code %d, %+v, said %q", code, d, errs)
	}
	for _, c := range []struct {
		pod  string
		code int
		want string
	}{
		{"far", ui.Refused, "pod default/far runs on node other: "},
		{"far", ui.Refused, "is not node other, but node perf-node"},
		{"far", ui.Refused, "run this command on node other as root, over ssh or in a pod with hostPID and the node's root file system: kubectl debug node/other, then --root /host\n"},
		{"unsaid", ui.Failed, " is node new: the Node object has no boot id"},
		{"pending", ui.Refused, "is not on a node yet: Pending"},
		{"ended", ui.Refused, "has ended: Succeeded\n"},
		{"none", ui.Usage, "pod default/none not found"},
	} {
		if code, out, errs := run(t, "--kubeconfig", config, "pod", "verify", c.pod, "--root", root); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.pod, code, c.code, c.want, out, errs)
		}
	}
}
