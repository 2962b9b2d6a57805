package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/deploy"
)

const (
	operatorNamespace = "openshift-cluster-node-tuning-operator"
	agentImage        = "fettle.dev/kubectl-fettle:devel"
	valuesAnnotation  = "fettle.dev/values"
	deferred          = "tuned.openshift.io/deferred"
)

var profileKind = schema.GroupVersionResource{Group: "tuned.openshift.io", Version: "v1", Resource: "profiles"}

// deployAgents gives the cluster what deploy/ has for agents.
func (c *Cluster) deployAgents(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"crds", "agent"} {
		files, err := fs.Glob(deploy.FS, dir+"/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(files, func(a, b string) int { // the namespace goes first
			if strings.Contains(a, "namespace") != strings.Contains(b, "namespace") {
				if strings.Contains(a, "namespace") {
					return -1
				}
				return 1
			}
			return strings.Compare(a, b)
		})
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text, err := fs.ReadFile(deploy.FS, file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				c.create(t, document)
			}
		}
		if dir == "crds" {
			c.Wait("the objects to be served", time.Minute, func(ctx context.Context) error {
				_, err := dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).List(ctx, metav1.ListOptions{})
				return err
			})
		}
	}
}

// create makes an object that is written in YAML.
func (c *Cluster) create(t *testing.T, text string) {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(c.Client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	kind := o.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	all := dynamic.NewForConfigOrDie(c.Config).Resource(mapping.Resource)
	var where dynamic.ResourceInterface = all
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		where = all.Namespace(o.GetNamespace())
	}
	if _, err := where.Create(t.Context(), &o, metav1.CreateOptions{}); err != nil {
		t.Fatalf("%s %s: %v", kind.Kind, o.GetName(), err)
	}
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
				if p.Spec.NodeName == node {
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
	a.c.Wait("the status "+applied+", "+degraded, time.Minute, func(ctx context.Context) error {
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
	a.c.Wait("the node's values", 30*time.Second, func(context.Context) error { return a.differs(want) })
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

// TestAgent: an agent with the rights of deploy/ and no more tunes its node as the
// Profile object says, through kills, deferral and mistakes, against a real API server;
// and writes about no other node. The node is a tree of files.
func TestAgent(t *testing.T) {
	if !Inside(t, Setup{Programs: []string{"./cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	c.deployAgents(t)
	for _, name := range []string{"node1", "node2"} {
		n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}, Status: core.NodeStatus{
			Capacity:    core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")},
			Allocatable: core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")},
		}}
		if _, err := c.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token := c.agentToken(t, "node1")
	all := dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).Namespace(operatorNamespace)
	a := &agentProcess{T: t, c: c, root: filepath.Join(c.Dir, "node1"), kubeconfig: filepath.Join(c.Dir, "agent.kubeconfig"), profiles: all, log: filepath.Join(c.Dir, "agent.log")}
	c.must(c.tokenKubeconfig(a.kubeconfig, token))
	a.write("proc/sys/kernel/random/boot_id", "boot-1")
	a.write("etc/os-release", "ID=debian")
	if err := os.MkdirAll(filepath.Join(a.root, "var/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	reset := func() {
		for key, value := range pristine() {
			a.write("proc/sys/"+strings.ReplaceAll(key, ".", "/"), value)
		}
	}
	reset()
	a.start()
	t.Cleanup(a.kill)

	// A profile, its edit, another one, none: values and status follow.
	day, dayValues := profileOf(map[string]string{"vm.swappiness": "10", "vm.dirty_ratio": "40"})
	a.put("", "day", day)
	a.says("True/AsExpected", "False/AsExpected")
	a.has(dayValues)
	o, err := all.Get(ctx, "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := o.GetAnnotations()[valuesAnnotation]; !strings.Contains(text, `"counts":{"ok":2}`) || !strings.Contains(text, `{"setting":"sysctl:vm.swappiness","verdict":"ok","want":"10"}`) {
		t.Errorf("the values: %s", text)
	}
	if name, _, _ := unstructured.NestedString(o.Object, "status", "tunedProfile"); name != "day" {
		t.Errorf("status.tunedProfile is %q", name)
	}
	a.restart()
	time.Sleep(3 * time.Second)
	a.has(dayValues)
	if mib := residentMiB(t, a.cmd.Process.Pid); mib > 64 {
		t.Errorf("the agent at rest has %d MiB resident", mib)
	}

	// A mistake leaves what there is, and a switch away from it recovers.
	a.put("", "bad", "[script]\nscript=x.sh\n")
	if m := a.says("False/Failed", "True/TunedError"); !strings.Contains(m, "allow script") {
		t.Errorf("it says: %s", m)
	}
	a.has(dayValues)
	a.write("etc/sysctl.d/90-site.conf", "vm.swappiness = 60")
	a.write("proc/sys/vm/swappiness", "60") // sysctl --system
	night, nightValues := profileOf(map[string]string{"vm.swappiness": "30", "vm.dirty_ratio": "15"})
	nightValues["vm.swappiness"] = "60"
	a.put("", "night", night)
	if m := a.says("True/AsExpected", "True/TunedSysctlOverride"); !strings.Contains(m, "/etc/sysctl.d/90-site.conf:1") {
		t.Errorf("it says: %s", m)
	}
	a.has(nightValues)
	a.restart() // tells nothing again
	time.Sleep(3 * time.Second)
	c.must(os.Remove(filepath.Join(a.root, "etc/sysctl.d/90-site.conf")))
	a.delete()
	a.has(pristine())

	t.Run("events", func(t *testing.T) {
		events, err := c.Client.CoreV1().Events(operatorNamespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Profile"})
		if err != nil {
			t.Fatal(err)
		}
		reasons := map[string]int{}
		for _, e := range events.Items {
			reasons[e.Reason]++
		}
		if reasons["Applied"] < 2 || reasons["Failed"] < 1 || reasons["ValueOverridden"] != 1 {
			t.Errorf("%v", reasons)
		}
	})

	// What is deferred waits for a boot, through restarts of the agent.
	a.put("always", "day", day)
	a.says("False/Deferred", "True/TunedDeferredUpdate")
	a.restart()
	time.Sleep(3 * time.Second)
	a.has(pristine())
	boot := func(id string) {
		a.kill()
		reset()
		a.write("proc/sys/kernel/random/boot_id", id)
		a.start()
	}
	boot("boot-2")
	a.says("True/AsExpected", "False/AsExpected")
	a.has(dayValues)
	a.put("always", "night", night)
	a.says("False/Deferred", "True/TunedDeferredUpdate")
	a.put("always", "day", day) // taken back
	a.says("True/AsExpected", "False/AsExpected")

	// Without an API server what was accepted comes back at a boot, and stays.
	c.must(c.APIServer.Stop())
	boot("boot-3")
	a.has(dayValues)
	c.must(c.APIServer.Start())
	a.says("True/AsExpected", "False/AsExpected")
	a.delete()
	a.has(pristine())

	t.Run("killed while it applies", func(t *testing.T) { a.killedWhileApplying(t) })
	t.Run("another node's", func(t *testing.T) { c.onlyItsOwn(t, all, token) })

	// What is removed by hand.
	a.put("", "day", day)
	a.says("True/AsExpected", "False/AsExpected")
	a.kill()
	if out, err := exec.Command("kubectl-fettle", "agent", "--node=node1", "--root="+a.root, "--uninstall").CombinedOutput(); err != nil {
		t.Errorf("--uninstall: %v\n%s", err, out)
	}
	a.has(pristine())
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

// killedWhileApplying kills the agent at random moments of switches. The next agent
// brings about what is wanted, and in the end the node has what it had.
func (a *agentProcess) killedWhileApplying(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	partly := 0
	for round := range 12 {
		change := map[string]string{}
		for i := range 150 {
			if random.IntN(3) > 0 {
				change[fmt.Sprintf("test.key%d", i)] = fmt.Sprint(1000*(round+1) + i)
			}
		}
		text, values := profileOf(change)
		journal := filepath.Join(a.root, "var/lib/fettle/journal")
		size := func() int64 {
			text, _ := os.ReadFile(journal)
			return int64(len(strings.TrimRight(string(text), "\x00")))
		}
		before := size()
		a.put("", fmt.Sprint("round", round), text)
		// From the first record of the transaction on, each moment may be the last.
		for end := time.Now().Add(20 * time.Second); size() == before && time.Now().Before(end); {
			time.Sleep(200 * time.Microsecond)
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		a.kill()
		if a.differs(values) != nil {
			partly++
		}
		a.start()
		a.says("True/AsExpected", "False/AsExpected")
		a.has(values)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of 12 kills found the values half way", partly)
	a.delete()
	a.has(pristine())
}

// onlyItsOwn: with an agent's token nothing can be written but what the agent of that
// node has to say.
func (c *Cluster) onlyItsOwn(t *testing.T, admin dynamic.ResourceInterface, token string) {
	ctx := t.Context()
	for _, name := range []string{"node1", "node2"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tuned.openshift.io/v1", "kind": "Profile", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"config": map[string]any{"tunedProfile": ""}}}}
		if _, err := admin.Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = admin.Delete(ctx, name, metav1.DeleteOptions{}) }()
	}
	as := func(token string) *rest.Config {
		config := rest.AnonymousClientConfig(c.Config)
		config.BearerToken = token
		return config
	}
	of := func(token string) dynamic.ResourceInterface {
		return dynamic.NewForConfigOrDie(as(token)).Resource(profileKind).Namespace(operatorNamespace)
	}
	const status = `{"status":{"tunedProfile":"x"}}`
	annotate := func(key string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:"x"}}}`, key) }
	nowhere := c.agentToken(t, "")
	for _, try := range []struct {
		name, token, node, patch, subresource string
		refused                               string // words of the refusal; "" for none
	}{
		{"its own status", token, "node1", status, "status", ""},
		{"its own values", token, "node1", annotate(valuesAnnotation), "", ""},
		{"another node's status", token, "node2", status, "status", "the agent of node node1 writes only the Profile of that node"},
		{"another node's values", token, "node2", annotate(valuesAnnotation), "", "the agent of node node1 writes only the Profile of that node"},
		{"its own spec", token, "node1", `{"spec":{"config":{"tunedProfile":"mine"}}}`, "", "the rest is the operator's"},
		{"its own deferral", token, "node1", annotate(deferred), "", "the rest is the operator's"},
		{"its own labels", token, "node1", `{"metadata":{"labels":{"a":"b"}}}`, "", "the rest is the operator's"},
		{"its own finalizers", token, "node1", `{"metadata":{"finalizers":["a.b/c"]}}`, "", "the rest is the operator's"},
		{"a token of no node", nowhere, "node1", status, "status", "does not say on which node it is"},
	} {
		var sub []string
		if try.subresource != "" {
			sub = append(sub, try.subresource)
		}
		_, err := of(try.token).Patch(ctx, try.node, types.MergePatchType, []byte(try.patch), metav1.PatchOptions{}, sub...)
		switch {
		case try.refused == "" && err != nil:
			t.Errorf("%s: %v", try.name, err)
		case try.refused != "" && (err == nil || !strings.Contains(err.Error(), try.refused)):
			t.Errorf("%s: %v, want a refusal with %q", try.name, err, try.refused)
		}
	}
	client, err := kubernetes.NewForConfig(as(token))
	if err != nil {
		t.Fatal(err)
	}
	event := func(kind, name string) error {
		_, err := client.CoreV1().Events(operatorNamespace).Create(ctx, &core.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "try."},
			InvolvedObject: core.ObjectReference{Kind: kind, Name: name, Namespace: operatorNamespace},
		}, metav1.CreateOptions{})
		return err
	}
	if err := event("Profile", "node1"); err != nil {
		t.Error(err)
	}
	for _, e := range [][2]string{{"Profile", "node2"}, {"Pod", "node1"}} {
		if err := event(e[0], e[1]); err == nil || !strings.Contains(err.Error(), "makes events about the Profile of that node alone") {
			t.Errorf("an event about %s %s: %v", e[0], e[1], err)
		}
	}
	// What the role does not give is nothing for the policy to refuse.
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it lists nodes: %v", err)
	}
	if err := of(token).Delete(ctx, "node1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it deletes its Profile: %v", err)
	}
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
