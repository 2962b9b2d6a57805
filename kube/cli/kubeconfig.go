package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/strict"
)

// kubeOptions select the cluster and the user with kubectl's options.
type kubeOptions struct {
	kubeconfig string
	// over holds the options that override the kubeconfig.
	over clientcmd.ConfigOverrides
}

// ownFlags are the kubectl flags that every verb's help shows. The program's help and kubectl
// options show the others.
var ownFlags = []string{"kubeconfig", clientcmd.FlagContext, clientcmd.FlagNamespace}

// flags adds kubectl's flags by client-go's names, except user name and password, which Kubernetes
// dropped in 1.19.
func (o *kubeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG or ~/.kube/config; in a pod its service account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.CurrentContext.Description = "context of the kubeconfig (default the current one)"
	names.ContextOverrideFlags.Namespace.Description = "namespace (default depends on the verb)"
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.ClusterOverrideFlags.ProxyURL.LongName = "" // kubectl reads it only from the kubeconfig
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	theirs := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&o.over, theirs, names)
	theirs.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(ownFlags, flag.Name)
		f.AddFlag(flag)
	})
}

// clientConfig reads the kubeconfig like kubectl. Without one, a program in a pod uses the pod's
// service account.
func (o *kubeOptions) clientConfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.over)
}

// config returns the client configuration. Callers set their own rate limits.
func (a *app) config() (*rest.Config, error) {
	if err := a.kube.check(); err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	c, err := a.kube.clientConfig().ClientConfig()
	if err != nil {
		return nil, a.kube.unusable(err)
	}
	if err := a.kube.complete(c); err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	a.server, a.patience = c.Host, c.Timeout
	c.UserAgent = "kubectl-fettle/" + a.version
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return noPages{next} })
	return c, nil
}

// check returns an error for options that clientcmd would ignore, or whose errors it would blame on
// the kubeconfig.
func (o *kubeOptions) check() error {
	who := o.over.AuthInfo
	if who.Impersonate == "" && (who.ImpersonateUID != "" || len(who.ImpersonateGroups) > 0) {
		return ui.Without(errors.New("--as-group and --as-uid need --as USER"), "--as-group", "--as-uid")
	}
	if o.over.Timeout != "" {
		if d, err := clientcmd.ParseTimeout(o.over.Timeout); err != nil || d < 0 {
			return ui.Instead(ui.Usage, fmt.Errorf("--request-timeout %s: want a time such as 30s or 2m, or 0 for no limit", o.over.Timeout), "", "--request-timeout=30s")
		}
	}
	if ca := o.over.ClusterInfo.CertificateAuthority; ca != "" {
		if o.over.ClusterInfo.InsecureSkipTLSVerify {
			return ui.Without(errors.New("--certificate-authority and --insecure-skip-tls-verify exclude each other"), "--insecure-skip-tls-verify")
		}
		if _, err := os.Stat(ca); err != nil {
			return fmt.Errorf("--certificate-authority: %w", err)
		}
	}
	return nil
}

// complete adds options that clientcmd ignores. For a pod's own service account, clientcmd uses
// only address, token and CA, so the account would act instead of the named user. A kubeconfig's
// configuration is complete already.
func (o *kubeOptions) complete(c *rest.Config) error {
	if who := o.over.AuthInfo; who.Impersonate != "" && c.Impersonate.UserName == "" {
		c.Impersonate.UserName, c.Impersonate.UID, c.Impersonate.Groups = who.Impersonate, who.ImpersonateUID, who.ImpersonateGroups
	}
	if o.over.Timeout != "" {
		d, err := clientcmd.ParseTimeout(o.over.Timeout)
		if err != nil {
			return err
		}
		c.Timeout = d
	}
	if o.over.ClusterInfo.InsecureSkipTLSVerify {
		c.Insecure, c.CAFile, c.CAData = true, "", nil
	}
	if name := o.over.ClusterInfo.TLSServerName; name != "" {
		c.ServerName = name
	}
	if cert := o.over.AuthInfo.ClientCertificate; cert != "" && c.CertFile == "" && len(c.CertData) == 0 {
		c.CertFile, c.KeyFile = cert, o.over.AuthInfo.ClientKey
		c.BearerToken, c.BearerTokenFile = o.over.AuthInfo.Token, ""
	}
	return nil
}

// errNoKubeconfig means that no cluster is configured. Some verbs then work without a cluster.
var errNoKubeconfig = errors.New("no kubeconfig found, and this is not a pod")

