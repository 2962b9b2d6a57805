package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/operator"
	"fettle.dev/fettle/kube/tuned"
	"fettle.dev/fettle/profiles"
)

// gcPercent is the memory growth in percent that triggers a garbage collection.
const gcPercent = 50

// leastLease is the minimum duration of a lease, which is renewed several times within it.
const leastLease = 3 * time.Second

// deciding holds the options that the operator's decisions depend on.
type deciding struct {
	podLabels bool
	allow     string
}

func (d *deciding) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&d.podLabels, "pod-labels", false, "allow rules that match pod labels (watches all pods of the cluster)")
	f.StringVar(&d.allow, "allow", "", "features that profiles may use, comma-separated: script, bootloader, service, systemd, modules, exec")
	cliutil.Reads(f, "allow", "script,service", readsAllow)
}

// readsAllow validates the list of what profiles may do beyond settings.
func readsAllow(word string) error {
	_, err := tuned.ParseAllow(word)
	return err
}

func (d *deciding) options() (tuned.Options, error) {
	allow, err := tuned.ParseAllow(d.allow)
	if err != nil {
		return tuned.Options{}, err
	}
	return tuned.Options{PodLabels: d.podLabels, Allow: allow, Builtin: profiles.FS}, nil
}

func operatorCommand(a *app) *cobra.Command {
	var o operator.Options
	var d deciding
	var debug bool
	adopt := adopting{}
	machines := operator.HealthOptions{Namespaces: []string{machine.Namespace}}
	c := &cobra.Command{
		Use: "operator", Short: "Run the operator (runs in the cluster)",
		Long: `Chooses each node's profile by the rules in the Tuned objects of the operator's
namespace. It writes the profile into a Profile object with the node's name, and the
node's agent applies it.

It also rolls out the settings of KubeletConfig objects to the nodes of KubeletPools, to
at most maxUnavailable nodes at a time. It stops after the first failure. The
NodeKubelet object of a node tells the node's agent when it may start.

If another controller manages these objects, the operator writes nothing and names that
controller. To take over from it, use --adopt.

It also remediates machines according to MachineHealthChecks
(machine.openshift.io/v1beta1). Its account needs the permissions of
kube/deploy/machines. It remediates one machine at a time, and none during a rollout of
kubelet settings, a scaling or an upgrade. Machines of the control plane are only
remediated with --remediate-control-plane.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return ui.WithoutWord(fmt.Errorf("unexpected argument %q; options need an equals sign: --adopt=%s", args[0], adoptTuned), args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Recommend, err = d.options(); err != nil {
				return err
			}
			if machines.Namespaces = namespacesOf(machines.Namespaces); len(machines.Namespaces) == 0 {
				return ui.Without(errors.New("--machine-namespace: want comma-separated namespaces"), "--machine-namespace")
			}
			if err := o.Metrics.Check(); err != nil {
				return ui.Exit(ui.Usage, err)
			}
			if o.Default, err = defaultTuned(); err != nil {
				return err
			}
			o.Namespace = a.namespaceOr(tuned.Namespace)
			o.Log = logTo(a.screen.Err, debug)
			o.Adopt, machines.Adopt, machines.Log = adopt[adoptTuned], adopt[adoptMachines], o.Log
			o.Parts = []operator.Part{{
				AddToScheme: kubelet.AddToScheme,
				Add: func(m manager.Manager, worked func()) error {
					return operator.AddKubelet(m, worked, operator.KubeletOptions{Adopt: adopt[adoptKubelets], Log: o.Log})
				},
			}, {
				AddToScheme: machine.AddToScheme,
				Add:         func(m manager.Manager, worked func()) error { return operator.AddHealth(m, worked, machines) },
			}}
			return a.operate(c.Context(), o)
		},
	}
	d.flags(c)
	f := c.Flags()
	f.Var(adopt, "adopt", "take over from another controller: "+strings.Join(adoptable, ", ")+", or all")
	f.Lookup("adopt").NoOptDefVal = "all"
	f.StringSliceVar(&machines.Namespaces, "machine-namespace", machines.Namespaces, "namespaces of the machines and their MachineHealthChecks")
	f.BoolVar(&machines.ControlPlane, "remediate-control-plane", false, "also remediate machines of the control plane")
	f.BoolVar(&o.Elect, "leader-elect", true, "elect a leader among several operators")
	f.DurationVar(&o.Lease, "lease", operator.DefaultLease, "time until another operator replaces an unresponsive leader, such as 90s")
	cliutil.Between(f, "lease", leastLease, 24*time.Hour, operator.DefaultLease)
	metricFlags(f, &o.Metrics, ":8443")
	f.StringVar(&o.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz, HOST:PORT; 0 turns both off")
	f.BoolVar(&debug, "debug", false, "log each Profile that is written")
	return c
}

// namespacesOf returns the distinct namespaces in a list.
func namespacesOf(list []string) (out []string) {
	for _, n := range list {
		if n = strings.TrimSpace(n); n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// metricFlags adds the flags of a verb that serves metrics. address is the default address.
func metricFlags(f *pflag.FlagSet, o *cluster.Options, address string) {
	f.StringVar(&o.Address, "metrics-address", address, "address of the metrics, HOST:PORT; 0 turns metrics off")
	f.BoolVar(&o.Open, "metrics-open", false, "serve metrics over HTTP without authentication (default HTTPS, only for users that may get /metrics)")
	f.StringVar(&o.CertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for metrics (default a self-signed certificate)")
}

// Kinds of objects that the operator can take over from another controller.
const (
	adoptTuned    = "tuned"
	adoptKubelets = "kubelets"
	adoptMachines = "machines"
)

var adoptable = []string{adoptTuned, adoptKubelets, adoptMachines}

// adopting is the set of kinds to take over, a flag value.
type adopting map[string]bool

func (adopting) Type() string { return "objects" }

func (a adopting) String() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(adoptable), func(kind string) bool { return !a[kind] }), ",")
}

// Set parses a comma-separated list of kinds.
func (a adopting) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		kinds := []string{strings.TrimSpace(word)}
		switch {
		case kinds[0] == "all", kinds[0] == "true":
			kinds = adoptable
		case !slices.Contains(adoptable, kinds[0]):
			return fmt.Errorf("%q: want all, or one or more of %s", word, strings.Join(adoptable, ", "))
		}
		for _, kind := range kinds {
			a[kind] = true
		}
	}
	return nil
}

func (a *app) operate(ctx context.Context, o operator.Options) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		// Little of the data read from a cluster is kept, so most memory is garbage; collecting it
		// costs spare CPU time.
		debug.SetGCPercent(gcPercent)
	}
	err = operator.Run(ctx, config, o)
	switch {
	case errors.Is(err, operator.ErrNotServed):
		return ui.Hinted(ui.Refused, err, kindsHint)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil // ended before the start
	}
	return err
}

// defaultTuned returns the embedded Tuned object named default.
func defaultTuned() (*tuned.Tuned, error) {
	const file = "default-tuned.yaml"
	text, err := fs.ReadFile(deploy.FS, file)
	if err != nil {
		return nil, err
	}
	objects, err := tuned.Read(file, text)
	if err != nil {
		return nil, err
	}
	if len(objects.Tuneds) != 1 {
		return nil, fmt.Errorf("%s has %d Tuned objects", file, len(objects.Tuneds))
	}
	return &objects.Tuneds[0], nil
}
