package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"fettle.dev/fettle/kube/deploy"
)

// helmed is a control plane on which the chart kube/deploy is installed by Helm.
type helmed struct {
	*testing.T
	c     *Cluster
	chart string // a copy of kube/deploy
}

// TestHelm tests installation, upgrade and removal of the chart, on a cluster that has the kinds
// and objects of a platform and on one that has not. All objects of the cluster are listed before
// and after: those of the platform are untouched.
func TestHelm(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Helm: true}) {
		return
	}
	c := Start(t, Options{})
	h := &helmed{t, c, filepath.Join(c.Dir, "chart")}
	c.must(os.CopyFS(h.chart, deploy.FS))
	t.Run("platform", func(t *testing.T) { h.T = t; h.platform() })
	t.Run("plain", func(t *testing.T) { h.T = t; h.plain() })
	t.Run("kustomized", func(t *testing.T) { h.T = t; h.kustomized() })
}

// platformObjects are what OpenShift has of its own.
const platformObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-machine-api}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tuned, namespace: openshift-cluster-node-tuning-operator}
---
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: site, namespace: openshift-cluster-node-tuning-operator}
spec: {recommend: [{profile: openshift-node, priority: 30}]}
---
apiVersion: tuned.openshift.io/v1
kind: Profile
metadata: {name: node1, namespace: openshift-cluster-node-tuning-operator}
spec: {config: {tunedProfile: openshift-node}}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: site}
spec: {kubeletConfig: {maxPods: 100}}
`

func (h *helmed) platform() {
	h.kubectl("apply", "-f", h.chart+"/kinds/plain")
	h.kubectl("wait", "--for=condition=Established", "crd", "--all")
	h.apply(platformObjects)
	before := h.settled()

	if out, err := h.helm("install", "fettle", h.chart); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		h.Errorf("without openshift=true over the platform's kinds: %v\n%s", err, out)
	}
	h.same(before, nil)

	began := time.Now()
	all := []string{"--set=openshift=true,kubelet=true,machines=true"}
	h.must("install", append(all, "fettle", h.chart)...)
	h.Logf("installed after %.1f s", time.Since(began).Seconds())
	for _, object := range []string{"deployment/fettle-operator", "daemonset/fettle-agent", "networkpolicy/fettle-operator", "poddisruptionbudget/fettle-operator", "clusterrole/fettle-agent-kubelet", "role/fettle-agent-scc", "validatingadmissionpolicybinding/fettle-agent"} {
		h.kubectl("-n", operatorNamespace, "get", object)
	}
	h.kubectl("-n", "openshift-machine-api", "get", "role/fettle-operator-machines")
	h.kubectl("wait", "--for=condition=Established", "crd", "--all")
	h.apply("{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: workers}, spec: {nodeSelector: {matchLabels: {a: b}}}}")
	pool := h.kubectl("get", "kubeletpool", "workers", "-o=jsonpath={.metadata.uid}")

	began = time.Now()
	h.must("upgrade", append(all, "fettle", h.changed(), "--set=operator.replicas=2")...)
	h.Logf("upgraded after %.1f s", time.Since(began).Seconds())
	if n := h.kubectl("-n", operatorNamespace, "get", "deployment/fettle-operator", "-o=jsonpath={.spec.replicas}"); n != "2" {
		h.Errorf("after the upgrade %s operators", n)
	}
	h.kubectl("patch", "kubeletpool", "workers", "--type=merge", "-p", `{"spec":{"note":"new"}}`)
	if got := h.kubectl("get", "kubeletpool", "workers", "-o=jsonpath={.metadata.uid} {.spec.note}"); got != pool+" new" {
		h.Errorf("the pool is %s: the upgrade has not changed the kind, or has made the pool anew (%s)", got, pool)
	}

	// A kubelet that still has settings of fettle is named.
	h.apply("{apiVersion: fettle.dev/v1alpha1, kind: NodeKubelet, metadata: {name: node7}, spec: {}}")
	h.kubectl("patch", "nodekubelet", "node7", "--subresource=status", "--type=merge", "-p", `{"status":{"has":"abc"}}`)
	h.c.Wait("the policy to warn", time.Minute, func(context.Context) error {
		if said := h.kubectl("-n", operatorNamespace, "delete", "daemonset", "fettle-agent", "--dry-run=server"); !strings.Contains(said, "node node7 keeps") {
			return fmt.Errorf("%s", said)
		}
		return nil
	})
	kept := []string{"CustomResourceDefinition /kubeletpools.fettle.dev", "CustomResourceDefinition /nodekubelets.fettle.dev", "KubeletPool /workers", "NodeKubelet /node7"}
	began = time.Now()
	if said := h.must("uninstall", "fettle"); !strings.Contains(said, "node node7 keeps the kubelet settings abc") {
		h.Errorf("it does not warn: %s", said)
	}
	h.same(before, kept)
	h.Logf("removed after %.1f s", time.Since(began).Seconds())

	// Once more, with the kinds that were kept, and now without them, as the manual says.
	h.must("install", append(all, "fettle", h.chart)...)
	h.kubectl("get", "kubeletpool", "workers")
	h.must("uninstall", "fettle")
	h.kubectl("delete", "crd", "kubeletpools.fettle.dev", "nodekubelets.fettle.dev")
	h.same(before, nil)
}

// plain is a cluster without OpenShift: the chart brings the kinds, and leaves them with their
// objects, also if a value says later that the platform has them.
func (h *helmed) plain() {
	h.kubectl("delete", "-f", h.chart+"/kinds/plain", "--timeout=1m")
	h.kubectl("create", "namespace", operatorNamespace)
	before := h.settled()
	h.must("install", "fettle", h.chart)
	h.kubectl("wait", "--for=condition=Established", "crd", "--all")
	h.apply(platformObjects)
	h.must("upgrade", "fettle", h.chart, "--set=openshift=true")
	h.kubectl("-n", operatorNamespace, "get", "tuned/site", "role/fettle-agent-scc")
	h.must("uninstall", "fettle")
	h.same(before, []string{
		"CustomResourceDefinition /kubeletconfigs.machineconfiguration.openshift.io", "CustomResourceDefinition /kubeletpools.fettle.dev",
		"CustomResourceDefinition /nodekubelets.fettle.dev", "CustomResourceDefinition /profiles.tuned.openshift.io", "CustomResourceDefinition /tuneds.tuned.openshift.io",
		"KubeletConfig /site", "Profile " + operatorNamespace + "/node1", "ServiceAccount " + operatorNamespace + "/tuned", "Tuned " + operatorNamespace + "/site",
	})
}

// kustomized tests that Helm takes over what kubectl apply -k has made, and removes it.
func (h *helmed) kustomized() {
	h.kubectl("apply", "-k", h.chart)
	if out, err := h.helm("install", "fettle", h.chart); err == nil {
		h.Errorf("over what kustomize has made: %s", out)
	}
	h.must("install", "fettle", h.chart, "--take-ownership", "--force-conflicts", "--set=operator.replicas=3")
	if got := h.kubectl("-n", operatorNamespace, "get", "deployment/fettle-operator", `-o=jsonpath={.spec.replicas} {.metadata.labels.app\.kubernetes\.io/managed-by}`); got != "3 Helm" {
		h.Errorf("the operator has %s", got)
	}
	h.must("uninstall", "fettle")
	if left := h.kubectl("-n", operatorNamespace, "get", "deployments,daemonsets,networkpolicies", "-o=name"); left != "" {
		h.Errorf("left: %s", left)
	}
}

// changed is the chart of another version, in which KubeletPools have one more field.
func (h *helmed) changed() string {
	h.Helper()
	dir := filepath.Join(h.c.Dir, "changed")
	h.c.must(os.CopyFS(dir, deploy.FS))
	file := filepath.Join(dir, "kinds/fettle.dev_kubeletpools.yaml")
	text, err := os.ReadFile(file)
	h.c.must(err)
	const at = "              paused:\n"
	if strings.Count(string(text), at) != 1 {
		h.Fatalf("%s has another form", file)
	}
	h.c.must(os.WriteFile(file, []byte(strings.Replace(string(text), at, "              note:\n                type: string\n"+at, 1)), 0o600))
	return dir
}

// helm runs Helm in fettle's namespace.
func (h *helmed) helm(verb string, args ...string) (string, error) {
	c := exec.Command("helm", append([]string{verb, "--kubeconfig=" + h.c.Kubeconfig, "--namespace=" + operatorNamespace}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w: %s", c.Args, err, out)
	}
	return string(out), nil
}

// must runs Helm, which has to succeed.
func (h *helmed) must(verb string, args ...string) string {
	h.Helper()
	out, err := h.helm(verb, args...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

func (h *helmed) kubectl(args ...string) string {
	h.Helper()
	return run(h.T, append([]string{"kubectl", "--kubeconfig=" + h.c.Kubeconfig}, args...)...)
}

// apply makes objects with kubectl.
func (h *helmed) apply(text string) {
	h.Helper()
	file := filepath.Join(h.c.Dir, "objects.yaml")
	h.c.must(os.WriteFile(file, []byte(text), 0o600))
	h.kubectl("apply", "-f", file)
}

// settled waits until the objects of the cluster stay the same for a second, and returns them.
func (h *helmed) settled() (all map[string]string) {
	h.Helper()
	h.c.Wait("the cluster to settle", time.Minute, func(context.Context) error {
		before := h.objects()
		time.Sleep(time.Second)
		if all = h.objects(); !maps.Equal(before, all) {
			return fmt.Errorf("%d objects, then %d", len(before), len(all))
		}
		return nil
	})
	h.Logf("%d objects before", len(all))
	return all
}

// same waits until the cluster has the same objects as before, and those that are named in more.
func (h *helmed) same(before map[string]string, more []string) {
	h.Helper()
	h.c.Wait("the cluster to be as before", time.Minute, func(context.Context) error {
		now := h.objects()
		var wrong []string
		for key, was := range before {
			if is, ok := now[key]; !ok || is != was {
				wrong = append(wrong, fmt.Sprintf("%s was %s\nis %s", key, was, is))
			}
		}
		for key := range now {
			if _, ok := before[key]; !ok && !slices.Contains(more, key) {
				wrong = append(wrong, key+" is new")
			}
		}
		for _, key := range more {
			if _, ok := now[key]; !ok {
				wrong = append(wrong, key+" is gone")
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%s", strings.Join(wrong, "\n"))
		}
		return nil
	})
}

// byItself lists kinds whose objects the cluster makes or writes by itself.
var byItself = []string{"Event", "Lease", "APIService", "Endpoints", "EndpointSlice"}

// objects returns all objects of the cluster, by kind, namespace and name: UID and content without
// the status.
func (h *helmed) objects() map[string]string {
	h.Helper()
	lists, err := h.c.Client.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // a kind is just being removed
		h.Fatal(err)
	}
	client, err := dynamic.NewForConfig(h.c.Config)
	if err != nil {
		h.Fatal(err)
	}
	all := map[string]string{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			h.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(byItself, r.Kind) || r.Kind == "ComponentStatus" {
				continue
			}
			objects, err := client.Resource(group.WithResource(r.Name)).List(h.Context(), metav1.ListOptions{})
			if err != nil {
				continue // the same
			}
			for _, o := range objects.Items {
				key := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
				delete(o.Object, "status")
				o.SetManagedFields(nil)
				o.SetResourceVersion("")
				text, err := json.Marshal(o.Object)
				if err != nil {
					h.Fatal(err)
				}
				all[key] = string(text)
			}
		}
	}
	return all
}

// TestHelmNode tests the chart on a real node: Helm waits until operator and agent are Ready, the
// node is tuned, stays so during an upgrade, and has its former values after the removal.
func TestHelmNode(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Helm: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	d := c.deployed(t)
	h := &helmed{t, c, d.dir}
	c.pod(t, "first", nil) // the plug-in that makes its network sets variables of the kernel too
	before := sysctls(t)
	d.kubectl("create", "namespace", operatorNamespace)
	d.kubectl("label", "namespace", operatorNamespace, "pod-security.kubernetes.io/enforce=privileged")

	began := time.Now()
	h.must("install", "fettle", h.chart, "--wait", "--timeout=3m")
	t.Logf("operator and agent are Ready %.1f s after helm install --wait", time.Since(began).Seconds())
	d.standing("openshift-node")
	tuned := d.changed(before)
	if len(tuned) < 5 {
		t.Errorf("only %v are changed: the end shows little", tuned)
	}
	agent := d.agent()
	h.must("upgrade", "fettle", h.changed(), "--wait", "--timeout=3m", "--set=agent.args={--interval=30s}")
	c.Kubelet.Away(agent.UID, time.Minute)
	if now := d.changed(before); !slices.Equal(tuned, now) {
		t.Errorf("changed before the upgrade: %v, after it: %v", tuned, now)
	}
	// A drain may evict the only operator.
	operator := d.pod("fettle-operator")
	c.Wait("the operator to be evicted", time.Minute, func(ctx context.Context) error {
		return c.Client.PolicyV1().Evictions(operatorNamespace).Evict(ctx, &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: operator.Name, Namespace: operatorNamespace}})
	})
	c.Kubelet.Away(operator.UID, time.Minute)
	d.rolledOut()
	agent = d.agent()
	t.Logf("helm uninstall: %s", h.must("uninstall", "fettle", "--wait", "--timeout=3m"))
	c.Kubelet.Away(agent.UID, time.Minute)
	for _, key := range tuned {
		if now := sysctls(t)[key]; now != before[key] {
			t.Errorf("%s is %q after helm uninstall, it was %q", key, now, before[key])
		}
	}
	d.kubectl("-n", operatorNamespace, "get", "tuned", "default")
}
