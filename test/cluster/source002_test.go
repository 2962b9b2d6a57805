package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// source002 holds the examples of the OpenShift 4.4 guide, chapters 4 and 13, word for word.
const source002 = "kube/tuned/testdata/source002/"

// TestSource002 runs these examples from end to end, on a real node with what `kubectl apply -k
// kube/deploy` runs: the profile of a role, the custom resource for ingress nodes, that of a pod's
// label, and huge pages, which the source's pod then consumes. Each is made by the command of the
// source, and when its label is gone the kernel has what it had.
func TestSource002(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"},
		Files: []string{source002 + "ingress.yaml", source002 + "elasticsearch.yaml", source002 + "hugepages.yaml"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	d := c.deployed(t)
	d.kubectl("apply", "-f", d.dir+"/kinds/plain")
	d.kubectl("apply", "-k", d.dir)
	d.rolledOut()
	d.kubectl("create", "clusterrolebinding", "fettle-operator-pod-labels", "--clusterrole=fettle-operator-pod-labels", "--serviceaccount="+operatorNamespace+":fettle-operator")
	d.kubectl("-n", operatorNamespace, "patch", "deployment", "fettle-operator", "--type=json", "-p", `[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--pod-labels"}]`)
	d.rolledOut()
	d.standing("openshift-node")

	// 4.4: the profiles of roles.
	d.label("node-role.kubernetes.io/infra=")
	d.standing("openshift-control-plane")
	t.Run("ingress", d.ingress)
	t.Run("elasticsearch", d.elasticsearch)
	d.label("node-role.kubernetes.io/infra-")
	d.standing("openshift-node")
	t.Run("huge pages", d.consumed)
	agent := c.agentPod(t, "")
	d.kubectl("delete", "-k", d.dir, "--timeout=3m")
	c.Kubelet.Away(agent.UID, time.Minute)
}

// label gives the node a label, or takes it (KEY-), as `oc label node` does.
func (d *deployed) label(label string) {
	d.Helper()
	d.kubectl("label", "node", "node1", label)
}

// example makes the objects of a file of the source's, and returns what removes them.
func (d *deployed) example(name string) (remove func()) {
	d.Helper()
	file := filepath.Join(FilesDir, name)
	d.kubectl("create", "-f", file)
	return func() {
		d.Helper()
		d.kubectl("delete", "-f", file)
	}
}

// ingress is section 4.6.
func (d *deployed) ingress(t *testing.T) {
	d = &deployed{t, d.c, d.dir}
	keys := []string{"net.ipv4.ip_local_port_range", "net.ipv4.tcp_tw_reuse"}
	values := func() (all string) {
		for _, key := range keys {
			all += strings.Join(strings.Fields(sysctl(t, key)), " ") + "; "
		}
		return all
	}
	before := values()
	remove := d.example("ingress.yaml")
	d.label("tuned.openshift.io/ingress-node-label=")
	n := d.standing("openshift-ingress")
	if got := values(); got != "1024 65535; 1; " || got == before {
		t.Errorf("%v are %s, before %s", keys, got, before)
	}
	for _, v := range n.Values { // those that do not hold
		for _, key := range keys {
			if v.Setting == "sysctl:"+key {
				t.Errorf("%+v", v)
			}
		}
	}
	d.label("tuned.openshift.io/ingress-node-label-")
	d.standing("openshift-control-plane")
	if got := values(); got != before {
		t.Errorf("without the label %v are %s, before %s", keys, got, before)
	}
	remove()
}

// elasticsearch is the example of section 4.5: the label of a pod that runs on a node of
// a role.
func (d *deployed) elasticsearch(t *testing.T) {
	d = &deployed{t, d.c, d.dir}
	remove := d.example("elasticsearch.yaml")
	d.standing("openshift-control-plane")
	p := d.c.pod(t, "es", func(p *core.Pod) { p.Labels = map[string]string{"tuned.openshift.io/elasticsearch": ""} })
	d.standing("openshift-control-plane-es")
	if got := sysctl(t, "vm.max_map_count"); got != "262144" {
		t.Errorf("vm.max_map_count is %s", got)
	}
	d.kubectl("delete", "pod", "es")
	d.c.Kubelet.Away(p.UID, time.Minute)
	d.standing("openshift-control-plane")
	remove()
}

// hugePod is the pod of section 13.2 with another image and command: it writes into all
// its huge pages.
const hugePod = `apiVersion: v1
kind: Pod
metadata:
  generateName: hugepages-volume-
  labels: {consumes: huge-pages}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - securityContext:
      privileged: true
    image: ` + Workload + `
    imagePullPolicy: Never
    args: [-huge=/dev/hugepages, -huge-bytes=104857600]
    name: example
    volumeMounts:
    - mountPath: /dev/hugepages
      name: hugepage
    resources:
      limits:
        hugepages-2Mi: 100Mi
        memory: "1Gi"
        cpu: "1"
  volumes:
  - name: hugepage
    emptyDir:
      medium: HugePages
`

// consumed is chapter 13: huge pages are allocated, the kubelet counts them after its
// restart, the source's pod fills what it asks for, and pod explain and pod verify know
// what is left: a pod that asks for more is refused as predicted.
func (d *deployed) consumed(t *testing.T) {
	d = &deployed{t, d.c, d.dir}
	c := d.c
	const enabled = "/sys/kernel/mm/transparent_hugepage/enabled"
	transparent, err := os.ReadFile(enabled)
	c.must(err)
	had := hugePages(t)["HugePages_Total"]
	remove := d.example("hugepages.yaml")
	d.label("hugepages=true")
	d.standing("node-hugepages")
	now, err := os.ReadFile(enabled)
	c.must(err)
	if got := hugePages(t)["HugePages_Total"]; got != 1024 || !strings.Contains(string(now), "[never]") {
		t.Fatalf("%d huge pages; transparent ones: %s", got, now)
	}
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready again", time.Minute, c.Kubelet.Ready)
	c.Wait("the kubelet to have counted the huge pages", time.Minute, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, "node1", metav1.GetOptions{})
		if q := n.Status.Allocatable["hugepages-2Mi"]; err == nil && q.Value() != 2<<30 {
			err = fmt.Errorf("the node shows %s", &q)
		}
		return err
	})

	file := filepath.Join(t.TempDir(), "pod.yaml")
	c.must(os.WriteFile(file, []byte(hugePod), 0o600))
	var p prediction
	c.fettle(t, 0, &p, "pod", "explain", file, "--expect", "admitted")
	before := hugePages(t)["HugePages_Free"]
	d.kubectl("create", "-f", file)
	var pod core.Pod
	c.Wait("the pod to have filled its huge pages", 2*time.Minute, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "consumes=huge-pages"})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != core.PodRunning {
			return fmt.Errorf("%d pods: %+v", len(pods.Items), pods.Items)
		}
		pod = pods.Items[0]
		if free := hugePages(t)["HugePages_Free"]; before-free != 50 {
			return fmt.Errorf("%d huge pages are free, before %d", free, before)
		}
		return nil
	})
	if a := ask(t, pod.Status.PodIP+":8080"); a.HugeBytes != 100<<20 {
		t.Errorf("the pod says that it has %d bytes of huge pages", a.HugeBytes)
	}
	t.Logf("pod %s has filled 50 huge pages: %d of %d were free, %d are", pod.Name, before, 1024, hugePages(t)["HugePages_Free"])

	var v struct {
		Result string
		Left   struct {
			Resources []struct{ Name, Allocatable, Requested, Left string }
		}
	}
	c.fettle(t, 0, &v, "pod", "verify", pod.Name)
	left := ""
	for _, r := range v.Left.Resources {
		if r.Name == "hugepages-2Mi" {
			left = fmt.Sprintf("%s of %s, %s left", r.Requested, r.Allocatable, r.Left)
		}
	}
	if v.Result != "pass" || left != "100Mi of 2Gi, 1948Mi left" {
		t.Errorf("pod verify: %s, %q", v.Result, left)
	}
	more := strings.NewReplacer("100Mi", "1950Mi", `cpu: "1"`, `cpu: "10m"`, "1Gi", "1Mi").Replace(hugePod)
	c.must(os.WriteFile(file, []byte(more), 0o600))
	c.fettle(t, 3, &p, "pod", "explain", file, "--expect", "admitted")
	if p.Verdict.Outcome != "pending" || p.kubelet().Outcome != "refused" || p.kubelet().Reason != "OutOfhugepages-2Mi" {
		t.Errorf("1950Mi of 1948Mi: %+v", p.Verdict)
	}
	c.refused(t, "more", p.kubelet().Reason, func(p *core.Pod) {
		p.Spec.Containers[0].Resources.Limits = core.ResourceList{"hugepages-2Mi": resource.MustParse("1950Mi"), "memory": resource.MustParse("1Mi"), "cpu": resource.MustParse("10m")}
	})

	d.kubectl("delete", "pod", pod.Name)
	c.Kubelet.Away(pod.UID, time.Minute)
	d.label("hugepages-")
	d.standing("openshift-node")
	now, err = os.ReadFile(enabled)
	c.must(err)
	if got := hugePages(t)["HugePages_Total"]; got != had || string(now) != string(transparent) {
		t.Errorf("without the label: %d huge pages, before %d; transparent ones %s, before %s", got, had, now, transparent)
	}
	remove()
}

// hugePages are the lines of /proc/meminfo about them.
func hugePages(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "HugePages_") {
			if all[name], err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}
