package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/deploy"
)

// deployed is a cluster in which kube/deploy/ is applied as its manual says, by kubectl.
type deployed struct {
	*testing.T
	c   *Cluster
	dir string // a copy of kube/deploy/
}

// TestDeploy: the image of kube/deploy/Containerfile and `kubectl apply -k kube/deploy` on a real
// node, and all that is said of it: operator and agent are Ready, kubectl finds its
// plug-in, Prometheus collects the metrics and the dashboard's panels show some, huge
// pages wait for the kubelet's restart, of two operators one is killed, and when all is
// deleted the node has what it had before.
func TestDeploy(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	d := c.deployed(t)
	c.pod(t, "first", nil) // the plug-in that makes its network sets variables of the kernel too
	before := sysctls(t)

	began := time.Now()
	d.kubectl("apply", "-f", d.dir+"/kinds/plain")
	d.kubectl("apply", "-k", d.dir)
	d.rolledOut()
	t.Logf("operator and agent are Ready %.1f s after kubectl apply -k", time.Since(began).Seconds())
	d.standing("openshift-node")
	if plugins := d.kubectl("plugin", "list"); !strings.Contains(plugins, "kubectl-fettle") {
		t.Errorf("kubectl's plug-ins:\n%s", plugins)
	}
	t.Logf("kubectl fettle status:\n%s", d.kubectl("fettle", "status"))
	if out, err := exec.Command("kubectl", "fettle", "status", "nowhere").CombinedOutput(); err == nil || !strings.Contains(string(out), `no node is named "nowhere"`) {
		t.Errorf("of a node that there is not: %v %s", err, out)
	}

	d.hugePages(before)
	d.metrics()
	d.twoOperators()
	changed := d.changed(before)
	if len(changed) < 5 {
		t.Errorf("only %v are changed: the end shows little", changed)
	}
	agent := c.agentPod(t, "")
	began = time.Now()
	d.kubectl("delete", "-k", d.dir, "--timeout=3m")
	c.Kubelet.Away(agent.UID, time.Minute)
	t.Logf("all is deleted after %.1f s", time.Since(began).Seconds())
	for _, key := range changed {
		if now := sysctls(t)[key]; now != before[key] {
			t.Errorf("%s is %q after the end of the agents, it was %q", key, now, before[key])
		}
	}
	// What is not fettle's alone is still there.
	d.kubectl("get", "crd", "tuneds.tuned.openshift.io", "profiles.tuned.openshift.io")
	d.kubectl("-n", operatorNamespace, "get", "tuned", "default")
	if t.Failed() {
		return
	}
	t.Logf("%d sysctls that were changed are as before: %v", len(changed), changed)
	// Once more, by the namespace alone: all else has to go with it, or be harmless.
	d.kubectl("apply", "-k", d.dir)
	d.rolledOut()
	d.standing("openshift-node")
	agent = c.agentPod(t, "")
	d.kubectl("delete", "namespace", operatorNamespace, "--timeout=3m")
	c.Kubelet.Away(agent.UID, time.Minute)
	if left := d.changed(before); slices.ContainsFunc(left, func(key string) bool { return slices.Contains(changed, key) }) {
		t.Errorf("after the end of the namespace: %v", left)
	}
}

// deployed has the image of kube/deploy/Containerfile on the node, and a copy of kube/deploy/ for
// kubectl, which finds the cluster by itself.
func (c *Cluster) deployed(t *testing.T) *deployed {
	t.Helper()
	d := &deployed{t, c, filepath.Join(c.Dir, "deploy")}
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	c.Containerfile(agentImage, readDeployed(t), map[string]string{"bin/kubectl-fettle": filepath.Join(programDir, "kubectl-fettle")})
	c.must(os.CopyFS(d.dir, deploy.FS))
	t.Cleanup(func() {
		if t.Failed() { // the kernel is the machine's: it has to have its values back
			out, err := exec.Command("kubectl-fettle", "agent", "--node=node1", "--root=/", "--uninstall").CombinedOutput()
			t.Logf("%s %v", out, err)
		}
	})
	return d
}

// kubectl runs it, and returns both its outputs.
func (d *deployed) kubectl(args ...string) string {
	d.Helper()
	return run(d.T, append([]string{"kubectl"}, args...)...)
}

