package kubecli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/command"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kube/admission/node"
	"fettle.dev/fettle/internal/kube/admission/podresources"
	"fettle.dev/fettle/internal/ui"
)

func podCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "pod", Short: "Say which CPUs, memory and devices a pod will get on a node, and whether it has them",
		Args: command.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(podExplainCommand(a), podVerifyCommand(a), podRecordCommand(a))
	return c
}

// machineOptions say which machine stands for the node.
type machineOptions struct {
	root       string
	kubeletDir string
}

func (o *machineOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.root, "root", "", "directory at which the root of the node is mounted, such as /host in a pod (default this machine)")
	f.StringVar(&o.kubeletDir, "kubelet-dir", node.KubeletDir, "root directory of the kubelet on the node")
}

// machine is the one that the options name.
func (o *machineOptions) machine() (*host.Host, error) {
	if !path.IsAbs(o.kubeletDir) {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--kubelet-dir %s: want the path that it has on the node, from / on", o.kubeletDir))
	}
	if o.root == "" {
		return host.Live(), nil
	}
	if st, err := os.Stat(o.root); err != nil || !st.IsDir() {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--root %s: there is no such directory", o.root))
	}
	return host.Mounted(o.root), nil
}

// client is one for reading a handful of objects.
func (a *app) client() (*kubernetes.Clientset, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// nodeOf gets the Node object of a machine, by its name or, without one, by the boot of
// the kernel that both name. A name of another machine is refused.
func nodeOf(ctx context.Context, client kubernetes.Interface, h *host.Host, name string) (*core.Node, error) {
	boot, err := h.BootID()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.Name, err)
	}
	if name != "" {
		n, err := client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("no node is called %q", name), "kubectl get nodes lists them")
		}
		if err != nil {
			return nil, err
		}
		return n, sameMachine(h, boot, n)
	}
	list, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Status.NodeInfo.BootID == boot {
			return &list.Items[i], nil
		}
	}
	return nil, ui.Hinted(ui.Refused, fmt.Errorf("%s is none of the %d nodes of the cluster: no Node object has its boot id %s", h.Name, len(list.Items), boot), elsewhere)
}

// elsewhere is what to do where this machine is not the node.
const elsewhere = "run it on the node (in a pod of it with --root and the node's processes), or there first kubectl fettle pod record DIR, and here pod explain --state DIR"

// sameMachine refuses a machine that is not the node.
func sameMachine(h *host.Host, boot string, n *core.Node) error {
	if n.Status.NodeInfo.BootID == boot {
		return nil
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s is not node %s: its boot id is %s, the node's %s; what the managers of the kubelet hold can only be read there", h.Name, n.Name, boot, n.Status.NodeInfo.BootID), elsewhere)
}

// podsOn lists the pods that are bound to a node.
func podsOn(ctx context.Context, client kubernetes.Interface, name string) (*core.PodList, error) {
	return client.CoreV1().Pods(meta.NamespaceAll).List(ctx, meta.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
}

// configz asks a kubelet for its configuration, through the API server.
func configz(ctx context.Context, client kubernetes.Interface, name string) ([]byte, error) {
	text, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(name).SubResource("proxy").Suffix("configz").DoRaw(ctx)
	if err == nil {
		return text, nil
	}
	err = fmt.Errorf("the configuration of the kubelet of node %s: %w", name, err)
	if apierrors.IsForbidden(err) {
		return nil, ui.Hinted(ui.Failed, err, "it takes the right to get nodes/proxy")
	}
	return nil, err
}

// snapshot reads a node, on it and from the API.
func (a *app) snapshot(ctx context.Context, name string, o machineOptions) (*node.Snapshot, error) {
	h, err := o.machine()
	if err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	s := &node.Snapshot{From: h.Name, Taken: time.Now(), Files: h.Files, KubeletDir: o.kubeletDir}
	if s.Node, err = nodeOf(ctx, client, h, name); err != nil {
		return nil, err
	}
	if s.Config, err = configz(ctx, client, s.Node.Name); err != nil {
		return nil, err
	}
	if s.Pods, err = podsOn(ctx, client, s.Node.Name); err != nil {
		return nil, err
	}
	socket := filepath.Join("/", o.root, o.kubeletDir, podresources.Socket)
	if s.Resources, err = podresources.Ask(ctx, socket); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.Unasked = "the kubelet does not say which it has: " + err.Error()
	}
	return s, nil
}

func podRecordCommand(a *app) *cobra.Command {
	var o machineOptions
	var name string
	c := &cobra.Command{
		Use: "record DIR", Short: "On a node: write what pod explain needs to know of it into a directory",
		Long: `Writes what a prediction needs to know of a node into a new directory: its
topology, the configuration of its kubelet, what the kubelet's managers hold, its
devices, and of its pods names, resources and phase. It runs on the node, as root.
Elsewhere, pod explain --state DIR reads the directory.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.snapshot(c.Context(), name, o)
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
	c.Flags().StringVar(&name, "node", "", "name of the node (default the one that runs here)")
	o.flags(c.Flags())
	return c
}

// asRoot says of a file that may not be read what to do.
func asRoot(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return ui.Hinted(ui.Failed, err, "the files of a kubelet are root's: run it as root")
	}
	return err
}
