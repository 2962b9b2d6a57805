package openshift

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	cluster "fettle.dev/fettle/internal/guide/sizing/openshift"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/rules"
)

func catalogue(t testing.TB) *rule.Catalogue {
	t.Helper()
	var files []rule.File
	for _, name := range []string{"openshift.yaml", "openshift-documents.yaml"} {
		text, err := rules.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, rule.File{Name: name, Text: text})
	}
	inputs, sets := platform.Inputs([]platform.Source{Source()})
	c, err := rule.Load(inputs, sets, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judge is the findings that are neither passed nor not applicable, and the ids of
// those that passed.
func judge(c *rule.Catalogue, s *platform.Subject) (bad map[string]rule.Finding, passed map[string]bool) {
	bad, passed = map[string]rule.Finding{}, map[string]bool{}
	for _, f := range c.Check(context.Background(), s, []string{"openshift"}, nil) {
		switch f.State {
		case rule.Passed:
			passed[f.ID] = true
		case rule.Failed, rule.Warned, rule.Unknown:
			bad[f.ID] = f
		}
	}
	return bad, passed
}

// leaf is a scalar of a document: FILE PATH, a document in a ConfigMap behind "!".
type leaf struct {
	path  string
	value string
	set   func(value string) // to another one
}

// leaves are those of a file, and how it is written after a change.
func leaves(t testing.TB, file, text string) (all []leaf, print func() string) {
	t.Helper()
	root := &yaml.Node{}
	if err := yaml.Unmarshal([]byte(text), root); err != nil {
		t.Fatal(err)
	}
	var walk func(n *yaml.Node, at string)
	walk = func(n *yaml.Node, at string) {
		switch n.Kind {
		case yaml.DocumentNode:
			walk(n.Content[0], at)
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], at+"."+n.Content[i].Value)
			}
		case yaml.SequenceNode:
			for _, c := range n.Content {
				walk(c, at+"[]")
			}
		case yaml.ScalarNode:
			if strings.HasSuffix(at, ".config.yaml") {
				inner, print := leaves(t, at+"!", n.Value)
				for _, l := range inner {
					set := l.set
					l.set = func(v string) { set(v); n.Value = print() }
					all = append(all, l)
				}
				return
			}
			all = append(all, leaf{at, n.Value, func(v string) { n.Value, n.Tag, n.Style = v, "", 0 }})
		}
	}
	walk(root, file)
	return all, func() string {
		b, err := yaml.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// breakage is a wrong value for one that size writes, by its place, and the rules of
// which one says so. "@service" in a value is the service network that the cluster
// has; "THIS => THAT" replaces a regular expression in the value.
type breakage struct{ path, value, rule string }

// broken is one for each value of a cluster.
var broken = []breakage{
	{"install-config.yaml.apiVersion", "v2", "O14.api"},
	{"install-config.yaml.controlPlane.replicas", "2", "O07.members"},
	{"install-config.yaml.compute[].replicas", "100000", "O02"},
	{"install-config.yaml.networking.networkType", "OVNKubernets", "O01.plug-in|O01.agree"},
	{"install-config.yaml.networking.clusterNetwork[].cidr", "@service", "O01"},
	{"install-config.yaml.networking.clusterNetwork[].cidr", "11.0.0.0/20", "O02"},
	{"install-config.yaml.networking.clusterNetwork[].hostPrefix", "30", "O03|O03.default"},
	{"install-config.yaml.networking.machineCIDR", "10.0.0.0/31", "O02.machines"},
	{"install-config.yaml.networking.machineNetwork[].cidr", "10.0.0.0/31", "O02.machines"},
	{"install-config.yaml.networking.machineNetwork[].cidr", "@service", "O01"},
	{"install-config.yaml.networking.serviceNetwork[]", "10.128.0.0/14", "O01"},
	{"install-config.yaml.networking.serviceNetwork[]", "172.30.0.0/30", "O02.services"},
	{"change-maxPods-cr.yaml.apiVersion", "machineconfiguration.openshift.io/v2", "O14.api"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.maxPods", "1000000", "O03"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.maxPods", "100000", "O25"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.podsPerCore", "1000000", "O03.per-core"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.kubeAPIQPS", "1000000", "O05"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.kubeAPIBurst", "0", "O05"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.cpuManagerPolicy", "Static", "O19.policy"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.cpuManagerReconcilePeriod", "5m", "O19.reconcile"},
	{"change-maxPods-cr.yaml.spec.kubeletConfig.topologyManagerPolicy", "strict", "O20.policy"},
	{"feature-gate.yaml.apiVersion", "config.openshift.io/v1alpha1", "O14.api"},
	{"feature-gate.yaml.spec.featureSet", "latencySensitive", "O20.set"},
	{"healthcheck.yml.apiVersion", "machine.openshift.io/v1beta", "O14.api"},
	{"healthcheck.yml.metadata.namespace", "default", "O14.namespace"},
	{"healthcheck.yml.spec.selector.matchLabels.machine.openshift.io/cluster-api-machine-role", "master", "O14.control-plane"},
	{"healthcheck.yml.spec.selector.matchLabels.machine.openshift.io/cluster-api-machine-type", "workers", "O14.selector"},
	{"healthcheck.yml.spec.unhealthyConditions[].type", "ready", "O14.conditions"},
	{"healthcheck.yml.spec.unhealthyConditions[].status", "unknown", "O14.conditions"},
	{"healthcheck.yml.spec.unhealthyConditions[].timeout", "3s", "O14.timeout"},
	{"healthcheck.yml.spec.unhealthyConditions[].timeout", "3h", "O14.timeout"},
	{"healthcheck.yml.spec.maxUnhealthy", "100%", "O14"},
	{"healthcheck.yml.spec.nodeStartupTimeout", "1m", "O14.startup"},
	{"cluster-monitoring-config.yml.apiVersion", "v2", "O14.api"},
	{"cluster-monitoring-config.yml.metadata.namespace", "monitoring", "O14.namespace"},
	{"cluster-monitoring-config.yml.metadata.annotations.fettle.dev/nodes", "1000000", "O21"},
	{"cluster-monitoring-config.yml.metadata.annotations.fettle.dev/pods", "100000000", "O21"},
	{"cluster-monitoring-config.yml.data.config.yaml!.prometheusK8s.retention", "1m", "O24.retention"},
	{"cluster-monitoring-config.yml.data.config.yaml!.prometheusK8s.retention", "15000d", "O21"},
	{"cluster-monitoring-config.yml.data.config.yaml!.prometheusK8s.volumeClaimTemplate.spec.resources.requests.storage", "1Mi", "O21"},
	{"cluster-monitoring-config.yml.data.config.yaml!.prometheusK8s.volumeClaimTemplate.spec.resources.requests.storage", "0", "O24"},
	{"cluster-monitoring-config.yml.data.config.yaml!.alertmanagerMain.volumeClaimTemplate.spec.resources.requests.storage", "20Mi", "O24.alertmanager"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.type", "Calico", "O01.agree"},
	{"manifests/cluster-network-03-config.yml.apiVersion", "operator.openshift.io/v1beta1", "O14.api"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.type", "OVN", "O01.plug-in"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.openshiftSDNConfig.mtu", "9000", "O36.documents"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.ovnKubernetesConfig.mtu", "9000", "O36.documents"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.ovnKubernetesConfig.mtu", "14", "O36.documents"},
	{"manifests/cluster-network-03-config.yml.metadata.annotations.fettle.dev/device-mtu", "600", "O36.documents"},
	{"hugepages_tuning.yaml.apiVersion", "tuned.openshift.io/v2", "O14.api"},
	{"hugepages_tuning.yaml.metadata.namespace", "default", "O14.namespace"},
	{"hugepages_tuning.yaml.spec.profile[].name", "nobody-asks-for-it", "O15.profile"},
	{"hugepages_tuning.yaml.spec.profile[].data", "[x]\ntype=script\n", "O18"},
	{"hugepages_tuning.yaml.spec.recommend[].priority", "99", "O15.priority"},
	{"hugepages_tuning.yaml.spec.recommend[].profile", "nobody-has-it", "O15.profile"},
	{"50-worker-hugepages.yaml.spec.kernelArguments[]", "hugepagesz=3M", "O38.arguments"},
	{"50-worker-hugepages.yaml.spec.kernelArguments[]", "transparent_hugepages=never", "O38.arguments"},
	{"manifests/cluster-network-03-config.yml.spec.defaultNetwork.ovnKubernetesConfig.ipsecConfig.mode", "full", "O37.ipsec"},
	{"50-worker-hugepages.yaml.apiVersion", "machineconfiguration.openshift.io/v2", "O14.api"},
}

// unjudged are values that size writes and no rule has an opinion of.
var unjudged = map[string]string{
	`\.kind$|\.metadata\.name$|\.metadata\.generateName$`:                   "what a document is, and what it is called",
	`^install-config\.yaml\.(baseDomain|(controlPlane|compute\[\])\.name)$`: "names",
	`\.hyperthreading$`: "on is the installer's default; off is a choice of security",
	`machineConfigPoolSelector\.|\.nodeSelector\.|\.match\[\]\.label$|\.metadata\.labels\.`: "labels, which somebody gives to machines",
	`^hugepages-pod\.yaml\.spec\.containers\[\]\.(name|image|volumeMounts\[\]\.mountPath)$`: "the program's own",
	`^hugepages-pod\.yaml\..*\.(requests|limits)\.(cpu|memory)$`:                            "what the program needs besides its pages is its own decision; that one of them is there is O38.requests",
	`\.storageClassName$`: "the storage classes of a cluster are not in these documents",
}

func files(r *sizing.Result) map[string]string {
	out := map[string]string{}
	for _, a := range r.Files {
		out[a.Name] = a.Content
	}
	return out
}

// wish is a random one.
func wish(rnd *rand.Rand) []string {
	said := []string{"version", []string{"4.1", "4.3", "4.4", "4.10", "4.14", "4.16", "4.20"}[rnd.IntN(7)], "retention", strconv.Itoa(1 + rnd.IntN(90)), "node-cores", strconv.Itoa(4 + rnd.IntN(60))}
	some := func(n int, pairs ...string) {
		if rnd.IntN(n) == 0 {
			said = append(said, pairs...)
		}
	}
	some(1, "pods", strconv.Itoa(1+rnd.IntN(30000)))
	some(2, "pods-per-node", strconv.Itoa(20+rnd.IntN(2400)))
	some(3, "pods-per-core", strconv.Itoa(5+rnd.IntN(20)))
	some(3, "mtu", []string{"1500", "9000", "8951"}[rnd.IntN(3)])
	some(4, "ipsec", "true")
	some(3, "kube-api-qps", strconv.Itoa(1+rnd.IntN(100)), "kube-api-burst", strconv.Itoa(101+rnd.IntN(100)))
	if rnd.IntN(3) == 0 {
		said = append(said, "cpu-manager", "static")
		some(2, "topology", []string{"best-effort", "restricted", "single-numa-node"}[rnd.IntN(3)])
	}
	some(3, "huge-pages", "2GiB", "huge-page", []string{"2M", "1G"}[rnd.IntN(2)])
	some(4, "machine-cidr", "192.168.0.0/16")
	some(4, "service-cidr", "172.16.0.0/16")
	some(4, "storage-class", "gp2")
	some(4, "max-unhealthy", []string{"1", "0", "25%", "99%"}[rnd.IntN(4)])
	some(5, "network-type", []string{"OVNKubernetes", "OpenShiftSDN"}[rnd.IntN(2)])
	return said
}

// What size writes is clean under check, for random clusters; and with each single
// value broken, some rule says so, and it is the one that is meant.
func TestSized(t *testing.T) {
	c := catalogue(t)
	passed := holds(t, c, 150, 60, wish, func() sizing.Request { return cluster.New() }, broken)
	for _, r := range c.Rules() {
		if !r.Reminder && !slices.Contains(running, r.ID) && !slices.Contains(ofPods, r.ID) && !passed[r.ID] {
			t.Errorf("%s is passed by nothing that size writes", r.ID)
		}
	}
}

// holds asks for so many random wishes: what size writes for those that it takes,
// which are to be a number at least, is clean under check, and of each value that it
// writes a broken one is found. It returns the rules that have passed.
func holds(t *testing.T, c *rule.Catalogue, wishes, least int, wish func(*rand.Rand) []string, newWish func() sizing.Request, broken []breakage) (passed map[string]bool) {
	t.Helper()
	f, rnd := testkitsizing.Figures(t), rand.New(rand.NewPCG(5, 6))
	clean := 0
	passed, found, written := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for range wishes {
		said := wish(rnd)
		r, err := testkitsizing.Ask(f, newWish(), said...)
		if err != nil {
			if !testkitsizing.BadInput(err) {
				t.Fatal(said, err)
			}
			continue
		}
		clean++
		good := files(r)
		bad, ok := judge(c, directory(t, good))
		for id, f := range bad {
			t.Errorf("fettle size %s %v: %s %s: %v, want %v %s", r.Platform, said, id, f.State, f.Measured, f.Want, f.Reason)
		}
		for id := range ok {
			passed[id] = true
		}
		if clean%8 == 1 || wishes < 60 || good["feature-gate.yaml"] != "" { // few wishes have the last
			breakEach(t, c, broken, said, good, found, written)
		}
	}
	if clean < least {
		t.Errorf("only %d wishes were taken", clean)
	}
	for _, b := range broken {
		if !found[b.path+" "+b.value] {
			t.Errorf("%s is never written", b.path)
		}
	}
	for path := range written {
		if !slices.ContainsFunc(broken, func(b breakage) bool { return b.path == path }) && !judged(path) {
			t.Errorf("%s is judged by no rule, and nothing says why", path)
		}
	}
	return passed
}

// running are the rules that ask what only a cluster that runs has.
var running = []string{"O01.transit", "O20.gate", "O07", "O07.memory", "O08", "O15.pods", "O21.memory", "O23", "O25.objects"}

// ofPods are those of pods, which size hugepages writes (TestSizeHugePages).
var ofPods = []string{"O38.pod", "O38.limit", "O38.requests", "O38.medium", "O38.mount", "O38.group"}

func judged(path string) bool {
	for pattern := range unjudged {
		if regexp.MustCompile(pattern).MatchString(path) {
			return true
		}
	}
	return false
}

// meant is the name of a file in the table: a KubeletConfig is named after what it
// changes.
func meant(name string) string {
	if strings.HasSuffix(name, "-kubeletconfig.yaml") {
		return "change-maxPods-cr.yaml"
	}
	return name
}

// breakEach breaks each value of a cluster's documents, one at a time.
func breakEach(t *testing.T, c *rule.Catalogue, broken []breakage, said []string, good map[string]string, found, written map[string]bool) {
	service := ""
	all, _ := leaves(t, "install-config.yaml", good["install-config.yaml"])
	for _, l := range all {
		if strings.HasSuffix(l.path, ".serviceNetwork[]") {
			service = l.value
		}
	}
	for name, text := range good {
		all, _ := leaves(t, meant(name), text)
		for i, l := range all {
			written[l.path] = true
			for _, b := range broken {
				if b.path != l.path {
					continue
				}
				value := strings.ReplaceAll(b.value, "@service", service)
				if from, to, ok := strings.Cut(b.value, " => "); ok {
					if value = regexp.MustCompile(from).ReplaceAllString(l.value, to); value == l.value {
						continue
					}
				}
				found[b.path+" "+b.value] = true
				all, print := leaves(t, meant(name), text)
				all[i].set(value)
				bad := map[string]string{}
				maps.Copy(bad, good)
				bad[name] = print()
				got, _ := judge(c, directory(t, bad))
				if !slices.ContainsFunc(strings.Split(b.rule, "|"), func(id string) bool {
					return got[id].State == rule.Failed || got[id].State == rule.Warned
				}) {
					t.Errorf("fettle size %v: %s = %q (was %q) is not found by %s: %v", said, l.path, b.value, l.value, b.rule, states(got))
				}
			}
		}
	}
}

func states(bad map[string]rule.Finding) (out []string) {
	for id, f := range bad {
		out = append(out, fmt.Sprintf("%s %s %s", id, f.State, f.Reason))
	}
	return out
}
