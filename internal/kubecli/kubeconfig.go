package kubecli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, ui.Hinted(ui.Usage, errors.New("no cluster: there is no kubeconfig, and this is no pod"), "name one with --kubeconfig, or set KUBECONFIG")
	case err != nil:
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("the kubeconfig cannot be used: %w", err), "kubectl config view shows what is read")
	}
	c.UserAgent = "kubectl-fettle/" + a.version
	return c, nil
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
		return "", ui.Hinted(ui.Usage, fmt.Errorf("the kubeconfig cannot be used: %w", err), "kubectl config view shows what is read")
	}
	return name, nil
}
