package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestControlPlane: a cluster without a node answers, keeps what it is given, says a
// version that can be read, and comes back with all of it after its API server was
// stopped.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	v, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := version.ParseSemantic(v.GitVersion); err != nil || parsed.Major() != 1 || v.Major != "1" || v.Minor != fmt.Sprint(parsed.Minor()) {
		t.Errorf("version %+v: %v", v, err)
	}

	maps := c.Client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "one"}, Data: map[string]string{"key": "value"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	listed := func() {
		t.Helper()
		list, err := maps.List(ctx, meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(m core.ConfigMap) bool { return m.Name == "one" })
		if i < 0 || list.Items[i].Data["key"] != "value" {
			t.Errorf("listed: %v", list.Items)
		}
	}
	listed()
	c.must(c.APIServer.Stop())
	if err := c.apiReady(); err == nil {
		t.Error("the API answers, and its server is stopped")
	}
	c.must(c.APIServer.Start())
	listed()

	// Who has no rights is known, and refused.
	name, err := c.KubeconfigOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", name)
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.CoreV1().ConfigMaps("default").List(ctx, meta.ListOptions{}); err == nil || !strings.Contains(err.Error(), `User "nobody" cannot list`) {
		t.Errorf("a user without rights is told: %v", err)
	}
}

// TestNode: a real kubelet runs pods on the node's network and on one of their own, is
// started anew with another configuration while they run, and refuses to start with one
// that is wrong. That the machine is as before when it is gone, Inside has looked after.
func TestNode(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{Node: "node1"})
	for _, s := range kubeletOwns {
		key, want, _ := strings.Cut(s, "=")
		got, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(key, ".", "/"))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s under a kubelet: %q %v, want %s", key, got, err, want)
		}
	}

	onNode := c.pod(t, "on-node", func(p *core.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Args = []string{"-listen=" + nodeAddress + ":8081"}
	})
	ofItsOwn := c.pod(t, "of-its-own", nil)
	if onNode.Status.PodIP != nodeAddress || ofItsOwn.Status.PodIP == nodeAddress {
		t.Errorf("addresses of the pods: %s, %s", onNode.Status.PodIP, ofItsOwn.Status.PodIP)
	}
	if host := ask(t, nodeAddress+":8081").Host; host == "of-its-own" {
		t.Errorf("on the node's network answers %s", host)
	}
	if a := ask(t, ofItsOwn.Status.PodIP+":8080"); a.Host != "of-its-own" || a.AllowedCPUs == "" {
		t.Errorf("at the address of the pod answers %+v", a)
	}
	var before []int
	for _, p := range []*core.Pod{onNode, ofItsOwn} {
		pids := c.Kubelet.Processes(p.UID)
		if len(pids) != 1 {
			t.Fatalf("processes of pod %s: %v", p.Name, pids)
		}
		before = append(before, pids...)
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pids[0])); err != nil || string(name) != "workload\n" {
			t.Errorf("the process of pod %s: %q %v", p.Name, name, err)
		}
	}

	c.Kubelet.DropIn("90-test", `{"maxPods": 50, "podsPerCore": 10, "kubeAPIQPS": 60, "kubeAPIBurst": 120}`)
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready again", time.Minute, c.Kubelet.Ready)
	z, err := c.Kubelet.Configz(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if z.MaxPods != 50 || z.PodsPerCore != 10 || z.KubeAPIQPS == nil || *z.KubeAPIQPS != 60 || z.KubeAPIBurst != 120 {
		t.Errorf("configz after the drop-in: maxPods %d, podsPerCore %d, kubeAPIQPS %v, kubeAPIBurst %d", z.MaxPods, z.PodsPerCore, z.KubeAPIQPS, z.KubeAPIBurst)
	}
	after := append(c.Kubelet.Processes(onNode.UID), c.Kubelet.Processes(ofItsOwn.UID)...)
	if !slices.Equal(before, after) {
		t.Errorf("processes of the pods before the kubelet's restart: %v, after it: %v", before, after)
	}

	// What stops a kubelet from starting is an error with its reason.
	c.Kubelet.DropIn("91-wrong", `{"maxPods": "many"}`)
	if err := c.Kubelet.Restart(); err == nil || !strings.Contains(err.Error(), "maxPods") {
		t.Errorf("a kubelet with a drop-in that is wrong: %v", err)
	}
	c.Kubelet.DropIn("91-wrong", "")
	c.must(c.Kubelet.Start())
	c.Wait("the node to be Ready once more", time.Minute, c.Kubelet.Ready)

	// A pod that is deleted ends; the other one is left to the end of the root.
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, ofItsOwn.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Kubelet.Away(ofItsOwn.UID, time.Minute)
}

// TestKwok: many nodes are Ready, each as the test wants it, and take pods.
func TestKwok(t *testing.T) {
	if !Inside(t, Setup{Nightly: true}) {
		return
	}
	ctx := t.Context()
	const count = 50
	c := Start(t, Options{Kwok: count, KwokNode: func(i int, n *core.Node) {
		n.Labels["zone"] = fmt.Sprint("zone", i%3)
		n.Status.Capacity[core.ResourcePods] = resource.MustParse("7")
	}})
	zones := map[string]int{}
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if err := ready(n); err != nil {
			t.Error(err)
		}
		if has := n.Status.Capacity[core.ResourcePods]; has.Value() != 7 {
			t.Errorf("node %s takes %s pods", n.Name, &has)
		}
		zones[n.Labels["zone"]]++
	}
	if len(nodes.Items) != count || zones["zone0"] != 17 || zones["zone1"] != 17 || zones["zone2"] != 16 {
		t.Errorf("%d nodes, by zone: %v", len(nodes.Items), zones)
	}
	p := c.pod(t, "nowhere", func(p *core.Pod) {
		p.Spec.NodeSelector = map[string]string{"zone": "zone2"}
		p.Spec.Tolerations = []core.Toleration{KwokTolerates}
	})
	if !strings.HasPrefix(p.Spec.NodeName, "kwok-") {
		t.Errorf("the pod is on node %q", p.Spec.NodeName)
	}
}

// pod makes a pod of the workload and waits until it is Running.
func (c *Cluster) pod(t *testing.T, name string, change func(*core.Pod)) *core.Pod {
	t.Helper()
	none := int64(1)
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.PodSpec{
		TerminationGracePeriodSeconds: &none,
		Containers:                    []core.Container{{Name: "workload", Image: Workload, ImagePullPolicy: core.PullNever}},
	}}
	if change != nil {
		change(p)
	}
	pods := c.Client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), p, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.Wait("pod "+name+" to be Running", 2*time.Minute, func(ctx context.Context) error {
		var err error
		if p, err = pods.Get(ctx, name, meta.GetOptions{}); err != nil {
			return err
		}
		if p.Status.Phase != core.PodRunning {
			state, _ := json.Marshal(p.Status)
			return fmt.Errorf("%s", state)
		}
		return nil
	})
	t.Logf("pod %s runs on %s after %.1f s", name, p.Spec.NodeName, time.Since(began).Seconds())
	return p
}

// ask gets the answer of the workload at an address.
func ask(t *testing.T, address string) (answer struct {
	Host        string
	AllowedCPUs string `json:"allowed_cpus"`
	HugeBytes   int64  `json:"huge_bytes"`
}) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return answer
}