// rolledOut waits until all pods are Ready.
func (d *deployed) rolledOut() {
	d.Helper()
	for _, what := range []string{"daemonset/fettle-agent", "deployment/fettle-operator"} {
		out, err := exec.Command("kubectl", "-n", operatorNamespace, "rollout", "status", what, "--timeout=3m").CombinedOutput()
		if err != nil {
			pods, _ := exec.Command("kubectl", "-n", operatorNamespace, "describe", "pods").CombinedOutput()
			logs, _ := exec.Command("kubectl", "-n", operatorNamespace, "logs", what).CombinedOutput()
			d.Fatalf("%v: %s\n%s\n%s", err, out, pods, logs)
		}
	}
}

// stands is a part of what `kubectl fettle status` says of a node.
type stands struct {
	Node, Wanted, Applied, State string
	Values                       []struct{ Setting, Verdict, Why string }
	Conditions                   []struct{ Type, Status, Reason, Message string }
}

// status asks the plug-in.
func (d *deployed) status() (n stands, err error) {
	out, err := exec.Command("kubectl", "fettle", "status", "--output=json").Output()
	if err != nil {
		return n, err
	}
	var doc struct{ Nodes []stands }
	if err := json.Unmarshal(out, &doc); err != nil {
		return n, fmt.Errorf("%w: %s", err, out)
	}
	if len(doc.Nodes) != 1 {
		return n, fmt.Errorf("%d nodes", len(doc.Nodes))
	}
	return doc.Nodes[0], nil
}

