package openshift

import (
	"cmp"
	"fmt"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// kubelets decides the workers' kubelet settings that differ from the defaults.
func (p *plan) kubelets() error {
	e := p.Table("openshift-kubelet")
	if r, ok := kuberelease.OfOpenShift(p.Version); ok {
		p.Add(sizing.Value{Group: "kubelet", Name: "kubernetes", Value: r.String(), Why: "the release of the kubelets of OpenShift " + p.Version + ", which decides the settings that they accept (check openshift, O04.keys and O04.values)",
			Sources: []rule.Source{{Document: "OpenShift " + p.Version + " release notes", Section: "About this release"}}})
	}
	pool, name, policy, period, topology := "large-pods", "set-max-pods", "", "", ""
	maxPods := p.maxPods
	if float64(maxPods) == e.Number("max_pods", "value") {
		maxPods = 0
	}
	qps, burst := e.Number("kube_api_qps", "value"), e.Number("kube_api_burst", "value")
	for _, v := range []struct {
		name, why string
		value     int
		standard  float64
	}{{"kube_api_qps", "requests a second to the API server", p.w.QPS, qps}, {"kube_api_burst", "requests at once", p.w.Burst, burst}} {
		value, why := v.value, v.why
		if value == 0 {
			value = int(v.standard)
			why += ": the default, which suits a node with few pods"
			if float64(p.podsPerNode) > e.Number("max_pods", "value") {
				why += text.Sprintf(", not %d: the documentation raises it if CPU and memory are free, without a number", p.podsPerNode)
			}
		}
		p.Add(sizing.Value{Group: "kubelet", Name: v.name, Value: value, Why: why, Sources: e.Sources})
	}
	qps, burst = cmp.Or(float64(p.w.QPS), qps), cmp.Or(float64(p.w.Burst), burst)
	if burst < qps {
		return sizing.Instead("kube-api-burst", qps, "%s is less than --kube-api-qps (%s requests a second)", unit.Digits(burst), unit.Digits(qps))
	}
	if p.w.CPUManager == "static" {
		pool, name, policy, period = "cpumanager-enabled", "cpumanager-enabled", "static", "5s"
		p.Note("the static CPU manager serves pods that are Guaranteed and request whole CPUs (O19)")
	}
	if p.w.Topology != "none" {
		topology = p.w.Topology
		if err := p.topologyManager(); err != nil {
			return err
		}
	}
	low, high := e.Number("roll_out_min", "value"), e.Number("roll_out_max", "value")
	pods := maxPods+p.w.PodsPerCore+p.w.QPS+p.w.Burst > 0
	if !pods && policy == "" && topology == "" {
		if p.w.given("max-unavailable") {
			p.Note("--max-unavailable has no effect: this plan changes no kubelet, so no worker is restarted")
		}
		return nil
	}
	if err := p.away(); err != nil {
		return err
	}
	rounds := float64(sizing.Ceil(float64(p.workers), float64(p.w.MaxUnavailable)))
	p.Add(sizing.Value{Group: "kubelet", Name: "roll_out", Value: rounds * high, Unit: "s", Why: text.Sprintf("%s, %d at a time, %s to %s s each, as three take 10 to 15 minutes", text.Count(p.workers, "worker"), p.w.MaxUnavailable, unit.Digits(low), unit.Digits(high)), Sources: e.Sources,
		Also: []sizing.Figure{{Value: rounds * low, Unit: "s", What: "at least"}}})
	type setting struct {
		Key   string
		Value any
	}
	text := sizing.Manifest("kubelet-config.yaml", "The kubelets of the workers.", map[string]any{"Name": name, "Pool": pool, "Settings": []setting{
		{"maxPods", maxPods}, {"podsPerCore", p.w.PodsPerCore}, {"kubeAPIQPS", p.w.QPS}, {"kubeAPIBurst", p.w.Burst},
		{"cpuManagerPolicy", policy}, {"cpuManagerReconcilePeriod", period}, {"topologyManagerPolicy", topology},
	}})
	file := "cpumanager-kubeletconfig.yaml" // named after the change, as in the documents
	switch {
	case pods:
		file = "change-maxPods-cr.yaml"
	case topology != "":
		file = "topologymanager-kubeletconfig.yaml"
	}
	p.Files = append(p.Files, sizing.Artefact{Name: file, What: "the kubelets of the pool worker", Checked: "the types of openshift/api", Content: text})
	p.Steps = append(p.Steps, sizing.Step{Do: "Label the pool of the workers", Command: "oc label machineconfigpool worker custom-kubelet=" + pool})
	if p.w.MaxUnavailable > 1 {
		p.Steps = append(p.Steps, sizing.Step{Do: "Let several workers change at once", Command: fmt.Sprintf(`oc patch machineconfigpool worker --type merge -p '{"spec":{"maxUnavailable":%d}}'`, p.w.MaxUnavailable)})
	}
	check := fmt.Sprintf("oc get kubeletconfigs %s -o yaml shows a condition Success with status True", name)
	if maxPods != 0 {
		check = fmt.Sprintf("oc describe node shows pods: %d as allocatable", p.podsPerNode)
	}
	p.Steps = append(p.Steps, sizing.Step{
		Do: "Change the kubelets", Command: "oc create -f " + file, Restarts: fmt.Sprintf("each worker, %d at a time, about %.0f minutes in all", p.w.MaxUnavailable, rounds*high/60),
		Check: check,
	})
	if policy != "" {
		p.Steps = append(p.Steps,
			sizing.Step{Do: "Label the nodes whose pods are to have CPUs of their own, for the nodeSelector of those pods", Command: "oc label node NODE cpumanager=true", Check: "oc get nodes -l cpumanager=true names them; oc debug node/NODE -- grep cpuManager /host/etc/kubernetes/kubelet.conf shows static"},
			sizing.Step{Do: "Create a Guaranteed pod that requests whole CPUs with that nodeSelector, and check its CPUs", Command: "kubectl fettle pod verify POD", Check: "the pod has CPUs that no other pod can use"},
		)
	}
	return nil
}

// away returns an error for a rollout that takes down all workers at once. For one that takes down
// several it adds a note about the effect.
func (p *plan) away() error {
	const reason = "consider how many workers can be unavailable without affecting the applications that run (2.2, IMPORTANT)"
	n := p.w.MaxUnavailable
	switch {
	case n > p.workers:
		return sizing.Instead("max-unavailable", 1, "%d is more than the %s; %s", n, text.Count(p.workers, "worker"), reason)
	case n == p.workers && n > 1:
		return sizing.Instead("max-unavailable", 1, "%d would take all of the %s: every application would stop at once; %s. 1 changes the workers one by one", n, text.Count(p.workers, "worker"), reason)
	case n == p.workers:
		p.Note("the only worker is restarted: everything on it stops meanwhile")
	case n > 1:
		p.Note("%d of %s are unavailable at the same time while the kubelets are changed; %s", n, text.Count(p.workers, "worker"), reason)
	}
	return nil
}

// topologyManager enables the topology manager in versions where it is off by default. This must
// precede the change of the kubelets, which would otherwise have no effect.
func (p *plan) topologyManager() error {
	e := p.Table("openshift-topology-manager")
	row, err := e.Row("kubelet")
	if err != nil {
		return err
	}
	if there, _ := row.Cells["there"].(bool); !there {
		return sizing.Instead("version", "4.3", "--topology: the kubelet of %s has no topology manager; 4.3 introduced it", p.Version)
	}
	set, _ := row.Cells["feature_set"].(string)
	if set == "" {
		return nil
	}
	text := sizing.Manifest("feature-gate.yaml", "The topology manager, which "+p.Version+" has as an alpha feature.", map[string]any{"Set": set})
	p.Add(sizing.Value{Group: "kubelet", Name: "feature_set", Value: set, Why: "the topology manager is an alpha feature of " + p.Version + ", and off without it", Sources: e.Sources})
	p.Files = append(p.Files, sizing.Artefact{Name: "feature-gate.yaml", What: "the features of the whole cluster", Checked: "the types of openshift/api", Content: text})
	p.Steps = append(p.Steps, sizing.Step{
		Do: "Enable the topology manager, before a kubelet has a policy for it", Command: "oc apply -f feature-gate.yaml",
		Restarts: "each node, also of the control plane; one at a time in each pool",
		Check:    "oc get machineconfigpool: each is UPDATED; oc describe featuregate/cluster shows Feature Set: " + set,
	})
	return nil
}

// healthCheck decides the maximum number of broken machines that are replaced.
func (p *plan) healthCheck() error {
	e := p.Table("openshift-health-check")
	limit := p.w.MaxUnhealthy
	if limit == "" {
		limit = e.Text("max_unhealthy", "value")
		p.w.MaxUnhealthy = limit
	}
	allowed, err := allowedUnhealthy(limit, p.workers)
	if err != nil {
		return sizing.Bad("max-unhealthy", "%w", err)
	}
	if allowed >= p.workers {
		return sizing.Instead("max-unhealthy", e.Text("max_unhealthy", "value"), "%s of %s does not limit anything: all machines would be deleted if the network failed (O14)", limit, text.Count(p.workers, "worker"))
	}
	p.Add(sizing.Value{Group: "health check", Name: "max_unhealthy", Value: allowed, Unit: "machines", Why: text.Sprintf("%s of %d, rounded down: if more fail at once, none is replaced, because the cause is elsewhere", limit, p.workers), Sources: e.Sources})
	if allowed == 0 {
		p.Note("with %s of %s the health check never replaces a machine", limit, text.Count(p.workers, "worker"))
	}
	text := sizing.Manifest("machine-health-check.yaml", "Replaces broken machines, one at a time. Not for the control plane.",
		map[string]any{"Timeout": e.Text("unhealthy_after", "value"), "MaxUnhealthy": limit, "StartupTimeout": e.Text("node_startup_timeout", "value")})
	p.Files = append(p.Files, sizing.Artefact{Name: "healthcheck.yml", What: "the health check of the workers' machines", Checked: "the types of openshift/api", Content: text})
	return nil
}

// hugePages decides the pages per node for nodes with huge pages.
func (p *plan) hugePages() error {
	if p.w.HugePages == 0 {
		return nil
	}
	pages, err := server.CountHugePages(p.Result, p.w.HugePages, p.w.HugePage, p.w.NUMANodes)
	if err != nil {
		return err
	}
	p.Add(sizing.Value{Group: "huge pages", Name: "pages", Value: pages.Pages, Unit: "pages", Why: fmt.Sprintf("%s in pages of %s, on each node that has huge pages", sizing.Amount(uint64(p.w.HugePages), "bytes"), sizing.Amount(uint64(pages.Page), "bytes")), Sources: pages.Sources})
	if p.w.NUMANodes > 1 {
		p.Add(sizing.Value{Group: "huge pages", Name: "pages_per_numa_node", Value: pages.Each[0], Unit: "pages", Why: text.Sprintf("over %d NUMA nodes", p.w.NUMANodes)})
	}
	p.Spend("memory of a node with huge pages", "MiB", sizing.Round(float64(p.w.NodeRAM)/(1<<20)), sizing.Part{Name: "huge pages", Amount: float64(pages.Bytes() >> 20)})
	steps, files := pages.Cluster(p.w.HugePage, 0)
	p.Steps, p.Files = append(p.Steps, steps...), append(p.Files, files...)
	p.Note("a node has huge pages of one size; pods request %s, with request equal to limit", pages.Resource)
	return nil
}
