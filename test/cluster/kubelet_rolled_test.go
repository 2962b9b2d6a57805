package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
)

const (
	kubeletConfigs = "/apis/machineconfiguration.openshift.io/v1/kubeletconfigs"
	kubeletPools   = "/apis/fettle.dev/v1alpha1/kubeletpools"
	nodeKubelets   = "/apis/fettle.dev/v1alpha1/nodekubelets"
)

// unmanagedTuned keeps the operator and the agents from tuning: it is not what these
// tests are about, and their agents act on this kernel.
const unmanagedTuned = `
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: default, namespace: openshift-cluster-node-tuning-operator}
spec: {managementState: Unmanaged}
`

// deployKubelets gives the cluster what kube/deploy/ has, KubeletConfig objects, and an operator
// with the rights of kube/deploy/.
func (c *Cluster) deployKubelets(t *testing.T, options ...string) (operator *Program) {
	t.Helper()
	a := c.applier(t)
	a.deploy(".")
	const plain = "kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml"
	text, err := fs.ReadFile(deploy.FS, plain)
	c.must(err)
	a.apply(plain, text)
	c.served()
	a.apply("the object default", []byte(unmanagedTuned))
	c.Wait("the definitions to be served", time.Minute, func(ctx context.Context) error {
		for _, path := range []string{kubeletPools, kubeletConfigs, nodeKubelets} {
			if err := c.Client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	account := "system:serviceaccount:" + tunedNamespace + ":fettle-operator"
	kubeconfig, err := c.KubeconfigOf(account, "system:serviceaccounts", "system:serviceaccounts:"+tunedNamespace, "system:authenticated")
	c.must(err)
	b := &operatorBench{t: t, Cluster: c}
	operator = c.program(b.ready, append([]string{
		"kubectl-fettle", "operator", "--kubeconfig=" + kubeconfig, "--metrics-address=" + operatorMetrics, "--metrics-open", "--health-address=" + operatorHealth, "--lease=20s",
	}, options...)...)
	operator.log = filepath.Join(c.Dir, "operator.log")
	c.must(operator.Start())
	return operator
}

// rolled are the objects of a roll-out, and the agent of the real node.
type rolled struct {
	*testing.T
	c       *Cluster
	systemd *systemd
	agent   *Program // nil where it is a pod
}

func (r *rolled) get(path string, into any) error {
	text, err := r.c.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(context.Background())
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// config makes the KubeletConfig of a name say this; "" removes it.
func (r *rolled) config(name, fields string) {
	r.Helper()
	client := r.c.Client.CoreV1().RESTClient()
	if fields == "" {
		r.c.must(client.Delete().AbsPath(kubeletConfigs, name).Do(r.Context()).Error())
		return
	}
	f, err := kubelet.Parse([]byte(fields))
	r.c.must(err)
	text, err := json.Marshal(f)
	r.c.must(err)
	// In one step: nothing is wanted in between.
	err = client.Patch(types.JSONPatchType).AbsPath(kubeletConfigs, name).Body(fmt.Appendf(nil, `[{"op":"replace","path":"/spec/kubeletConfig","value":%s}]`, text)).Do(r.Context()).Error()
	if apierrors.IsNotFound(err) {
		err = r.c.post(r.Context(), kubeletConfigs, fmt.Sprintf(
			"{apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, metadata: {name: %s}, spec: {machineConfigPoolSelector: {matchLabels: {kubelet: real}}, kubeletConfig: %s}}", name, fields))
	}
	r.c.must(err)
}

// until waits until the pool and the node's object say something.
func (r *rolled) until(what string, holds func(kubelet.KubeletPool, kubelet.NodeKubelet) bool) (kubelet.KubeletPool, kubelet.NodeKubelet) {
	r.Helper()
	var p kubelet.KubeletPool
	var k kubelet.NodeKubelet
	r.c.Wait(what, 4*time.Minute, func(context.Context) error {
		p, k = kubelet.KubeletPool{}, kubelet.NodeKubelet{}
		if err := r.get(kubeletPools+"/real", &p); err != nil {
			return err
		}
		if err := r.get(nodeKubelets+"/"+r.c.Kubelet.Node, &k); err != nil {
			return err
		}
		if !holds(p, k) {
			return &notYet{fmt.Sprintf("pool %+v\nnode %+v %+v", p.Status, k.Spec, k.Status), r.agentSays}
		}
		return nil
	})
	return p, k
}

// notYet is an error that asks the agent only when it is read.
type notYet struct {
	text string
	says func() string
}

func (n *notYet) Error() string { return n.text + "\nthe agent: " + n.says() }

// agentSays is the end of the log of the agent, which is a process or a pod.
func (r *rolled) agentSays() string {
	if r.agent != nil {
		return r.agent.Log(8)
	}
	out, err := exec.Command("kubectl", "--kubeconfig="+r.c.Kubeconfig, "-n", operatorNamespace, "logs", "daemonset/fettle-agent", "--tail=12").CombinedOutput()
	return fmt.Sprintf("%s %v", out, err)
}

// updated waits until the node has what is wanted now, by settings that it has not had
// before: other is the digest of those.
func (r *rolled) updated(what, other string) kubelet.NodeKubelet {
	r.Helper()
	began := time.Now()
	_, k := r.until(what, func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return p.Status.Digest != other && p.Status.Updated == 1 && !k.Changing() && k.Status.Has == p.Status.Digest && meta.IsStatusConditionTrue(p.Status.Conditions, kubelet.Updated)
	})
	r.Logf("%s: after %.1f s, %.1f s without a kubelet; systemd was told %s", what, time.Since(began).Seconds(), float64(k.Status.DownMilliseconds)/1000, r.systemd.orders())
	if r.c.cordoned(r.T) {
		r.Errorf("%s: the node is cordoned", what)
	}
	return k
}

func degraded(p kubelet.KubeletPool, reason string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, kubelet.Degraded)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
		return ""
	}
	return c.Message
}

// startAgent starts the agent of the node as a process, with the token that the kubelet
// would give its pod.
func (r *rolled) startAgent() {
	r.Helper()
	r.c.must(r.agent.Start())
}