// standing waits until the node has a profile.
func (d *deployed) standing(profile string) (n stands) {
	d.Helper()
	d.c.Wait("the node to have profile "+profile, 2*time.Minute, func(context.Context) (err error) {
		if n, err = d.status(); err != nil {
			return err
		}
		if n.Wanted != profile || n.Applied != profile || n.State != "ok" && n.State != "degraded" {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	return n
}

const hugeTuned = `apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: huge, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile:
  - name: huge
    data: |
      [main]
      include=openshift-node
      [sysctl]
      vm.nr_hugepages=%d
  recommend:
  - {profile: huge, priority: 20, match: [{label: huge}]}
`

// hugePages: the kubelet shows them only after its restart, and the status says that
// until it has been.
func (d *deployed) hugePages(before map[string]string) {
	d.Helper()
	var had int
	fmt.Sscan(before["vm/nr_hugepages"], &had)
	file := filepath.Join(d.c.Dir, "huge.yaml")
	d.c.must(os.WriteFile(file, fmt.Appendf(nil, hugeTuned, had+8), 0o600))
	d.kubectl("apply", "-f", file)
	d.kubectl("label", "node", "node1", "huge=")
	d.standing("huge")
	verdict := func(want string) (why string) {
		d.Helper()
		d.c.Wait("the huge pages' verdict "+want, 3*time.Minute, func(context.Context) error {
			n, err := d.status()
			if err != nil {
				return err
			}
			got := "ok" // the document has those that are not
			for _, v := range n.Values {
				if v.Setting == "sysctl:vm.nr_hugepages" {
					got, why = v.Verdict, v.Why
				}
			}
			if got != want {
				return fmt.Errorf("%s %s", got, why)
			}
			return nil
		})
		return why
	}
	why := verdict("needs-restart")
	if !strings.Contains(why, "restart the kubelet so that it counts the new huge pages") {
		d.Errorf("it says: %s", why)
	}
	d.Logf("of huge pages that the kubelet has not counted the status says: %s", why)
	d.c.must(d.c.Kubelet.Restart())
	d.c.Wait("the node to be Ready again", time.Minute, d.c.Kubelet.Ready)
	verdict("ok")
	n, err := d.c.Client.CoreV1().Nodes().Get(d.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		d.Fatal(err)
	}
	if q := n.Status.Capacity["hugepages-2Mi"]; q.Value() != int64(had+8)<<21 {
		d.Errorf("the node shows %s of huge pages", &q)
	}
	d.kubectl("label", "node", "node1", "huge-")
	d.standing("openshift-node")
}

const twoOperators = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../deploy]
replicas: [{name: fettle-operator, count: 2}]
patches:
- target: {kind: Deployment, name: fettle-operator}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--lease=9s"}]'
`

// twoOperators: one decides, and when it is killed another one: the one that waited, or
// the one that the kubelet starts in its place, whoever asks first once the lease has run
// out.
func (d *deployed) twoOperators() {
	d.Helper()
	overlay := filepath.Join(d.c.Dir, "two")
	d.c.must(os.MkdirAll(overlay, 0o755))
	d.c.must(os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(twoOperators), 0o600))
	d.kubectl("apply", "-k", overlay)
	d.rolledOut()
	holder := func(other string) (identity string, pod core.Pod) {
		d.Helper()
		d.c.Wait("an operator to hold the lease", time.Minute, func(ctx context.Context) error {
			lease, err := d.c.Client.CoordinationV1().Leases(operatorNamespace).Get(ctx, "fettle-operator", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return errors.New("nobody holds it")
			}
			if identity = *lease.Spec.HolderIdentity; identity == other {
				return fmt.Errorf("it is still %s", other)
			}
			name, _, _ := strings.Cut(identity, "_") // of the pod, and what each process adds
			p, err := d.c.Client.CoreV1().Pods(operatorNamespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && p.DeletionTimestamp != nil {
				err = fmt.Errorf("pod %s ends", name)
			}
			if err == nil {
				pod = *p
			}
			return err
		})
		return identity, pod
	}
	killed, first := holder("")
	pids := d.c.Kubelet.Processes(first.UID)
	if len(pids) != 1 {
		d.Fatalf("processes of operator %s: %v", first.Name, pids)
	}
	d.c.must(syscall.Kill(pids[0], syscall.SIGKILL))
	began := time.Now()
	d.kubectl("label", "node", "node1", "huge=")
	_, second := holder(killed)
	d.standing("huge")
	d.Logf("operator %s was killed: %s decides %.1f s later (lease 9 s)", first.Name, second.Name, time.Since(began).Seconds())
	d.kubectl("label", "node", "node1", "huge-")
	d.standing("openshift-node")
}

// changed are the sysctls that have another value than before, and not of themselves.
func (d *deployed) changed(before map[string]string) (keys []string) {
	d.Helper()
	now := sysctls(d.T)
	for key, value := range before {
		if now[key] != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// sysctls are the kernel's variables that can be written, by their path below /proc/sys,
// without those that change of themselves.
func sysctls(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := os.DirFS("/proc/sys")
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // gone, or not for us
		}
		for _, prefix := range []string{"fs/binfmt_misc/", "kernel/random/", "kernel/ns_last_pid", "fs/dentry-state", "fs/inode", "fs/file-nr", "net/netfilter/nf_conntrack_count"} {
			if strings.HasPrefix(name, prefix) {
				return nil
			}
		}
		if st, err := e.Info(); err != nil || st.Mode()&0o200 == 0 {
			return nil
		}
		if strings.HasPrefix(name, "net/ipv4/conf/") || strings.HasPrefix(name, "net/ipv6/conf/") || strings.HasPrefix(name, "net/ipv4/neigh/") || strings.HasPrefix(name, "net/ipv6/neigh/") {
			if device := strings.Split(name, "/")[3]; device != "all" && device != "default" {
				return nil // devices of pods come and go
			}
		}
		if text, err := fs.ReadFile(root, name); err == nil {
			all[name] = strings.TrimSpace(string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestKustomize: kubectl renders each directory of deploy, and what it renders of deploy
// has neither a namespace nor a kind that is not fettle's own.
func TestKustomize(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{}) {
		return
	}
	dir := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(dir, deploy.FS); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "agent", "operator", "metrics", "kubelet", "machines", "openshift"} {
		text := run(t, "kubectl", "kustomize", filepath.Join(dir, name))
		if strings.Contains(text, "kind: Namespace\n") || strings.Contains(text, "kind: CustomResourceDefinition") && strings.Contains(text, "group: tuned.openshift.io") {
			t.Errorf("kube/deploy/%s has what is not fettle's own", name)
		}
		if name == "." && (strings.Count(text, "kind: CustomResourceDefinition\n") != 2 || !strings.Contains(text, "kind: DaemonSet") || !strings.Contains(text, "kind: Deployment")) {
			t.Errorf("deploy has:\n%s", text)
		}
	}
}
