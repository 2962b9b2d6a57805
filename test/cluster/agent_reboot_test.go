package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/testkit/vm"
	"fettle.dev/fettle/kube/deploy"
)

// bootPatience is how long a test waits for what an emulated machine does while this
// machine's processors have much else to do.
const bootPatience = 10 * time.Minute

// rebooted is a node that really reboots: a machine of its own kernel, with the agent of
// deploy's DaemonSet in a root as a container has it.
type rebooted struct {
	*agentProcess
	g        *guest
	tuneds   dynamic.ResourceInterface
	keys     []string       // sysctls, with slashes, in the order of the profile
	pristine map[string]int // what the machine's kernel has by itself
}

// TestAgentReboot: the power of a node is cut twice, once when the agent has said that all
// is well, once in the middle of its writes. The kernel that boots has its own values; the
// agent sees another boot id, takes what the journal has of the former boot for ended,
// applies what was accepted before it has heard of the API server, then what had waited for
// a boot, and what it gives back in the end is what the kernel had.
//
// The node's kernel, disk and reboot are real, and so are API server and operator. There is
// no kubelet: the test makes the Node object, with the machine's boot id as each boot has it
// (status.nodeInfo.bootID), and starts the agent as a kubelet would, with the arguments of
// kube/deploy/agent and a token of the pod that the DaemonSet has there.
func TestAgentReboot(t *testing.T) {
	g := insideWithGuest(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}, Within: 90 * time.Minute}, vm.Options{MemoryMiB: 1024},
		map[string]string{"./kube/cmd/kubectl-fettle": "/pod/kubectl-fettle", "./cmd/fettle": "/usr/local/bin/fettle"})
	if g == nil {
		return
	}
	r := newRebooted(t, g)
	first := r.boot()

	// What is accepted at once.
	r.tune(1, "")
	r.startPod()
	r.g.reach()
	r.says("True/AsExpected", "False/AsExpected")
	r.has(1)
	r.transactions("tune done")

	// What waits for a boot waits through another start of the container.
	r.tune(3, "always")
	r.says("False/Deferred", "True/TunedDeferredUpdate")
	r.g.must("systemctl kill --signal=KILL agent-pod && until [ \"$(systemctl show -P NRestarts agent-pod)\" = 1 ]; do sleep 1; done")
	r.tune(2, "always")
	r.says("False/Deferred", "True/TunedDeferredUpdate") // of the new text, so by the new process
	r.has(1)
	r.transactions("tune done")

	// The first cut. Only fettle has made the machine write to its disk.
	r.g.cut()
	second := r.restart()
	if second == first {
		t.Fatalf("the boot id is %s as before", second)
	}
	r.has(0)
	r.transactions("tune done")
	r.startPod() // the API server cannot be reached
	r.has(1)
	r.transactions("tune done", "boot done")
	r.g.reach()
	r.says("True/AsExpected", "False/AsExpected")
	r.has(2)
	r.transactions("tune done", "boot done", "tune done")

	// The second cut, between the first write and the last.
	cut := r.inTheMiddle()
	third := r.restart()
	if third == second || third == first {
		t.Fatalf("the boot id is %s as before", third)
	}
	r.has(0)
	r.transactions(append(cut, "tune cut-off")...)
	r.startPod()
	r.has(2) // what was cut off was not accepted
	r.g.reach()
	r.says("True/AsExpected", "False/AsExpected")
	r.has(3)
	done := r.transactions()
	r.history(done)
	r.events(done)

	// All of it goes back: because it is not wanted any more, and by hand.
	r.managed("Removed")
	r.has(0)
	r.c.Wait("the Profile to be gone", bootPatience, func(ctx context.Context) error {
		if _, err := r.profiles.Get(ctx, "node1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	r.managed("Managed")
	r.says("True/AsExpected", "False/AsExpected")
	r.has(3)
	t.Logf("%s", r.g.must("systemctl stop agent-pod && /pod/kubectl-fettle agent --uninstall --node node1 --root / 2>&1"))
	r.has(0)
	r.g.must("test ! -e /var/lib/fettle-agent")
	if out, code := r.g.run("fettle undo 2>&1"); code != 0 || !strings.Contains(out, "nothing to undo") {
		t.Errorf("fettle undo after all of it: exit code %d, %s", code, out)
	}
}

// newRebooted starts operator and cluster, and prepares the machine.
func newRebooted(t *testing.T, g *guest) *rebooted {
	t.Helper()
	c := Start(t, Options{})
	objects := c.applier(t)
	objects.deploy(".")
	c.served()
	r := &rebooted{
		agentProcess: &agentProcess{
			T: t, c: c, profiles: dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).Namespace(operatorNamespace),
			log: "/dev/null", patience: bootPatience,
		},
		g: g, tuneds: objects.dynamic.Resource(profileKind.GroupVersion().WithResource("tuneds")).Namespace(operatorNamespace),
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := g.run("journalctl --no-pager -u agent-pod | tail -60; fettle history; fettle status")
			t.Logf("the agent in the machine:\n%s", out)
		}
	})
	size := core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("10")}
	n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"kubernetes.io/os": "linux", "site": ""}}, Status: core.NodeStatus{Capacity: size, Allocatable: size}}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects.apply("site", []byte(`{apiVersion: tuned.openshift.io/v1, kind: Tuned, metadata: {name: site, namespace: `+operatorNamespace+`}, spec: {
  profile: [{name: site, data: "[sysctl]\n"}], recommend: [{profile: site, priority: 20, match: [{label: site}]}]}}`))

	r.keys = rebootKeys()
	g.write("/root/keys", "%s\n", strings.Join(r.keys, "\n"))
	g.write("/root/pod", "%s", podScript(t))
	g.write("/etc/systemd/system/agent-pod.service", "[Service]\nExecStart=/bin/sh /root/pod\nRestart=always\nRestartSec=1\n")
	g.must("systemctl disable --now tuned power-profiles-daemon 2>/dev/null; rm -f /etc/tuned/active_profile; sync")
	r.pristine = r.values()
	if len(r.pristine) != len(r.keys) {
		t.Fatalf("%d of the %d places are in this kernel: %v", len(r.pristine), len(r.keys), r.pristine)
	}
	c.must(c.operator(t).Start())
	return r
}

