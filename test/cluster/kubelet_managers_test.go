package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/kubelet/node"
)

// TestKubeletManagers: a real kubelet takes all of its managers at once - CPUs with
// options, memory, topology with a scope, reserved CPUs, pods per core -, admits by them,
// and is as it was afterwards.
func TestKubeletManagers(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	v := c.theNode()
	daemon := c.daemon(t, "daemon")
	pids := c.Kubelet.Processes(daemon.UID)

	// The kubelet would end with it: of this node nothing is kept by eviction.
	wrong := `{memoryManagerPolicy: Static, kubeReserved: {memory: 400Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 500Mi}}]}`
	if r, err := v.Run(t.Context(), settings(t, wrong)); err == nil || !strings.Contains(err.Error(), "reservedMemory") {
		t.Errorf("more memory by node than is reserved: %+v %v", r, err)
	}
	c.untouched(t, daemon, pids)

	all := `{podsPerCore: 20, cpuManagerPolicy: static, cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}, reservedSystemCPUs: "0",
topologyManagerPolicy: single-numa-node, topologyManagerScope: pod, memoryManagerPolicy: Static, kubeReserved: {memory: 400Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 400Mi}}]}`
	c.apply(t, v, all, node.Done)
	for name, want := range map[string]string{
		"podsPerCore": "20", "cpuManagerPolicy": `"static"`, "cpuManagerPolicyOptions": `{"strict-cpu-reservation":"true"}`, "reservedSystemCPUs": `"0"`,
		"topologyManagerPolicy": `"single-numa-node"`, "topologyManagerScope": `"pod"`, "memoryManagerPolicy": `"Static"`,
	} {
		if got := c.configz(t, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if text := c.kept(t, "memory_manager_state"); !strings.Contains(text, `"policyName":"Static"`) {
		t.Errorf("memory_manager_state: %s", text)
	}
	c.untouched(t, daemon, pids)

	pod := func(name, cpus string) *core.Pod {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: template(name).Spec}
		p.Spec.NodeName = c.Kubelet.Node // no scheduler between: the kubelet decides
		list := core.ResourceList{core.ResourceCPU: resource.MustParse(cpus), core.ResourceMemory: resource.MustParse("64Mi")}
		p.Spec.Containers[0].Resources = core.ResourceRequirements{Requests: list, Limits: list}
		p, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, meta.CreateOptions{})
		c.must(err)
		c.Wait("the pod "+name+" to be decided", time.Minute, func(ctx context.Context) error {
			if p, err = c.Client.CoreV1().Pods("default").Get(ctx, name, meta.GetOptions{}); err == nil && p.Status.Phase == core.PodPending {
				err = errors.New("it is pending")
			}
			return err
		})
		return p
	}
	pinned := pod("pinned", "1")
	if pinned.Status.Phase != core.PodRunning {
		t.Fatalf("%+v", pinned.Status)
	}
	if got := ask(t, pinned.Status.PodIP+":8080").AllowedCPUs; got == "0" || got == "" || strings.ContainsAny(got, ",-") {
		t.Errorf("the pod may run on %q: it wants one CPU, and 0 is reserved", got)
	}
	if text := c.kept(t, "memory_manager_state"); !strings.Contains(text, string(pinned.UID)) {
		t.Errorf("the pod's memory is nowhere: %s", text)
	}
	// One CPU is reserved and one given away: all but one are too many.
	if second := pod("second", strconv.Itoa(runtime.NumCPU()-1)); second.Status.Phase != core.PodFailed {
		t.Errorf("a second pod: %+v", second.Status)
	}

	for _, name := range []string{"second", "pinned"} {
		c.must(c.Client.CoreV1().Pods("default").Delete(t.Context(), name, meta.DeleteOptions{}))
		c.Wait("the pod "+name+" to be gone", time.Minute, func(ctx context.Context) error {
			if _, err := c.Client.CoreV1().Pods("default").Get(ctx, name, meta.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
	c.apply(t, v, "{}", node.Done)
	if got := c.configz(t, "memoryManagerPolicy") + c.configz(t, "topologyManagerPolicy") + c.configz(t, "cpuManagerPolicy"); got != `"None""none""none"` {
		t.Errorf("back to its own: %s", got)
	}
	if text := c.kept(t, "memory_manager_state"); !strings.Contains(text, `"policyName":"None"`) {
		t.Errorf("memory_manager_state: %s", text)
	}
	c.untouched(t, daemon, pids)
}
