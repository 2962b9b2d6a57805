package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
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
				return nil // no one answers: it was let through
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
		{"its own mark", token, patch(node, "node1"), `{"metadata":{"annotations":{"fettle.dev/kubelet-settings":"x"}}}`, ""},
		{"no mark", token, patch(node, "node1"), `{"metadata":{"annotations":{"fettle.dev/kubelet-settings":null}}}`, ""},
		{"another answer", token, patch(kubelets, "node2", "status"), `{"status":{"phase":"Settled"}}`, own},
		{"another cordon", token, patch(node, "node2"), cordon, own},
		{"another mark", token, patch(node, "node2"), `{"metadata":{"annotations":{"fettle.dev/kubelet-settings":"x"}}}`, own},
		{"its own label", token, patch(node, "node1"), `{"metadata":{"labels":{"a":"b"}}}`, "changes nothing else of it"},
		{"its own taint", token, patch(node, "node1"), `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`, "changes nothing else of it"},
		{"its own annotation", token, patch(node, "node1"), `{"metadata":{"annotations":{"a":"b"}}}`, "changes nothing else of it"},
		{"its own provider", token, patch(node, "node1"), `{"spec":{"providerID":"a://b"}}`, "changes nothing else of it"},
		{"a token of no node", nowhere, patch(kubelets, "node1", "status"), `{"status":{"phase":"Failed"}}`, "does not say on which node it is"},
		// What the role does not give is nothing for the policy to refuse.
		{"its own health", token, ask(node + "node1/proxy/healthz"), "", `cannot get resource "nodes/proxy"`},
		{"a command in a pod", token, ask(node + "node1/proxy/run/default/p/c?cmd=id"), "", `cannot get resource "nodes/proxy"`},
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
	// An administrator of older kubelets has given agents the right to nodes/proxy: through
	// the API server they still come no further.
	roles := c.Client.RbacV1()
	_, err := roles.ClusterRoles().Create(ctx, &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "older"}, Rules: []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	c.must(err)
	_, err = roles.ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "older"}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "older"},
		Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: operatorNamespace, Name: "fettle-agent"}},
	}, metav1.CreateOptions{})
	c.must(err)
	for _, path := range []string{"node1/proxy/healthz", "node2/proxy/healthz", "node1:10250/proxy/healthz", "node1/proxy/run/default/p/c?cmd=id"} {
		c.Wait("the policy to refuse "+path, 30*time.Second, func(context.Context) error {
			if err := ask(node+path)(as(token), ""); err == nil || !strings.Contains(err.Error(), "none through the API server") {
				return fmt.Errorf("it says: %v", err)
			}
			return nil
		})
	}
	n, err := c.Client.CoreV1().Nodes().Get(ctx, "node2", metav1.GetOptions{})
	c.must(err)
	if n.Spec.Unschedulable {
		t.Error("node2 is cordoned")
	}
}
