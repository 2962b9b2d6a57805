package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/pod/admission/node"
)

func podCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "pod", Short: "Predict and verify the CPUs and memory of a pod",
		Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(podExplainCommand(a), podVerifyCommand(a), podRecordCommand(a))
	return c
}

// machineOptions select the machine that is the node.
type machineOptions struct {
	root       string
	kubeletDir string
}

func (o *machineOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.root, "root", "", "directory where the node's root file system is mounted, such as /host in a pod (default this machine's /)")
	f.StringVar(&o.kubeletDir, "kubelet-dir", node.KubeletDir, "root directory of the kubelet on the node")
}

// machine returns the selected machine.
func (o *machineOptions) machine() (*host.Host, error) {
	if !path.IsAbs(o.kubeletDir) {
		return nil, ui.Without(fmt.Errorf("--kubelet-dir %s: want an absolute path on the node", o.kubeletDir), "--kubelet-dir")
	}
	if o.root == "" {
		return host.Live(), nil
	}
	switch st, err := os.Stat(o.root); {
	case err != nil:
		return nil, ui.Without(fmt.Errorf("--root %s: no such directory", o.root), "--root")
	case !st.IsDir():
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--root %s is not a directory", o.root), "--root takes the root file system of a node, mounted here, such as /host\nfor a recorded node, name its directory: kubectl fettle pod explain FILE --state DIR")
	}
	return host.Mounted(o.root), nil
}

// client returns a client that reads a few objects.
func (a *app) client() (*kubernetes.Clientset, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// placed describes which machine a verb reads.
type placed struct {
	client kubernetes.Interface
	h      *host.Host
	// elsewhere is the advice if the node is another machine, or "".
	elsewhere string
}

// nodeOf returns the machine's Node object, by its name, or else by its boot ID. It returns an
// error if name is another machine's.
func (p placed) nodeOf(ctx context.Context, name string) (*core.Node, error) {
	boot, err := p.h.BootID()
	if err == nil && boot == "" {
		err = errors.New("/proc/sys/kernel/random/boot_id is empty")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s is not the root file system of a running machine: no /proc/sys/kernel/random/boot_id", p.h.Name), "name the directory where the node's root file system is mounted with --root, such as /host in a pod")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.h.Name, err)
	}
	if name != "" {
		n, err := p.client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("no node is named %q", name), "kubectl get nodes lists all nodes")
		}
		if err != nil {
			return nil, err
		}
		return n, p.same(ctx, boot, n)
	}
	list, err := p.client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	if n := booted(list, boot); n != nil {
		return n, nil
	}
	silent := 0
	for _, n := range list.Items {
		if n.Status.NodeInfo.BootID == "" {
			silent++
		}
	}
	without := ""
	if silent > 0 {
		without = fmt.Sprintf("; %s no boot id (a running kubelet reports its node's)", text.Count(silent, "node")+map[bool]string{true: " has", false: " have"}[silent == 1])
	}
	return nil, ui.Hinted(ui.Refused, fmt.Errorf("%s is not a node of this cluster: none of its %s has the boot id %s%s", p.h.Name, text.Count(len(list.Items), "node"), boot, without), p.advice("the right node", "NODE"))
}

// booted returns the node with a boot ID, or nil.
func booted(list *core.NodeList, boot string) *core.Node {
	for i := range list.Items {
		if list.Items[i].Status.NodeInfo.BootID == boot {
			return &list.Items[i]
		}
	}
	return nil
}

// advice returns what to do if this machine is not the node.
func (p placed) advice(node, name string) string {
	text := fmt.Sprintf("run this command on %s as root, over ssh or in a pod with hostPID and the node's root file system: kubectl debug node/%s, then --root /host", node, name)
	if p.elsewhere != "" {
		text += "; " + p.elsewhere
	}
	return text
}

