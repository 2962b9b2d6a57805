package kubecli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fettle.dev/fettle/internal/ui"
)

// kubeOptions say which cluster, in kubectl's words.
type kubeOptions struct {
	kubeconfig string
	context    string
	namespace  string
}

func (o *kubeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster (default $KUBECONFIG, ~/.kube/config; in a pod its own account)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default its current one)")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace (default the verb's own)")
}

// clientConfig reads the kubeconfig as kubectl does. Where there is none at all, and
// the program runs in a pod, it is the pod's account.
func (o *kubeOptions) clientConfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
}

// config says how to reach the cluster. The caller sets its own limits of requests.
func (a *app) config() (*rest.Config, error) {
	c, err := a.kube.clientConfig().ClientConfig()
	if err != nil {
		return nil, a.kube.unusable(err)
	}
	a.server = c.Host
	c.UserAgent = "kubectl-fettle/" + a.version
	return c, nil
}

// unusable says what is the matter with a kubeconfig: which file, and what it lacks.
func (o *kubeOptions) unusable(err error) error {
	const view = "kubectl config view shows what is read"
	files := o.files()
	if len(files) == 0 && clientcmd.IsEmptyConfig(err) {
		return ui.Hinted(ui.Usage, errors.New("no cluster: there is no kubeconfig, and this is no pod"), "name one with --kubeconfig, or set KUBECONFIG")
	}
	if config, unread := o.clientConfig().RawConfig(); unread == nil {
		if what := o.lacks(&config); what != "" {
			return ui.Hinted(ui.Usage, fmt.Errorf("no cluster: kubeconfig %s: %s", strings.Join(files, ", "), what), view)
		}
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("the kubeconfig cannot be used: %w", err), view)
}

// files are those of the kubeconfig that there are.
func (o *kubeOptions) files() []string {
	if o.kubeconfig != "" {
		return []string{o.kubeconfig}
	}
	return slices.DeleteFunc(clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence(), func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
}

// lacks says what a kubeconfig lacks to name a cluster; "" if it does.
func (o *kubeOptions) lacks(c *clientcmdapi.Config) string {
	name := cmp.Or(o.context, c.CurrentContext)
	has := "it has " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", "), "none")
	context := c.Contexts[name]
	switch {
	case len(c.Clusters) == 0 && len(c.Contexts) == 0:
		return "it has no clusters and no contexts"
	case name == "":
		return "no context is the current one, and --context names none; " + has
	case context == nil:
		return fmt.Sprintf("there is no context %q; %s", name, has)
	case context.Cluster == "":
		return fmt.Sprintf("context %q names no cluster", name)
	case c.Clusters[context.Cluster] == nil:
		return fmt.Sprintf("context %q names the cluster %q, which it does not have", name, context.Cluster)
	case c.Clusters[context.Cluster].Server == "":
		return fmt.Sprintf("cluster %q has no server", context.Cluster)
	}
	return ""
}

// namespaceOr is --namespace, or else fallback.
func (a *app) namespaceOr(fallback string) string {
	if a.kube.namespace != "" {
		return a.kube.namespace
	}
	return fallback
}

// namespaceOfContext is --namespace, or else that of the kubeconfig's context, as
// kubectl takes it for pods.
func (a *app) namespaceOfContext() (string, error) {
	if a.kube.namespace != "" {
		return a.kube.namespace, nil
	}
	name, _, err := a.kube.clientConfig().Namespace()
	if err != nil {
		return "", a.kube.unusable(err)
	}
	return name, nil
}
