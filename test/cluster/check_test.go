package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// audited is what check says, as much of it as the tests look at.
type audited struct {
	Platforms []string
	Findings  []struct {
		ID, Instance, State, Reason string
		Measured                    any
	}
}

// states are the findings by "ID INSTANCE".
func (a audited) states() map[string]string {
	out := map[string]string{}
	for _, f := range a.Findings {
		out[strings.TrimSpace(f.ID+" "+f.Instance)] = f.State
	}
	return out
}

func (a audited) measured(id string) any {
	for _, f := range a.Findings {
		if strings.TrimSpace(f.ID+" "+f.Instance) == id {
			return f.Measured
		}
	}
	return nil
}

func wantStates(t *testing.T, a audited, want map[string]string) {
	t.Helper()
	got := a.states()
	for id, state := range want {
		if got[id] != state {
			t.Errorf("%s is %q (%v), want %s", id, got[id], a.measured(id), state)
		}
	}
}

// TestCheck: a real API server and its etcd are audited: what is counted over several pages
// is what there is, whoever may read nothing gets nothing passed, and etcd is smaller
// after it was defragmented, while the API server goes on.
func TestCheck(t *testing.T) {
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	for i, pods := range []string{"110", "500"} {
		n := kwokNode(i)
		n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", i)}
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
		n.Status.Capacity[core.ResourcePods] = resource.MustParse(pods)
		_, err := c.Client.CoreV1().Nodes().Create(ctx, n, meta.CreateOptions{})
		c.must(err)
	}
	const many = 1100 // three pages
	pods := c.Client.CoreV1().Pods("default")
	parallel(t, many, func(i int) error {
		none := int64(0)
		_, err := pods.Create(ctx, &core.Pod{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("waits-", i)}, Spec: core.PodSpec{
			TerminationGracePeriodSeconds: &none, NodeSelector: map[string]string{"no": "where"}, Containers: []core.Container{{Name: "c", Image: "i", Args: []string{strings.Repeat("x", 8000)}}},
		}}, meta.CreateOptions{})
		return err
	})
	c.volumes(t)

	const endpoint = "http://127.0.0.1:2379"
	var all audited
	c.fettle(t, 0, &all, "check", "--all", "--etcd-endpoints", endpoint)
	wantStates(t, all, map[string]string{
		"E04 " + endpoint: "pass", "E08 " + endpoint: "pass", "E10 " + endpoint: "pass", "E11 " + endpoint: "pass", "E12 " + endpoint: "pass",
		"O03.node kwok-0000": "pass", "O03.node kwok-0001": "fail", "O65 kwok-0000": "unknown", "O66.objects nodes": "pass",
		"O29.writers default/shared": "fail", "O29.readers default/shared": "not-applicable", "O25.objects": "", "O11.ready": "not-applicable",
	})
	for id, want := range map[string]float64{"O66.objects pods": many, "O66.objects pods_per_namespace": many, "O66.objects nodes": 2} {
		if got := all.measured(id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, meta.ListOptions{})
	c.must(err)
	if got := all.measured("O66.objects namespaces"); got != float64(len(namespaces.Items)) {
		t.Errorf("%v namespaces, and there are %d", got, len(namespaces.Items))
	}

	// A user who may list nothing.
	stranger, err := c.KubeconfigOf("stranger")
	c.must(err)
	mine := c.Kubeconfig
	c.Kubeconfig = stranger
	var nothing audited
	c.fettle(t, 1, &nothing, "check", "--all") // nothing could be determined
	c.Kubeconfig = mine
	for _, f := range nothing.Findings {
		if f.State == "pass" {
			t.Errorf("%s %s has passed: %v", f.ID, f.Instance, f.Measured)
		}
	}
	wantStates(t, nothing, map[string]string{"etcd": "unknown", "O66.objects pods": "unknown", "O03.node": "unknown", "O29.claim": "unknown", "O65": "unknown"})

	c.Wait("the pods to be gone", 5*time.Minute, func(ctx context.Context) error {
		// A busy API server gives up after a minute, with some of them left.
		if err := pods.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
			return err
		}
		l, err := pods.List(ctx, meta.ListOptions{Limit: 1})
		if err == nil && len(l.Items) > 0 {
			err = fmt.Errorf("%d are left", 1+int64(len(l.Items)))
		}
		return err
	})
	var done struct {
		Compacted bool
		Done      []struct {
			Before  int64 `json:"before_bytes"`
			After   int64 `json:"after_bytes"`
			Leader  bool
			Skipped string
		}
	}
	defer c.ticking()()
	c.fettle(t, 0, &done, "check", "--etcd-endpoints", endpoint, "--defragment", "--yes", "--defragment-size", "1MB", "--defragment-share", "20")
	if !done.Compacted || len(done.Done) != 1 || !done.Done[0].Leader || done.Done[0].Skipped != "" || done.Done[0].After > done.Done[0].Before/2 {
		t.Errorf("%+v", done)
	}
	t.Logf("%+v", done)
	c.Wait("the API server to go on", time.Minute, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ConfigMaps("default").Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{GenerateName: "after-"}}, meta.CreateOptions{})
		return err
	})
	c.fettle(t, 0, &all, "check", "--all", "--etcd-endpoints", endpoint)
	wantStates(t, all, map[string]string{"E11 " + endpoint: "pass", "O66.objects pods": "pass"})
	c.must(c.Etcd.Stop())
	if out, code := c.run(t, "check", "--etcd-endpoints", endpoint, "--defragment", "--yes"); code != 4 || !strings.Contains(out, "nothing listens at "+endpoint) {
		t.Errorf("without etcd: exit code %d: %s", code, out)
	}
}