// same returns an error if this machine's boot ID is not the node's; the error names this machine's
// node.
func (p placed) same(ctx context.Context, boot string, n *core.Node) error {
	theirs := n.Status.NodeInfo.BootID
	switch {
	case theirs == boot:
		return nil
	case theirs == "":
		return ui.Hinted(ui.Failed, fmt.Errorf("unknown whether %s is node %s: the Node object has no boot id (status.nodeInfo.bootID), which a running kubelet reports", p.h.Name, n.Name), fmt.Sprintf("kubectl describe node %s shows whether its kubelet has ever reported its status", n.Name))
	}
	is := fmt.Sprintf("%s is not node %s", p.h.Name, n.Name)
	if list, err := p.client.CoreV1().Nodes().List(ctx, meta.ListOptions{}); err == nil {
		if own := booted(list, boot); own != nil {
			is += fmt.Sprintf(", but node %s", own.Name)
		}
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s (its boot id is %s; node %s has %s); the state of the kubelet's managers can only be read on the node itself", is, boot, n.Name, theirs), p.advice("node "+n.Name, n.Name))
}

// podsOn returns the pods bound to a node.
func podsOn(ctx context.Context, client kubernetes.Interface, name string) (*core.PodList, error) {
	return client.CoreV1().Pods(meta.NamespaceAll).List(ctx, meta.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
}

// configz reads a kubelet's configuration through the API server.
func configz(ctx context.Context, client kubernetes.Interface, n *core.Node) ([]byte, error) {
	text, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.Name).SubResource("proxy").Suffix("configz").DoRaw(ctx)
	if err == nil {
		return text, nil
	}
	err = fmt.Errorf("cannot read the kubelet configuration of node %s: %w", n.Name, err)
	if apierrors.IsForbidden(err) {
		return nil, ui.Hinted(ui.Failed, err, "allow this user to get nodes/proxy")
	}
	if lacks := cluster.NoWay(n); lacks != "" {
		return nil, ui.Hinted(ui.Failed, fmt.Errorf("cannot read the kubelet configuration of node %s: %s", n.Name, lacks), "kubectl describe node "+n.Name+" shows its last status")
	}
	return nil, err
}

// snapshot reads a node from the machine and from the API. If offline is set and no cluster is
// configured, it reads only the machine.
func (a *app) snapshot(ctx context.Context, name string, o machineOptions, offline bool) (*node.Snapshot, error) {
	h, err := o.machine()
	if err != nil {
		return nil, err
	}
	client, err := a.client()
	if errors.Is(err, errNoKubeconfig) && name == "" && offline {
		return a.snapshotOffline(ctx, h, o)
	}
	if err != nil {
		return nil, err
	}
	s := &node.Snapshot{From: h.Name, Taken: time.Now(), Files: h.Files, KubeletDir: o.kubeletDir}
	if s.Node, err = (placed{client, h, "or run kubectl fettle pod record DIR on the node, and pod explain FILE --state DIR on this machine"}).nodeOf(ctx, name); err != nil {
		return nil, err
	}
	if s.Config, err = configz(ctx, client, s.Node); err != nil {
		return nil, err
	}
	if s.Pods, err = podsOn(ctx, client, s.Node.Name); err != nil {
		return nil, err
	}
	return s, o.askDevices(ctx, s)
}

// askDevices adds the kubelet's devices to a snapshot.
func (o *machineOptions) askDevices(ctx context.Context, s *node.Snapshot) (err error) {
	socket := filepath.Join("/", o.root, o.kubeletDir, node.Socket)
	if s.Resources, err = node.Ask(ctx, socket); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Unasked = "the kubelet does not report its devices: " + err.Error()
	}
	return nil
}

// snapshotOffline reads a node from the machine only, without its Node object and pods.
func (a *app) snapshotOffline(ctx context.Context, h *host.Host, o machineOptions) (*node.Snapshot, error) {
	files := []string{path.Join(o.kubeletDir, "config.yaml"), "/etc/kubernetes/kubelet.conf"} // kubeadm, OpenShift
	for _, file := range files {
		text, err := h.Files.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, asRoot(err)
		}
		s := &node.Snapshot{From: h.Name, Taken: time.Now(), Files: h.Files, KubeletDir: o.kubeletDir}
		if s.Config, err = node.ConfigOf(text); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		a.screen.Say("no kubeconfig found: predicted offline from %s of %s, without labels, taints, other pods, and the kubelet's drop-ins and options", file, h.Name)
		return s, o.askDevices(ctx, s)
	}
	return nil, ui.Hinted(ui.Usage, fmt.Errorf("no cluster: %w; and %s is not a node: no %s", errNoKubeconfig, h.Name, strings.Join(files, " and no ")),
		"run kubectl fettle pod record DIR on a node, then pod explain FILE --state DIR on this machine; or name a cluster with --kubeconfig")
}

func podRecordCommand(a *app) *cobra.Command {
	var o machineOptions
	var name string
	c := &cobra.Command{
		Use: "record DIR", Short: "Record a node for pod explain (run on the node)",
		Long: `Records a node for pod explain in a new directory: its topology, the kubelet's
configuration, the state of the kubelet's managers, and devices. Of the node's pods it
records names, resources and phases. Run this command on the node, as root. On another
machine, pod explain --state DIR reads the directory.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.snapshot(c.Context(), name, o, false)
			if err != nil {
				return err
			}
			if err := s.Save(args[0]); err != nil {
				return asRoot(err)
			}
			a.screen.Say("wrote %s: node %s at %s", args[0], s.Name(), s.Taken.UTC().Format(time.RFC3339))
			return nil
		},
	}
	c.Flags().StringVar(&name, "node", "", "name of the node (default this node)")
	o.flags(c.Flags())
	return c
}

// asRoot adds a hint to the error of an unreadable file.
func asRoot(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return ui.Hinted(ui.Failed, err, "only root can read the kubelet's files; run this command as root")
	}
	return err
}
