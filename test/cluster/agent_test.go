package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAgent: an agent with the rights of kube/deploy/ and no more tunes its node as the
// Profile object says, through kills, deferral and mistakes, against a real API server;
// and writes about no other node. The node is a tree of files.
func TestAgent(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	c.deployAgents(t)
	a, token := c.agentOfFiles(t)
	all := a.profiles
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
	if text := o.GetAnnotations()["fettle.dev/history"]; !strings.Contains(text, `"to":"day"`) || !strings.Contains(text, `"by":"agent of node node1"`) {
		t.Errorf("the history: %s", text)
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
	if m := a.says("False/Failed", "True/TunedError"); !strings.Contains(m, "--allow=script") {
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
		a.reset()
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
	t.Run("another node's kubelet", func(t *testing.T) { c.onlyItsKubelet(t, token) })

	// What is removed by hand.
	a.put("", "day", day)
	a.says("True/AsExpected", "False/AsExpected")
	a.kill()
	if out, err := exec.Command("kubectl-fettle", "agent", "--node=node1", "--root="+a.root, "--uninstall").CombinedOutput(); err != nil {
		t.Errorf("--uninstall: %v\n%s", err, out)
	}
	a.has(pristine())
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
		{"its own history", token, "node1", annotate("fettle.dev/history"), "", ""},
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