// unusable explains why a kubeconfig is unusable, with the file and the missing entry.
func (o *kubeOptions) unusable(err error) error {
	const view = "kubectl config view shows the configuration in use"
	files := o.files()
	if len(files) == 0 && clientcmd.IsEmptyConfig(err) {
		none := errNoKubeconfig
		if named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); named != "" {
			none = fmt.Errorf("KUBECONFIG names %s, which does not exist, and this is not a pod", strings.Join(filepath.SplitList(named), ", "))
		}
		return ui.Retry(ui.Usage, fmt.Errorf("no cluster: %w", none), "name a kubeconfig file with --kubeconfig, or set KUBECONFIG", "--kubeconfig=/etc/kubernetes/admin.conf")
	}
	const other = "name another file with --kubeconfig or KUBECONFIG"
	for _, name := range files {
		switch st, err := os.Stat(name); {
		case err != nil:
			return ui.Hinted(ui.Usage, fmt.Errorf("invalid kubeconfig: %w", err), other)
		case st.IsDir():
			return ui.Hinted(ui.Usage, fmt.Errorf("invalid kubeconfig: %s is a directory; want a regular file", name), other)
		}
		if wrong := wrongIn(name); wrong != nil {
			return ui.Hinted(ui.Usage, fmt.Errorf("invalid kubeconfig: %w", wrong), "correct it, or "+other+"; check a file with kubectl config view --kubeconfig FILE")
		}
	}
	if config, unread := o.clientConfig().RawConfig(); unread == nil {
		if what := o.lacks(&config); what != "" {
			return ui.Hinted(ui.Usage, fmt.Errorf("no cluster: kubeconfig %s: %s", strings.Join(files, ", "), what), view)
		}
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("invalid kubeconfig: %w", err), view)
}

// wrongIn returns why a file is not a kubeconfig; nil if it is valid or does not exist.
func wrongIn(name string) error {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	text, err := readNamed(name, maxManifest) // "-" is a file name here
	if err != nil {
		return err
	}
	if len(text) > maxManifest {
		return fmt.Errorf("%s is larger than %d MiB", name, maxManifest>>20)
	}
	if _, err = clientcmd.Load(text); err == nil {
		return nil
	}
	if runtime.IsNotRegisteredError(err) {
		return fmt.Errorf("%s: want apiVersion v1 and kind Config", name)
	}
	return strict.Typed(name, text, err)
}

// files returns the kubeconfig's existing files.
func (o *kubeOptions) files() []string {
	if o.kubeconfig != "" {
		return []string{o.kubeconfig}
	}
	return slices.DeleteFunc(clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence(), func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
}

// lacks returns the entry that a kubeconfig lacks to select a cluster, or "".
func (o *kubeOptions) lacks(c *clientcmdapi.Config) string {
	context, cluster, user := cmp.Or(o.over.CurrentContext, c.CurrentContext), o.over.Context.Cluster, o.over.Context.AuthInfo
	switch {
	case len(c.Clusters) == 0 && len(c.Contexts) == 0:
		return "it contains no clusters and no contexts"
	case user != "" && c.AuthInfos[user] == nil:
		return fmt.Sprintf("user %q not found; the kubeconfig's users: %s", user, namesOf(c.AuthInfos))
	case cluster != "" && c.Clusters[cluster] == nil:
		return fmt.Sprintf("cluster %q not found; the kubeconfig's clusters: %s", cluster, namesOf(c.Clusters))
	case cluster == "" && context == "":
		return "no current context; choose one with --context: " + namesOf(c.Contexts)
	case context != "" && c.Contexts[context] == nil:
		return fmt.Sprintf("context %q not found; the kubeconfig's contexts: %s", context, namesOf(c.Contexts))
	}
	if cluster == "" {
		switch cluster = c.Contexts[context].Cluster; {
		case cluster == "":
			return fmt.Sprintf("context %q names no cluster", context)
		case c.Clusters[cluster] == nil:
			return fmt.Sprintf("context %q names cluster %q, which is not in the kubeconfig", context, cluster)
		}
	}
	if c.Clusters[cluster].Server == "" {
		return fmt.Sprintf("cluster %q has no server address", cluster)
	}
	return ""
}

func namesOf[T any](all map[string]T) string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(all)), ", "), "none")
}

// namespace returns --namespace, or "".
func (a *app) namespace() string { return a.kube.over.Context.Namespace }

// namespaceOr returns --namespace, or else fallback.
func (a *app) namespaceOr(fallback string) string { return cmp.Or(a.namespace(), fallback) }

// namespaceOfContext returns --namespace, or else the namespace of the kubeconfig's context, like
// kubectl.
func (a *app) namespaceOfContext() (string, error) {
	name, _, err := a.kube.clientConfig().Namespace()
	if err != nil {
		return "", a.kube.unusable(err)
	}
	return name, nil
}
