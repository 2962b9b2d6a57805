package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	config "k8s.io/kubelet/config/v1beta1"
)

// Kubelet is the kubelet of the real node. Its state is in Dir.
type Kubelet struct {
	*Program
	// Node is the node's name.
	Node string
	// Config is its configuration file. ConfigDir is the directory of drop-ins, which are files
	// that end in ".conf".
	Config, ConfigDir string
	// Dir has its state (cpu_manager_state and others), pods and plug-ins.
	Dir string
	// Kubeconfig is its own: the user system:node:NODE.
	Kubeconfig string
	// Address is the node's.
	Address string

	c *Cluster
}

// kubelet describes the kubelet of the node and writes its configuration.
func (c *Cluster) kubelet(node string, ready func() error) (*Kubelet, error) {
	k := &Kubelet{
		Node: node, Dir: kubeletDir, Address: nodeAddress, c: c,
		Config: kubeletEtc + "/kubelet.conf", ConfigDir: kubeletEtc + "/kubelet.conf.d",
	}
	var err error
	if k.Kubeconfig, err = c.KubeconfigOf("system:node:"+node, "system:nodes"); err != nil {
		return nil, err
	}
	serving, err := c.authority.server("kubelet", nodeAddress, node)
	if err != nil {
		return nil, err
	}
	resolv := kubeletEtc + "/pods-resolv.conf"
	text, err := json.MarshalIndent(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address":        nodeAddress,
		"tlsCertFile":    serving.certFile,
		"authentication": map[string]any{"x509": map[string]any{"clientCAFile": c.authority.certFile}},
		"clusterDomain":  "cluster.local", "clusterDNS": []string{"10.0.0.10"}, "resolvConf": resolv,
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		// Version 1 of control groups is no error for now; a systemd is not needed.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup,
		"failSwapOn":        false,
		"tlsPrivateKeyFile": serving.keyFile,
		// The kernel's settings have been set by fettle, which gives them back (borrow).
		"protectKernelDefaults":  true,
		"makeIPTablesUtilChains": false,
		// Whatever the machine is short of: nothing is evicted, and no image removed.
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.ConfigDir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(resolv, []byte("nameserver "+nodeGateway+"\n"), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(k.Config, text, 0o644); err != nil {
		return nil, err
	}
	k.Program = c.program(ready, "kubelet", "--kubeconfig="+k.Kubeconfig, "--config="+k.Config, "--config-dir="+k.ConfigDir,
		"--hostname-override="+node, "--node-ip="+nodeAddress, "--root-dir="+k.Dir, "--cert-dir="+filepath.Join(k.Dir, "pki"))
	return k, nil
}

// DropIn writes a drop-in, such as "90-test" with `{"maxPods": 50}`; fields "" removes it. The
// kubelet reads it at its next start.
func (k *Kubelet) DropIn(name, fields string) {
	k.c.t.Helper()
	file := filepath.Join(k.ConfigDir, name+".conf")
	if fields == "" {
		k.c.must(os.Remove(file))
		return
	}
	// A drop-in has its apiVersion and kind, like the main file.
	text := `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", ` + strings.TrimPrefix(strings.TrimSpace(fields), "{")
	k.c.must(os.WriteFile(file, []byte(text), 0o644))
}

// Configz returns the configuration of the running kubelet, as the kubelet reports it through the
// API server.
func (k *Kubelet) Configz(ctx context.Context) (*config.KubeletConfiguration, error) {
	text, err := k.c.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(k.Node).SubResource("proxy").Suffix("configz").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var z struct{ KubeletConfig *config.KubeletConfiguration }
	if err := json.Unmarshal(text, &z); err != nil {
		return nil, fmt.Errorf("configz: %w", err)
	}
	if z.KubeletConfig == nil {
		return nil, fmt.Errorf("configz: no configuration in %.200s", text)
	}
	return z.KubeletConfig, nil
}

// Ready returns an error unless the node is Ready and has reported since the running kubelet was
// started. Without this check a node would stay Ready for a while after its kubelet has ended.
func (k *Kubelet) Ready(ctx context.Context) error {
	if !k.Running() {
		return fmt.Errorf("the kubelet does not run; the end of its log:\n%s", k.Log(20))
	}
	node, err := k.c.Client.CoreV1().Nodes().Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return err
	}
	if err := ready(node); err != nil {
		return err
	}
	lease, err := k.c.Client.CoordinationV1().Leases(core.NamespaceNodeLease).Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(k.started) {
		return fmt.Errorf("the lease of node %s has not been renewed since the kubelet was started", k.Node)
	}
	return nil
}

// ready returns an error unless the node's condition Ready is true.
func ready(node *core.Node) error {
	i := slices.IndexFunc(node.Status.Conditions, func(c core.NodeCondition) bool { return c.Type == core.NodeReady })
	if i < 0 {
		return fmt.Errorf("node %s does not say whether it is Ready", node.Name)
	}
	if c := node.Status.Conditions[i]; c.Status != core.ConditionTrue {
		return fmt.Errorf("node %s is not Ready: %s: %s", node.Name, c.Reason, c.Message)
	}
	return nil
}

// Processes returns the IDs of the processes in the containers of a pod: the processes of the pod's
// control group except those that only hold its namespaces.
func (k *Kubelet) Processes(pod types.UID) []int {
	var all []int
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, name := range files {
		groups, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(groups), "/pod"+string(pod)+"/") {
			continue // another one's, or it has ended
		}
		dir := filepath.Dir(name)
		// Its path is not that of the container, whose root lies in this one.
		if exe, err := os.Readlink(dir + "/exe"); err != nil || filepath.Base(exe) == "pause" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// Away waits until no process of the pod runs any more.
func (k *Kubelet) Away(pod types.UID, within time.Duration) {
	k.c.t.Helper()
	k.c.Wait("the processes of pod "+string(pod)+" to end", within, func(context.Context) error {
		if left := k.Processes(pod); len(left) > 0 {
			return fmt.Errorf("processes %v run", left)
		}
		return nil
	})
}
