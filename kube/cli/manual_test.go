package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/host"
	testkit "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/pod/admission/node"
)

var update = flag.Bool("update", os.Getenv("FETTLE_UPDATE_GOLDEN") == "1", "write the examples' output in the manual anew")

// worker writes a copy of a node with two sockets, each with four cores of two threads,
// on which a pod has two cores, into a directory.
func worker(t *testing.T, dir string) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("/sys/devices/system/cpu/online", "0-15\n")
	write("/proc/meminfo", "MemTotal: 33554432 kB\n")
	for cpu := range 16 {
		at := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/", cpu)
		write(at+"core_id", fmt.Sprintf("%d\n", cpu%4))
		write(at+"physical_package_id", fmt.Sprintf("%d\n", cpu%8/4))
	}
	for n := range 2 {
		at := fmt.Sprintf("/sys/devices/system/node/node%d/", n)
		write(at+"cpulist", fmt.Sprintf("%d-%d,%d-%d\n", 4*n, 4*n+3, 4*n+8, 4*n+11))
		write(at+"meminfo", fmt.Sprintf("Node %d MemTotal: 16777216 kB\n", n))
		write(at+"hugepages/hugepages-2048kB/nr_hugepages", "64\n")
	}
	write(node.KubeletDir+"/cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-5,8-13","entries":{"uid-1":{"c":"6-7,14-15"}}}`)
	list := func(words ...string) core.ResourceList {
		out := core.ResourceList{}
		for i := 0; i < len(words); i += 2 {
			out[core.ResourceName(words[i])] = resource.MustParse(words[i+1])
		}
		return out
	}
	s := &node.Snapshot{
		From: root, Taken: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Files: host.Mounted(root).Files, KubeletDir: node.KubeletDir,
		Config: []byte(`{"kubeletconfig":{"cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},"reservedSystemCPUs":"0,8","topologyManagerPolicy":"single-numa-node"}}`),
		Node: &core.Node{ObjectMeta: meta.ObjectMeta{Name: "worker-1", Labels: map[string]string{core.LabelHostname: "worker-1"}}, Status: core.NodeStatus{
			NodeInfo:    core.NodeSystemInfo{KubeletVersion: "v1.34.4"},
			Allocatable: list("cpu", "14", "memory", "30Gi", "hugepages-2Mi", "256Mi", "example.com/nic", "2", "pods", "110"),
		}},
		Pods: &core.PodList{Items: []core.Pod{{
			ObjectMeta: meta.ObjectMeta{Namespace: "fast", Name: "quote", UID: "uid-1"},
			Spec:       core.PodSpec{Containers: []core.Container{{Name: "c", Resources: core.ResourceRequirements{Requests: list("cpu", "4", "memory", "8Gi"), Limits: list("cpu", "4", "memory", "8Gi")}}}},
			Status:     core.PodStatus{Phase: core.PodRunning},
		}}},
		Resources: &node.Answer{Allocatable: []node.Devices{{Resource: "example.com/nic", IDs: []string{"eth0", "eth1"}, NUMA: []int{1}}}, Pods: []node.ListedPod{}},
	}
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
}

// TestManual runs the examples of the manual's pages on a cluster: each block that begins with
// "$ kubectl fettle", on a terminal of 100 columns. The cluster is an API server that answers
// with the OpenShift 4.4 guide's pod, some machine sets, a small cluster with three members of
// etcd, or two teams' namespaces; the node is the machine of that pod. A YAML block whose first
// line is "# NAME.yaml" is that file. A command that ends with "\\" continues on the next line,
// which begins with "> ".
func TestManual(t *testing.T) {
	for _, page := range []string{"pods.md", "machine-health.md", "machine-scale.md", "cluster-check.md", "cluster-load.md", "cluster-load-files.md", "cluster-load-generators.md", "cluster-logs.md"} {
		t.Run(page, func(t *testing.T) { runManual(t, page) })
	}
}

// tookTime matches measured times, which differ from run to run.
var tookTime = regexp.MustCompile(`\b\d\.\d\d s\b`)

func answersOf(t *testing.T, page string) map[string]any {
	t.Helper()
	switch page {
	case "machine-health.md", "machine-scale.md":
		answers := machines()
		maps.Copy(answers, fleet())
		return answers
	case "cluster-check.md":
		newEtcd(t)
		stdin(t)
		return checked()
	case "cluster-load.md", "cluster-load-files.md":
		return teams()
	}
	return map[string]any{}
}

func runManual(t *testing.T, name string) {
	page, err := filepath.Abs("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", apiServer(t, answersOf(t, name)))
	t.Setenv("NO_COLOR", "1")
	root := vm(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeFiles(t, string(text))
	worker(t, "worker-1")

	const begin, more = "```text\n$ kubectl fettle ", "\\\n> "
	var out strings.Builder
	examples := 0
	for rest := string(text); ; examples++ {
		before, block, ok := strings.Cut(rest, begin)
		out.WriteString(before)
		if !ok {
			break
		}
		var shown string
		if shown, rest, ok = strings.Cut(block, "```\n"); !ok {
			t.Fatal("a block has no end")
		}
		command, want, _ := strings.Cut(strings.ReplaceAll(shown, more, "\x00"), "\n")
		side, printed := testkit.Screen(t, 100)
		args := strings.Fields(strings.ReplaceAll(command, "\x00", ""))
		if strings.HasPrefix(command, "pod verify") {
			args = append(args, "--root", root) // which an example has as its own
		}
		runUntil(t.Context(), "devel", args, side, side)
		command = strings.ReplaceAll(command, "\x00", more)
		text := tookTime.ReplaceAllString(printed(), "0.12 s")
		fmt.Fprintf(&out, "%s%s\n%s```\n", begin, command, text)
		if diff := cmp.Diff(want, text); diff != "" && !*update {
			t.Errorf("$ kubectl fettle %s (-manual +real):\n%s", command, diff)
		}
	}
	if examples == 0 {
		t.Error("no examples found")
	}
	if *update {
		if err := os.WriteFile(page, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// writeFiles writes the named YAML blocks of a page into the working directory.
func writeFiles(t *testing.T, page string) {
	t.Helper()
	for block := range strings.SplitSeq(page, "```yaml\n# ") {
		name, body, ok := strings.Cut(block, "\n")
		if body, _, end := strings.Cut(body, "```\n"); ok && end && strings.HasSuffix(name, ".yaml") {
			if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestWorkerIsAsRecorded: the copy of the examples has the form of one that record wrote.
func TestWorkerIsAsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "worker-1")
	worker(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, "snapshot.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c node.Contents
	if err := json.Unmarshal(text, &c); err != nil || c.Schema != node.CopySchema || c.Node != "worker-1" {
		t.Errorf("%+v %v", c, err)
	}
}