// rebootKeys are sysctls with a number that the kernel takes as it is, has anew at each
// boot, and changes with no other: so many that a cut finds the agent among them.
func rebootKeys() []string {
	keys := []string{"vm/swappiness", "net/core/somaxconn", "net/core/netdev_max_backlog", "kernel/shmmni"}
	for _, device := range []string{"lo", "net0", "net1"} {
		for _, name := range []string{"ucast_solicit", "mcast_solicit", "mcast_resolicit", "app_solicit", "gc_stale_time", "delay_first_probe_time", "proxy_qlen"} {
			keys = append(keys, "net/ipv4/neigh/"+device+"/"+name, "net/ipv6/neigh/"+device+"/"+name)
		}
		for _, name := range []string{"max_addresses", "temp_valid_lft", "temp_prefered_lft", "regen_max_retry", "max_desync_factor", "router_solicitation_max_interval"} {
			keys = append(keys, "net/ipv6/conf/"+device+"/"+name)
		}
		keys = append(keys, "net/ipv4/conf/"+device+"/tag", "net/ipv4/conf/"+device+"/medium_id")
	}
	return keys
}

// podScript runs the agent as a kubelet has it run by deploy's DaemonSet: in a root of its
// own that cannot be written, with the node's at /host, in the node's namespaces, and with
// what the kubelet gives a pod to reach the API server.
func podScript(t *testing.T) string {
	t.Helper()
	text, err := fs.ReadFile(deploy.FS, "agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set apps.DaemonSet
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	if !pod.HostNetwork || !pod.HostPID || !pod.HostIPC || len(pod.Containers) != 1 || len(pod.Containers[0].Args) == 0 {
		t.Fatalf("the pod is not what this test makes of it: %+v", pod)
	}
	address, port, _ := strings.Cut(apiInGuest, ":")
	return `set -e
mkdir -p /pod/host /pod/proc /pod/sys /pod/dev
exec unshare --mount sh -ec 'mount --bind /pod /pod; mount --rbind / /pod/host; mount --rbind /proc /pod/proc
mount --rbind /sys /pod/sys; mount --rbind /dev /pod/dev; mount -o remount,bind,ro /pod
exec env -i NODE_NAME=node1 KUBERNETES_SERVICE_HOST=` + address + ` KUBERNETES_SERVICE_PORT=` + port + ` \
	/usr/sbin/chroot /pod /kubectl-fettle ` + strings.Join(pod.Containers[0].Args, " ") + `'
`
}

// boot has the Node object say which boot this is, as its kubelet does.
func (r *rebooted) boot() (id string) {
	r.Helper()
	id = strings.TrimSpace(r.g.must("cat /proc/sys/kernel/random/boot_id"))
	body := fmt.Sprintf(`{"status": {"nodeInfo": {"bootID": %q}}}`, id)
	if _, err := r.c.Client.CoreV1().Nodes().Patch(r.Context(), "node1", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
		r.Fatal(err)
	}
	return id
}

// restart switches the machine on again, whose power was cut.
func (r *rebooted) restart() (id string) {
	r.Helper()
	began := time.Now()
	said := r.g.start()
	if id = r.boot(); id != said {
		r.Fatalf("the boot id is %s and %s", said, id)
	}
	r.Logf("booted again after %.0f s", time.Since(began).Seconds())
	return id
}

// startPod starts the agent as the kubelet does that has just started: the pod is the one
// of before, its token a new one.
func (r *rebooted) startPod() {
	r.Helper()
	config := r.c.Config
	const dir = "/pod/var/run/secrets/kubernetes.io/serviceaccount/"
	r.g.write(dir+"token", "%s", r.c.agentToken(r.T, "node1"))
	r.g.write(dir+"namespace", "%s", operatorNamespace)
	r.g.write(dir+"ca.crt", "%s", config.CAData)
	r.g.must("systemctl start agent-pod")
}

// tune makes the profile ask for the n-th value of each place, with an annotation for when.
func (r *rebooted) tune(n int, deferral string) {
	r.Helper()
	var text strings.Builder
	text.WriteString("[sysctl]\n")
	for _, key := range r.keys {
		fmt.Fprintf(&text, "%s=%d\n", strings.ReplaceAll(key, "/", "."), r.pristine[key]+n)
	}
	annotation := any(nil)
	if deferral != "" {
		annotation = deferral
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{deferred: annotation}},
		"spec":     map[string]any{"profile": []any{map[string]any{"name": "site", "data": text.String()}}},
	})
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.tuneds.Patch(r.Context(), "site", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
	r.c.Wait("the operator to pass the profile on", bootPatience, func(ctx context.Context) error {
		o, err := r.profiles.Get(ctx, "node1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		texts, _, _ := unstructured.NestedSlice(o.Object, "spec", "profile")
		for _, p := range texts {
			if p, _ := p.(map[string]any); p["name"] == "site" && p["data"] == text.String() && o.GetAnnotations()[deferred] == deferral {
				return nil
			}
		}
		return fmt.Errorf("%d texts, deferred %q", len(texts), o.GetAnnotations()[deferred])
	})
}

func (r *rebooted) managed(state string) {
	r.Helper()
	if _, err := r.tuneds.Patch(r.Context(), "default", types.MergePatchType, []byte(`{"spec":{"managementState":"`+state+`"}}`), metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
}

// values reads the places in the machine's kernel.
func (r *rebooted) values() map[string]int {
	r.Helper()
	values := map[string]int{}
	for line := range strings.Lines(r.g.must(`bash -c 'while read -r k; do read -r v <"/proc/sys/$k" && echo "$k=$v"; done' </root/keys`)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), "=")
		n, err := strconv.Atoi(text)
		if err != nil {
			r.Fatalf("%q: %v", line, err)
		}
		values[key] = n
	}
	return values
}

