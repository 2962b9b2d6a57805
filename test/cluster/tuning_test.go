package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const siteTuned = `apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: site, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile:
  - name: site
    data: |
      [main]
      include=openshift-node
      [sysctl]
      test.key5=77
  recommend:
  - {profile: site, priority: 20, match: [{label: site}]}
`

// operator is the operator of deploy, with the rights of its account, which is not started
// yet.
func (c *Cluster) operator(t *testing.T) *Program {
	t.Helper()
	kubeconfig, err := c.KubeconfigOf("system:serviceaccount:"+operatorNamespace+":fettle-operator", "system:serviceaccounts", "system:serviceaccounts:"+operatorNamespace, "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	const health = "127.0.0.1:18081"
	p := c.program(func() error {
		r, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", r.Status)
		}
		return nil
	}, "kubectl-fettle", "operator", "--kubeconfig="+kubeconfig, "--metrics-address=0", "--health-address="+health)
	p.log = filepath.Join(c.Dir, "operator.log")
	return p
}

// TestTuning: operator and agent together, by the objects and with the rights of
// kube/deploy/. The label of a node comes and goes, and with it the values; a mistake in one
// object, and a name with two texts, leave the node as it is; all is taken back.
func TestTuning(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	objects := c.applier(t)
	objects.deploy(".")
	c.served()
	a, _ := c.agentOfFiles(t)
	operator := c.operator(t)
	c.must(operator.Start())
	a.start()
	t.Cleanup(a.kill)

	tuneds := objects.dynamic.Resource(profileKind.GroupVersion().WithResource("tuneds")).Namespace(operatorNamespace)
	label := func(name string, value any) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{name: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, "node1", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, body string) {
		t.Helper()
		if _, err := tuneds.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	inForce := func(want string) {
		t.Helper()
		c.Wait("profile "+want+" on node1", 3*time.Minute, func(context.Context) error {
			o, err := a.profiles.Get(ctx, "node1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			wanted, _, _ := unstructured.NestedString(o.Object, "spec", "config", "tunedProfile")
			now, _, _ := unstructured.NestedString(o.Object, "status", "tunedProfile")
			if wanted != want || now != want {
				return fmt.Errorf("wanted %q, in force %q: %v", wanted, now, o.Object["status"])
			}
			return nil
		})
	}
	// isSaid waits until the operator says so of an object.
	isSaid := func(name, reason string) {
		t.Helper()
		c.Wait("Tuned "+name+" to be said "+reason, 3*time.Minute, func(context.Context) error {
			o, err := tuneds.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			if said, err := json.Marshal(conditions); err != nil || !strings.Contains(string(said), reason) {
				return fmt.Errorf("%s, %w", said, err)
			}
			return nil
		})
	}
	value := func(want string) {
		t.Helper()
		a.has(map[string]string{"test.key5": want})
	}

	inForce("openshift-node")
	value("5")
	objects.apply("site", []byte(siteTuned))
	label("site", "")
	inForce("site")
	value("77")
	label("site", nil)
	inForce("openshift-node")
	value("5")
	label("site", "")
	inForce("site")

	// A text that is refused holds the node: it keeps what it has. So does a name with
	// two texts. Whichever is mended, the node is followed again.
	patch("site", `{"spec":{"profile":[{"name":"site","data":"[script]\nscript=x.sh\n[sysctl]\ntest.key5=78\n"}]}}`)
	isSaid("site", "RefusedProfile")
	time.Sleep(3 * time.Second) // for what must not happen
	inForce("site")
	value("77")
	patch("site", `{"spec":{"profile":[{"name":"site","data":"[sysctl]\ntest.key5=79\n"}]}}`)
	value("79")
	objects.apply("rival", []byte(`apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: rival, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile: [{name: site, data: "[sysctl]\ntest.key5=80\n"}]
`))
	isSaid("rival", "DuplicateProfile")
	patch("site", `{"spec":{"profile":[{"name":"site","data":"[sysctl]\ntest.key5=81\n"}]}}`)
	time.Sleep(3 * time.Second) // for what must not happen
	value("79")
	if err := tuneds.Delete(ctx, "rival", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	value("81")

	// Deferral is the object's.
	patch("site", `{"metadata":{"annotations":{"tuned.openshift.io/deferred":"update"}},"spec":{"profile":[{"name":"site","data":"[sysctl]\ntest.key5=82\n"}]}}`)
	a.says("False/Deferred", "True/TunedDeferredUpdate")
	value("81")

	// The end of both programs changes nothing; Removed gives everything back.
	a.kill()
	c.must(operator.Stop())
	value("81")
	a.start()
	c.must(operator.Start())
	patch("default", `{"spec":{"managementState":"Removed"}}`)
	a.has(pristine())
	c.Wait("the Profile of node1 to be gone", 3*time.Minute, func(context.Context) error {
		if _, err := a.profiles.Get(ctx, "node1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	patch("default", `{"spec":{"managementState":"Managed"}}`)
	inForce("site")
	value("82")
}
