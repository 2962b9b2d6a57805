package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// count records a number of objects, or why it is unknown if err is not nil.
func (s *Survey) count(what string, n int, where string, err error) {
	x := Count{What: what, N: n, Where: where}
	if err != nil {
		x.Unread = err.Error()
	}
	s.cluster.Counts = append(s.cluster.Counts, x)
}

// most returns the highest count and its name; among equal counts, the alphabetically first name.
func most(counts map[string]int) (n int, where string) {
	for name, c := range counts {
		if c > n || c == n && (where == "" || name < where) {
			n, where = c, name
		}
	}
	return n, where
}

// object is an object of the cluster. The survey reads only its metadata.
type object struct{ Metadata surveyMeta }

// objects counts the objects of all kinds that have maximums.
func (s *Survey) objects(ctx context.Context) {
	for _, x := range []struct{ what, path string }{
		{"namespaces", "/api/v1/namespaces"}, {"secrets", "/api/v1/secrets"}, {"config_maps", "/api/v1/configmaps"},
		{"crds", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"},
		{"builds", "/apis/build.openshift.io/v1/builds"}, {"build_configs", "/apis/build.openshift.io/v1/buildconfigs"}, {"routes", "/apis/route.openshift.io/v1/routes"},
	} {
		n, err := cluster.Count(ctx, s.getMetadata, x.path)
		if !absent(err) {
			s.count(x.what, n, "", err)
		}
	}
	for _, x := range []struct{ all, each, path string }{
		{"services", "services_per_namespace", "/api/v1/services"}, {"", "deployments_per_namespace", "/apis/apps/v1/deployments"},
	} {
		per, n := map[string]int{}, 0
		err := list(ctx, s, x.path, true, func(o *object) {
			per[o.Metadata.Namespace]++
			n++
		})
		if x.all != "" {
			s.count(x.all, n, "", err)
		}
		largest, where := most(per)
		s.count(x.each, largest, where, err)
	}
	s.backends(ctx)
}

// backends counts the addresses behind each service. Slices of two IP families list the same pods,
// which count once.
func (s *Survey) backends(ctx context.Context) {
	type slice struct {
		Metadata    surveyMeta
		AddressType string
		Endpoints   []struct{}
	}
	type key struct{ service, family string }
	each := map[key]int{}
	err := list(ctx, s, "/apis/discovery.k8s.io/v1/endpointslices", false, func(e *slice) {
		if name := e.Metadata.Labels["kubernetes.io/service-name"]; name != "" {
			each[key{e.Metadata.Namespace + "/" + name, e.AddressType}] += len(e.Endpoints)
		}
	})
	if absent(err) {
		return
	}
	services := map[string]int{}
	for k, n := range each {
		services[k.service] = max(services[k.service], n)
	}
	n, where := most(services)
	s.count("backends_per_service", n, where, err)
}

// machines reads machine sets, machines and health checks, if the cluster has these kinds.
func (s *Survey) machines(ctx context.Context) {
	c := s.cluster
	base := "/apis/" + machine.APIVersion + "/"
	for kind, read := range map[string]func() error{
		"machinesets": func() error {
			return list(ctx, s, base+"machinesets", false, func(x *machine.Set) { c.MachineSets = append(c.MachineSets, *x) })
		},
		"machines": func() error {
			return list(ctx, s, base+"machines", false, func(x *machine.Machine) { c.Machines = append(c.Machines, *x) })
		},
		"machinehealthchecks": func() error {
			return list(ctx, s, base+"machinehealthchecks", false, func(x *machine.HealthCheck) { c.Checks = append(c.Checks, *x) })
		},
	} {
		if err := read(); err != nil && !absent(err) {
			c.Miss(OfMachines, "%s: %v", kind, err)
		}
	}
}

// documents reads the objects that rules from OpenShift's documents check.
func (s *Survey) documents(ctx context.Context) {
	if s.cluster.OpenShift == "" {
		return
	}
	for _, x := range []struct{ api, resource, kind, only string }{
		{"config.openshift.io/v1", "clusterversions", "ClusterVersion", ""},
		{"config.openshift.io/v1", "networks", "Network", ""},
		{"config.openshift.io/v1", "featuregates", "FeatureGate", ""},
		{"operator.openshift.io/v1", "networks", "Network", ""},
		{"machineconfiguration.openshift.io/v1", "kubeletconfigs", "KubeletConfig", ""},
		{machine.APIVersion, "machinehealthchecks", "MachineHealthCheck", ""},
		{"tuned.openshift.io/v1", "tuneds", "Tuned", ""},
		{"performance.openshift.io/v2", "performanceprofiles", "PerformanceProfile", ""},
		{"v1", "namespaces/openshift-monitoring/configmaps", "ConfigMap", "cluster-monitoring-config"},
	} {
		base := "/apis/" + x.api
		if x.api == "v1" {
			base = "/api/v1"
		}
		path := base + "/" + x.resource
		if x.only != "" {
			path += "?fieldSelector=" + url.QueryEscape("metadata.name="+x.only)
		}
		var all struct{ Items []map[string]any }
		err := s.get(ctx, path, &all)
		if absent(err) {
			continue
		}
		if err != nil {
			s.cluster.Miss(OfObjects, "%s: %v", x.resource, err)
			continue
		}
		for _, o := range all.Items {
			s.add(o, x.api, x.kind, x.only == "")
		}
	}
}

// add adds an object to the documents. Items of a list may lack kind and apiVersion, which add
// sets.
func (s *Survey) add(o map[string]any, api, kind string, listed bool) {
	o["apiVersion"], o["kind"] = api, kind
	metadata, _ := o["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	name, _ := metadata["name"].(string)
	text, err := json.Marshal(o)
	if err != nil {
		s.cluster.Miss(OfObjects, "%s %s: %v", kind, name, err)
		return
	}
	s.cluster.Objects = append(s.cluster.Objects, openshift.Object{Kind: kind, Name: cmp.Or(name, "without a name"), Text: text, Listed: listed})
}

// refused formats an error, with the missing right if access was denied.
func refused(what string, err error) string {
	if cluster.IsStatus(err, http.StatusForbidden) {
		return fmt.Sprintf("this user may not list %s: %v", what, err)
	}
	return fmt.Sprintf("%s: %v", what, err)
}

// machines sets the answers about machine sets and their health checks.
func (c *Cluster) machines(a *platform.Known) {
	if why := c.Unread[OfMachines]; why != "" {
		a.Unlisted(platform.MachineSets, why)
		a.Unlisted(platform.HealthChecks, why)
		return
	}
	for i := range c.MachineSets {
		s := &c.MachineSets[i]
		a.Add(platform.MachineSets, s.Name)
		in, at := platform.MachineSets+"."+s.Name, "MachineSet "+s.Name
		wanted := 1.0
		if s.Spec.Replicas != nil {
			wanted = float64(*s.Spec.Replicas)
		}
		a.Give(in+".wanted", wanted, at)
		a.Give(in+".ready", float64(s.Status.ReadyReplicas), at)
		a.Give(in+".checks", c.checksOf(s), at)
	}
	for i := range c.Checks {
		check := &c.Checks[i]
		a.Add(platform.HealthChecks, check.Name)
		in, at := platform.HealthChecks+"."+check.Name, "MachineHealthCheck "+check.Name
		d, err := machine.Decide(machine.Input{Now: c.Now, Check: check, Machines: c.Machines, Nodes: c.CoreNodes, Checks: c.Checks})
		if err != nil {
			for _, input := range []string{"open", "limit", "hindrances"} {
				a.Unclear(in+"."+input, at, err.Error())
			}
			continue
		}
		a.Give(in+".open", d.Limit.Open(d.Unhealthy), at)
		a.Give(in+".limit", d.Sentence, at)
		a.Give(in+".hindrances", append(append([]string{}, d.Waits...), d.Overlaps...), at)
	}
}

// checksOf returns the names of the health checks that select a set's machines.
func (c *Cluster) checksOf(s *machine.Set) []string {
	out := []string{}
	for i := range c.Checks {
		check := &c.Checks[i]
		selector, err := meta.LabelSelectorAsSelector(&check.Spec.Selector)
		if err != nil || check.Unread != "" || check.Namespace != s.Namespace {
			continue
		}
		if selector.Matches(labels.Set(s.Spec.Template.Labels)) {
			out = append(out, check.Name)
		}
	}
	slices.Sort(out)
	return out
}