// has waits until each place has its n-th value; 0 is the kernel's own, which it has at
// once or not at all.
func (r *rebooted) has(n int) {
	r.Helper()
	r.c.Wait(fmt.Sprintf("value %d of each place", n), bootPatience, func(context.Context) error {
		now := r.values()
		var wrong []string
		for _, key := range r.keys {
			if now[key] != r.pristine[key]+n {
				wrong = append(wrong, fmt.Sprintf("%s is %d, want %d", key, now[key], r.pristine[key]+n))
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d of %d: %s", len(wrong), len(r.keys), strings.Join(wrong[:min(5, len(wrong))], "; "))
		}
		return nil
	})
}

// inTheMiddle cuts the power when the agent has written some values of a switch to the
// third ones, and not yet the rest. It returns the transactions before that.
func (r *rebooted) inTheMiddle() (before []string) {
	r.Helper()
	for range 6 {
		before = r.done()
		// The agent is stopped as it stands by a process that looks at nothing but the
		// first of its places, before all others.
		watch := r.keys[0]
		r.g.must(fmt.Sprintf("systemctl reset-failed watch 2>/dev/null; systemd-run --quiet --unit=watch --property=CPUSchedulingPolicy=fifo --property=CPUSchedulingPriority=50 bash -c '"+
			"while read -r v </proc/sys/%s && [ \"$v\" = %d ]; do :; done; kill -STOP '$(systemctl show -P MainPID agent-pod)", watch, r.pristine[watch]+2))
		r.tune(3, "")
		r.c.Wait("the agent to be stopped", bootPatience, func(context.Context) error {
			if out, _ := r.g.run("systemctl is-active watch"); strings.TrimSpace(out) == "active" {
				return fmt.Errorf("%s is %d", watch, r.values()[watch])
			}
			return nil
		})
		now := r.values()
		written := 0
		for _, key := range r.keys {
			if now[key] == r.pristine[key]+3 {
				written++
			}
		}
		r.Logf("stopped with %d of %d values written", written, len(r.keys))
		if written > 0 && written < len(r.keys) {
			r.g.cut()
			return before
		}
		r.g.must("systemctl kill --signal=CONT agent-pod")
		r.has(3)
		r.tune(2, "")
		r.has(2)
		r.says("True/AsExpected", "False/AsExpected")
	}
	r.Fatal("six times all was written before the agent could be stopped")
	return nil
}
