package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"

	"fettle.dev/fettle/kube/deploy"
)

const (
	operatorNamespace = "openshift-cluster-node-tuning-operator"
	agentImage        = "fettle.dev/kubectl-fettle:devel"
	valuesAnnotation  = "fettle.dev/values"
	deferred          = "tuned.openshift.io/deferred"
)

var profileKind = schema.GroupVersionResource{Group: "tuned.openshift.io", Version: "v1", Resource: "profiles"}

// deployAgents gives the cluster what kube/deploy/ has for agents.
func (c *Cluster) deployAgents(t *testing.T) {
	t.Helper()
	a := c.applier(t)
	for _, file := range []string{"kinds/plain/namespace.yaml", "kinds/plain/tuned.openshift.io_tuneds.yaml", "kinds/plain/tuned.openshift.io_profiles.yaml", "kinds/fettle.dev_nodekubelets.yaml"} {
		text, err := fs.ReadFile(deploy.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		a.apply(file, text)
	}
	c.served()
	a.deploy("agent")
	a.deploy("kubelet")
}

// served waits until the API server knows Profile objects.
func (c *Cluster) served() {
	c.t.Helper()
	c.Wait("the objects to be served", time.Minute, func(ctx context.Context) error {
		_, err := dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).List(ctx, metav1.ListOptions{})
		return err
	})
}

// agentToken is a token of the agents' account, as the kubelet gives it to the pod of a
// node: the pods of the set are there, whether or not a kubelet runs them. node "" is a
// token of no pod.
func (c *Cluster) agentToken(t *testing.T, node string) string {
	t.Helper()
	request := &authentication.TokenRequest{}
	if node != "" {
		c.Wait("the agent's pod on node "+node, time.Minute, func(ctx context.Context) error {
			pods, err := c.Client.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, p := range pods.Items {
				if p.Spec.NodeName == node && p.Spec.ServiceAccountName == "fettle-agent" {
					request.Spec.BoundObjectRef = &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
					return nil
				}
			}
			return fmt.Errorf("%d pods, none of them there", len(pods.Items))
		})
	}
	got, err := c.Client.CoreV1().ServiceAccounts(operatorNamespace).CreateToken(t.Context(), "fettle-agent", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Token
}

// agentProcess is an agent that runs as a process of the test, against a tree of files.
type agentProcess struct {
	*testing.T
	c          *Cluster
	root       string
	kubeconfig string
	profiles   dynamic.ResourceInterface
	cmd        *exec.Cmd
	log        string
	patience   time.Duration // with which says waits; three minutes where it is 0
}

// agentOfFiles makes two nodes without kubelets, and a tree of files for the first one,
// whose agent is not started yet. token is what its pod would have.
func (c *Cluster) agentOfFiles(t *testing.T) (a *agentProcess, token string) {
	t.Helper()
	for _, name := range []string{"node1", "node2"} {
		n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}, Status: core.NodeStatus{
			Capacity:    core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")},
			Allocatable: core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")},
		}}
		if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token = c.agentToken(t, "node1")
	a = &agentProcess{
		T: t, c: c, root: filepath.Join(c.Dir, "node1"), kubeconfig: filepath.Join(c.Dir, "agent.kubeconfig"), log: filepath.Join(c.Dir, "agent.log"),
		profiles: dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).Namespace(operatorNamespace),
	}
	c.must(c.tokenKubeconfig(a.kubeconfig, token))
	a.write("proc/sys/kernel/random/boot_id", "boot-1")
	a.write("etc/os-release", "ID=debian")
	if err := os.MkdirAll(filepath.Join(a.root, "var/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.reset()
	return a, token
}

// reset gives the tree the values that its kernel has by itself.
func (a *agentProcess) reset() {
	for key, value := range pristine() {
		a.write("proc/sys/"+strings.ReplaceAll(key, ".", "/"), value)
	}
}

func (a *agentProcess) start() {
	a.Helper()
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command("kubectl-fettle", "agent", "--node=node1", "--root="+a.root, "--kubeconfig="+a.kubeconfig, "--interval=2s")
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		a.Fatal(err)
	}
}

func (a *agentProcess) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

func (a *agentProcess) restart() { a.Helper(); a.kill(); a.start() }

