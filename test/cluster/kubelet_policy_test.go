package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// onlyItsKubelet: with an agent's token the kubelet of its own node can be changed, and
// nothing else of that node, and nothing of another one.
func (c *Cluster) onlyItsKubelet(t *testing.T, token string) {
	ctx := t.Context()
	as := func(token string) rest.Interface {
		config := rest.AnonymousClientConfig(c.Config)
		config.BearerToken, config.QPS = token, -1
		client, err := kubernetes.NewForConfig(config)
		c.must(err)
		return client.CoreV1().RESTClient()
	}
	const kubelets = "/apis/fettle.dev/v1alpha1/nodekubelets"
	for _, name := range []string{"node1", "node2"} {
		c.Wait("a NodeKubelet to be taken", time.Minute, func(ctx context.Context) error {
			return c.post(ctx, kubelets, fmt.Sprintf("{apiVersion: fettle.dev/v1alpha1, kind: NodeKubelet, metadata: {name: %s}, spec: {pool: a}}", name))
		})
	}
	patch := func(path ...string) func(rest.Interface, string) error {
		return func(client rest.Interface, body string) error {
			return client.Patch(types.MergePatchType).AbsPath(path...).Body([]byte(body)).Do(ctx).Error()
		}
	}
	ask := func(path string) func(rest.Interface, string) error {
		return func(client rest.Interface, _ string) error {
			err := client.Get().AbsPath(path).Do(ctx).Error()
			if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				return nil // nobody is there to answer: it was let through
			}
			return err
		}
	}
	nowhere := c.agentToken(t, "")
	const node, own, cordon = "/api/v1/nodes/", "the kubelet of that node alone", `{"spec":{"unschedulable":true},"metadata":{"annotations":{"fettle.dev/cordoned":"x"}}}`
	for _, try := range []struct {
		name, token string
		do          func(rest.Interface, string) error
		body        string
		refused     string // words of the refusal; "" for none
	}{
		{"its own answer", token, patch(kubelets, "node1", "status"), `{"status":{"phase":"Settled"}}`, ""},
		{"its own cordon", token, patch(node, "node1"), cordon, ""},
		{"and back", token, patch(node, "node1"), `{"spec":{"unschedulable":false},"metadata":{"annotations":{"fettle.dev/cordoned":null}}}`, ""},
		{"its own health", token, ask(node + "node1/proxy/healthz"), "", ""},
		{"its own settings", token, ask(node + "node1/proxy/configz"), "", ""},
		{"another answer", token, patch(kubelets, "node2", "status"), `{"status":{"phase":"Settled"}}`, own},
		{"another cordon", token, patch(node, "node2"), cordon, own},
		{"another health", token, ask(node + "node2/proxy/healthz"), "", own},
		{"another port", token, ask(node + "node1:10250/proxy/healthz"), "", own},
		{"a command in a pod", token, ask(node + "node1/proxy/run/default/p/c?cmd=id"), "", "asks its kubelet for /healthz and /configz"},
		{"all that the kubelet says", token, ask(node + "node1/proxy/"), "", "asks its kubelet for /healthz and /configz"},
		{"its own label", token, patch(node, "node1"), `{"metadata":{"labels":{"a":"b"}}}`, "changes nothing else of it"},
		{"its own taint", token, patch(node, "node1"), `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`, "changes nothing else of it"},
		{"its own annotation", token, patch(node, "node1"), `{"metadata":{"annotations":{"a":"b"}}}`, "changes nothing else of it"},
		{"its own provider", token, patch(node, "node1"), `{"spec":{"providerID":"a://b"}}`, "changes nothing else of it"},
		{"a token of no node", nowhere, patch(kubelets, "node1", "status"), `{"status":{"phase":"Failed"}}`, "does not say on which node it is"},
		{"a token of no node, health", nowhere, ask(node + "node1/proxy/healthz"), "", "does not say on which node it is"},
		// What the role does not give is nothing for the policy to refuse.
		{"its own turn", token, patch(kubelets, "node1"), `{"spec":{"turn":7}}`, "cannot patch resource"},
		{"its own node's status", token, patch(node, "node1", "status"), `{"status":{"phase":"x"}}`, "cannot patch resource"},
		{"a pool", token, patch("/apis/fettle.dev/v1alpha1/kubeletpools/a"), `{"spec":{"paused":true}}`, "cannot patch resource"},
	} {
		err := try.do(as(try.token), try.body)
		switch {
		case try.refused == "" && err != nil:
			t.Errorf("%s: %v", try.name, err)
		case try.refused != "" && (err == nil || !strings.Contains(err.Error(), try.refused)):
			t.Errorf("%s: %v, want a refusal with %q", try.name, err, try.refused)
		}
	}
	n, err := c.Client.CoreV1().Nodes().Get(ctx, "node2", metav1.GetOptions{})
	c.must(err)
	if n.Spec.Unschedulable {
		t.Error("node2 is cordoned")
	}
}