// ticking makes an object anew all the time until it is told to end: a cluster without
// nodes is quieter than any, and etcd counts what is free as it writes.
func (c *Cluster) ticking() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			m := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{GenerateName: "tick-"}}
			_, _ = c.Client.CoreV1().ConfigMaps("default").Create(ctx, m, meta.CreateOptions{})
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// volumes makes a class and a claim that many nodes are to write on block storage.
func (c *Cluster) volumes(t *testing.T) {
	t.Helper()
	class := "ebs"
	_, err := c.Client.StorageV1().StorageClasses().Create(t.Context(), &storage.StorageClass{ObjectMeta: meta.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com"}, meta.CreateOptions{})
	c.must(err)
	_, err = c.Client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &core.PersistentVolumeClaim{
		ObjectMeta: meta.ObjectMeta{Name: "shared"},
		Spec: core.PersistentVolumeClaimSpec{
			AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteMany}, StorageClassName: &class,
			Resources: core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, meta.CreateOptions{})
	c.must(err)
}

// parallel does something many times, a few at once.
func parallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	numbers, failed := make(chan int), make(chan error, n)
	for range 8 {
		go func() {
			for i := range numbers {
				failed <- do(i)
			}
		}()
	}
	go func() {
		defer close(numbers)
		for i := range n {
			numbers <- i
		}
	}()
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestCheckKubelet: what a real kubelet runs with is read through the API server, and held
// against the rules of kubelets.
func TestCheckKubelet(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	var all audited
	c.fettle(t, 0, &all, "check", "--all")
	wantStates(t, all, map[string]string{"O65 node1": "pass", "O64 node1": "not-applicable", "O63 node1": "not-applicable", "O66.objects pods_per_node": "pass"})
	c.Kubelet.DropIn("90-more", `{"maxPods": 3000, "kubeAPIQPS": 5}`)
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready with another configuration", time.Minute, c.Kubelet.Ready)
	c.Wait("the check to see it", time.Minute, func(context.Context) error {
		c.fettle(t, 0, &all, "check", "--all")
		if s := all.states(); s["O65 node1"] != "warn" || s["O61 node1"] != "warn" {
			return fmt.Errorf("O65 is %s, O61 is %s", s["O65 node1"], s["O61 node1"])
		}
		return nil
	})
	c.Kubelet.DropIn("90-more", "")
	c.startsWithSwap(t)
}

// startsWithSwap tests what O62 says: with swap a kubelet starts only if failSwapOn is false.
func (c *Cluster) startsWithSwap(t *testing.T) {
	t.Helper()
	const list = "/proc/swaps"
	swaps := filepath.Join(t.TempDir(), "swaps")
	c.must(os.WriteFile(swaps, []byte("Filename\tType\tSize\tUsed\tPriority\n/swap\tfile\t65536\t0\t-2\n"), 0o600))
	c.must(syscall.Mount(swaps, list, "", syscall.MS_BIND, "")) // no swap of this machine is changed
	t.Cleanup(func() { _ = syscall.Unmount(list, 0) })
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready with swap", time.Minute, c.Kubelet.Ready)
	refused := map[string]string{`{"failSwapOn": true}`: "running with swap on is not supported"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // cgroup v1
		refused[`{"memorySwap": {"swapBehavior": "LimitedSwap"}}`] = "only supported with cgroupv2"
	}
	for fields, want := range refused {
		c.Kubelet.DropIn("90-swap", fields)
		if err := c.Kubelet.Restart(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with swap and %s: %v, want %q", fields, err, want)
		}
	}
	c.Kubelet.DropIn("90-swap", "")
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready with swap again", time.Minute, c.Kubelet.Ready)
}