// put makes the node's Profile one of these texts, the first of which it is to have.
func (a *agentProcess) put(mode string, pairs ...string) {
	a.Helper()
	var texts []any
	for i := 0; i < len(pairs); i += 2 {
		texts = append(texts, map[string]any{"name": pairs[i], "data": pairs[i+1]})
	}
	spec := map[string]any{"config": map[string]any{"tunedProfile": pairs[0]}, "profile": texts}
	annotations := map[string]any{deferred: mode}
	if mode == "" {
		annotations[deferred] = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec})
	if err != nil {
		a.Fatal(err)
	}
	_, err = a.profiles.Patch(a.Context(), "node1", types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tuned.openshift.io/v1", "kind": "Profile", "metadata": map[string]any{"name": "node1"}, "spec": spec}}
		if mode != "" {
			o.SetAnnotations(map[string]string{deferred: mode})
		}
		_, err = a.profiles.Create(a.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		a.Fatal(err)
	}
}

func (a *agentProcess) delete() {
	a.Helper()
	if err := a.profiles.Delete(a.Context(), "node1", metav1.DeleteOptions{}); err != nil {
		a.Fatal(err)
	}
}

// says waits until the status speaks of the present spec and says so: Applied and
// Degraded, each STATUS/REASON. It returns what Degraded says.
func (a *agentProcess) says(applied, degraded string) (message string) {
	a.Helper()
	a.c.Wait("the status "+applied+", "+degraded, cmp.Or(a.patience, 3*time.Minute), func(ctx context.Context) error {
		o, err := a.profiles.Get(ctx, "node1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(o.Object, "status")
		got := map[string]string{}
		all, _, _ := unstructured.NestedSlice(status, "conditions")
		for _, c := range all {
			c := c.(map[string]any)
			got[c["type"].(string)] = fmt.Sprintf("%v/%v", c["status"], c["reason"])
			if c["type"] == "Degraded" {
				message, _ = c["message"].(string)
			}
		}
		if seen, _, _ := unstructured.NestedInt64(status, "observedGeneration"); seen != o.GetGeneration() || got["Applied"] != applied || got["Degraded"] != degraded {
			log, _ := os.ReadFile(a.log)
			return fmt.Errorf("generation %d of %d: %v %s\n%s", seen, o.GetGeneration(), got, message, log[max(0, len(log)-1500):])
		}
		return nil
	})
	return message
}

func (a *agentProcess) write(name, text string) {
	a.Helper()
	file := filepath.Join(a.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		a.Fatal(err)
	}
}

// has waits until the node has these values of sysctls.
func (a *agentProcess) has(want map[string]string) {
	a.Helper()
	a.c.Wait("the node's values", 3*time.Minute, func(context.Context) error { return a.differs(want) })
}

func (a *agentProcess) differs(want map[string]string) error {
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(a.root, "proc/sys", strings.ReplaceAll(key, ".", "/")))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(got)) != want[key] {
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", key, strings.TrimSpace(string(got)), want[key]))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// pristine is what the tree has before an agent comes: enough values that a kill finds
// the agent among them.
func pristine() map[string]string {
	all := map[string]string{"vm.swappiness": "60", "vm.dirty_ratio": "20", "vm.overcommit_memory": "0"}
	for i := range 150 {
		all[fmt.Sprintf("test.key%d", i)] = fmt.Sprint(i)
	}
	return all
}

// profileOf is a profile that sets values, and the values as they are then.
func profileOf(change map[string]string) (text string, values map[string]string) {
	values = pristine()
	var b strings.Builder
	b.WriteString("[sysctl]\n")
	for _, key := range slices.Sorted(maps.Keys(change)) {
		fmt.Fprintf(&b, "%s=%s\n", key, change[key])
		values[key] = change[key]
	}
	return b.String(), values
}

// residentMiB is the memory of a process that is not in files.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "RssAnon:") {
			t.Logf("the agent at rest: %s", strings.Join(strings.Fields(line), " "))
			_, _ = fmt.Sscanf(line, "RssAnon: %d", &kib)
		}
	}
	return kib >> 10
}

// tokenKubeconfig writes a kubeconfig for the bearer of a token.
func (c *Cluster) tokenKubeconfig(name, token string) error {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthority: c.authority.certFile}
	config.AuthInfos["agent"] = &api.AuthInfo{Token: token}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "agent"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, name)
}
