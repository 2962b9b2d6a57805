package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hostaudit "fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/cliutil/size"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/kube/tuned"
)

// completions maps arguments and flags with a finite set of values to their completion. Flags with
// a few fixed words complete themselves.
func (a *app) completions() map[string]cobra.CompletionFunc {
	machines := func(resource string) func() string {
		return func() string {
			return "/apis/machine.openshift.io/v1beta1/namespaces/" + a.namespaceOr(machine.Namespace) + "/" + resource
		}
	}
	nodes := func() string { return "/api/v1/nodes" }
	inNamespace := func(resource string) func() string {
		return func() string {
			namespace, err := a.namespaceOfContext()
			if err != nil {
				return ""
			}
			return "/api/v1/namespaces/" + namespace + "/" + resource
		}
	}
	var kinds []string
	for _, k := range tuned.Kinds {
		kinds = append(kinds, string(k.Kind))
	}
	allowed := cliutil.ListOf(kinds...)
	namespaces := a.completeNames(func() string { return "/api/v1/namespaces" })
	targets := cliutil.Fixed(kuberelease.Known().Targets()...)
	return map[string]cobra.CompletionFunc{
		"status":                       a.completeNames(nodes),
		"status --allow":               allowed,
		"operator --allow":             allowed,
		"operator --adopt":             cliutil.ListOf(append(slices.Clone(adoptable), "all")...),
		"agent --allow":                allowed,
		"agent --node":                 a.completeNames(nodes),
		"pod explain --node":           a.completeNames(nodes),
		"pod verify":                   a.completeNames(inNamespace("pods")),
		"health":                       a.completeNames(machines("machinehealthchecks")),
		"scale plan":                   a.completeNames(machines("machinesets")),
		"scale execute":                a.completeNames(machines("machinesets")),
		"load mirror":                  namespaces,
		"load http --method":           cliutil.Fixed(loadcli.Methods...),
		"load plan --ignore":           cliutil.ListOf(ignorable...),
		"load run --ignore":            cliutil.ListOf(ignorable...),
		" --context":                   a.completeOf(func(c *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(c.Contexts)) }),
		" --cluster":                   a.completeOf(func(c *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(c.Clusters)) }),
		" --user":                      a.completeOf(func(c *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(c.AuthInfos)) }),
		"agent --daemonset":            a.completeNames(func() string { return "/apis/apps/v1/daemonsets" }),
		"pod explain --only":           completePods,
		" --namespace":                 namespaces,
		"operator --machine-namespace": namespaces,
		"pod record --node":            a.completeNames(nodes),
		"check --for":                  targets,
		"check --explain":              completeRules(""),
		"check --disable":              completeRules("="),
		"logs --by":                    cliutil.ListOf(logs.Dimensions()...),
		"logs --claim":                 a.completeNames(inNamespace("persistentvolumeclaims")),
		"logs --format":                cliutil.Fixed(logformat.Names()...),
		"load plan --openshift":        size.Releases("openshift-releases"),
		"load resume":                  a.completeLoads,
		"load undo":                    a.completeLoads,
		"load compare":                 a.completeLoads,
		"schema":                       cliutil.Fixed(slices.Sorted(maps.Keys(documents))...),
	}
}

// completionTimeout limits one completion.
const completionTimeout = 2 * time.Second

// completeNames completes the names of objects in a list of the API server. If the server does not
// answer, it suggests nothing; the command itself then reports the error.
func (a *app) completeNames(path func() string) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		config, err := a.config()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		config.Timeout = completionTimeout
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		text, err := client.CoreV1().RESTClient().Get().AbsPath(path()).DoRaw(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var list struct {
			Items []struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if json.Unmarshal(text, &list) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, item := range list.Items {
			if !slices.Contains(given, item.Metadata.Name) {
				names = append(names, item.Metadata.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOf completes names of the kubeconfig.
func (a *app) completeOf(names func(*clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := a.kube.clientConfig().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(slices.Values(names(&config))), cobra.ShellCompDirectiveNoFileComp
	}
}

// completePods completes the pods of the manifest that is the first argument.
func completePods(_ *cobra.Command, given []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(given) == 0 || given[0] == "-" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if data, err := readNamed(given[0], maxManifest); err == nil {
		if f, err := podfile.Read(given[0], data); err == nil {
			for i := range f.Pods {
				names = append(names, f.Pods[i].Pod.Kind+"/"+f.Pods[i].Pod.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeRules completes the IDs of the rules, each followed by after.
func completeRules(after string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all, err := hostaudit.CatalogueOf(nil, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var ids []string
		for _, r := range all.Rules() {
			ids = append(ids, r.ID+after)
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeLoads completes the IDs of load runs, latest first.
func (a *app) completeLoads(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir, _ := c.Flags().GetString("state-dir")
	store, err := a.loadStore(&loadOptions{stateDir: dir})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	kept, err := store.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for _, k := range kept {
		ids = append(ids, k.ID)
	}
	return ids, cobra.ShellCompDirectiveKeepOrder
}
