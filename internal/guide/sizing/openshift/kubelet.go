package openshift

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
)

// kubelets decides what the kubelets of the workers are told, if anything.
func (p *plan) kubelets(context.Context) error {
	e, err := p.of("openshift-kubelet")
	if err != nil {
		return err
	}
	if r, ok := kuberelease.OfOpenShift(p.Version); ok {
		p.Add(sizing.Value{Group: "kubelet", Name: "kubernetes", Value: r.String(), Why: "the release of the kubelets of OpenShift " + p.Version + ": which settings they take goes by it (check openshift, O04.keys and O04.values)",
			Sources: []rule.Source{{Document: "OpenShift " + p.Version + " release notes", Section: "About this release"}}})
	}
	var k sizing.Kubelet
	pool, name := map[string]string{"custom-kubelet": "large-pods"}, "set-max-pods"
	if float64(p.maxPods) != e.Number("max_pods", "value") {
		k.MaxPods = p.maxPods
	}
	k.PodsPerCore, k.KubeAPIQPS, k.KubeAPIBurst = p.w.PodsPerCore, p.w.QPS, p.w.Burst
	qps, burst := e.Number("kube_api_qps", "value"), e.Number("kube_api_burst", "value")
	for _, v := range []struct {
		name, why string
		value     int
		standard  float64
	}{{"kube_api_qps", "requests a second to the API server", p.w.QPS, qps}, {"kube_api_burst", "requests at once", p.w.Burst, burst}} {
		value, why := v.value, v.why
		if value == 0 {
			value = int(v.standard)
			why += ": the default, which is for a node with few pods"
			if float64(p.podsPerNode) > e.Number("max_pods", "value") {
				why += fmt.Sprintf(" and not for %d: the source raises it where CPU and memory are free, and gives no number", p.podsPerNode)
			}
		}
		p.Add(sizing.Value{Group: "kubelet", Name: v.name, Value: value, Why: why, Sources: e.Sources})
	}
	if k.KubeAPIQPS != 0 {
		qps = float64(k.KubeAPIQPS)
	}
	if k.KubeAPIBurst != 0 {
		burst = float64(k.KubeAPIBurst)
	}
	if burst < qps {
		return sizing.Instead("kube-api-burst", qps, "%g is less than the %g requests a second", burst, qps)
	}
	if p.w.CPUManager == "static" {
		pool, name = map[string]string{"custom-kubelet": "cpumanager-enabled"}, "cpumanager-enabled"
		k.CPUManagerPolicy, k.CPUManagerReconcilePeriod = "static", "5s"
		p.Note("the static CPU manager serves pods that are Guaranteed and ask for whole CPUs (O19)")
	}
	if p.w.Topology != "none" {
		k.TopologyManagerPolicy = p.w.Topology
		if err := p.topologyManager(); err != nil {
			return err
		}
	}
	low, high := e.Number("roll_out_min", "value"), e.Number("roll_out_max", "value")
	if err := e.Err(); err != nil {
		return err
	}
	if k == (sizing.Kubelet{}) {
		if p.w.given("max-unavailable") {
			p.Note("--max-unavailable has no effect: no kubelet is changed by this plan, so that no worker is restarted")
		}
		return nil
	}
	if err := p.away(); err != nil {
		return err
	}
	rounds := float64(sizing.Ceil(float64(p.workers), float64(p.w.MaxUnavailable)))
	p.Add(sizing.Value{Group: "kubelet", Name: "roll_out", Value: rounds * high, Unit: "s", Why: fmt.Sprintf("%s, %d at a time, %g to %g s each, as three take 10 to 15 minutes", text.Count(p.workers, "worker"), p.w.MaxUnavailable, low, high), Sources: e.Sources,
		Also: []sizing.Figure{{Value: rounds * low, Unit: "s", What: "at the least"}}})
	text, err := sizing.YAML("The kubelets of the workers.", sizing.NewKubeletConfig(name, pool, k))
	if err != nil {
		return err
	}
	file := kubeletFile(k)
	p.Files = append(p.Files, sizing.Artefact{Name: file, What: "the kubelets of the pool worker", Checked: "the types of openshift/api", Content: text})
	p.Steps = append(p.Steps, sizing.Step{Do: "Label the pool of the workers", Command: "oc label machineconfigpool worker custom-kubelet=" + pool["custom-kubelet"]})
	if p.w.MaxUnavailable > 1 {
		p.Steps = append(p.Steps, sizing.Step{Do: "Let more workers change at once", Command: fmt.Sprintf(`oc patch machineconfigpool worker --type merge -p '{"spec":{"maxUnavailable":%d}}'`, p.w.MaxUnavailable)})
	}
	check := fmt.Sprintf("oc get kubeletconfigs %s -o yaml shows a condition Success with status True", name)
	if k.MaxPods != 0 {
		check = fmt.Sprintf("oc describe node shows pods: %d as allocatable", p.podsPerNode)
	}
	p.Steps = append(p.Steps, sizing.Step{
		Do: "Change the kubelets", Command: "oc create -f " + file, Restarts: fmt.Sprintf("each worker, %d at a time, about %.0f minutes in all", p.w.MaxUnavailable, rounds*high/60),
		Check: check,
	})
	if k.CPUManagerPolicy != "" {
		p.Steps = append(p.Steps,
			sizing.Step{Do: "Label the nodes whose pods are to have CPUs of their own, for the nodeSelector of those pods", Command: "oc label node NODE cpumanager=true", Check: "oc get nodes -l cpumanager=true names them; oc debug node/NODE -- grep cpuManager /host/etc/kubernetes/kubelet.conf shows static"},
			sizing.Step{Do: "Create a Guaranteed pod that asks for whole CPUs with that nodeSelector, and look at its CPUs", Command: "kubectl fettle pod verify POD", Check: "it has CPUs that no other pod can use"},
		)
	}
	return nil
}

// kubeletFile is the name of a KubeletConfig's file, as the documents have it: by what
// it changes.
func kubeletFile(k sizing.Kubelet) string {
	pods := k.MaxPods != 0 || k.PodsPerCore != 0 || k.KubeAPIQPS != 0 || k.KubeAPIBurst != 0
	switch {
	case pods:
		return "change-maxPods-cr.yaml"
	case k.TopologyManagerPolicy != "":
		return "topologymanager-kubeletconfig.yaml"
	}
	return "cpumanager-kubeletconfig.yaml"
}

// away refuses a roll-out that takes all workers at once, and notes what one that takes
// several at once means.
func (p *plan) away() error {
	const reason = "consider how many workers can be away without affecting the applications that run (2.2, IMPORTANT)"
	n := p.w.MaxUnavailable
	switch {
	case n > p.workers:
		return sizing.Instead("max-unavailable", 1, "%d is more than the %d workers; %s", n, p.workers, reason)
	case n == p.workers && n > 1:
		return sizing.Instead("max-unavailable", 1, "%d are all of the %d workers: every application would stop at once; %s. 1 changes them one by one", n, p.workers, reason)
	case n == p.workers:
		p.Note("the only worker is restarted: everything on it stops meanwhile")
	case n > 1:
		p.Note("%d of %d workers are away at once while the kubelets are changed; %s", n, p.workers, reason)
	}
	return nil
}

// topologyManager switches the topology manager on where the version has it off. It
// goes before the kubelets' change, which would be passed over without it.
func (p *plan) topologyManager() error {
	e, err := p.of("openshift-topology-manager")
	if err != nil {
		return err
	}
	row, err := e.Row("kubelet")
	if err != nil {
		return err
	}
	if there, _ := row.Cells["there"].(bool); !there {
		return sizing.Instead("version", "4.3", "--topology: the kubelet of %s has no topology manager, which came with 4.3", p.Version)
	}
	set, _ := row.Cells["feature_set"].(string)
	if set == "" {
		return nil
	}
	text, err := sizing.YAML("The topology manager, which "+p.Version+" has as an alpha feature.", sizing.NewFeatureGate(set))
	if err != nil {
		return err
	}
	p.Add(sizing.Value{Group: "kubelet", Name: "feature_set", Value: set, Why: "the topology manager is an alpha feature of " + p.Version + ", and off without it", Sources: e.Sources})
	p.Files = append(p.Files, sizing.Artefact{Name: "feature-gate.yaml", What: "the features of the whole cluster", Checked: "the types of openshift/api", Content: text})
	p.Steps = append(p.Steps, sizing.Step{
		Do: "Switch the topology manager on, before a kubelet has a policy for it", Command: "oc apply -f feature-gate.yaml",
		Restarts: "each node, those of the control plane too, one at a time in each pool",
		Check:    "oc get machineconfigpool: each is UPDATED; oc describe featuregate/cluster shows Feature Set: " + set,
	})
	return nil
}

// healthCheck decides up to how many broken machines the rest is replaced.
func (p *plan) healthCheck(context.Context) error {
	e, err := p.of("openshift-health-check")
	if err != nil {
		return err
	}
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
		return sizing.Instead("max-unhealthy", e.Text("max_unhealthy", "value"), "%s of %s is no limit: all of them would be deleted when it is the network that is broken (O14)", limit, text.Count(p.workers, "worker"))
	}
	p.Add(sizing.Value{Group: "health check", Name: "max_unhealthy", Value: allowed, Unit: "machines", Why: fmt.Sprintf("%s of %d, rounded down: with more broken none is replaced, as it is then something else", limit, p.workers), Sources: e.Sources})
	if allowed == 0 {
		p.Note("with %s of %s no machine is ever replaced by the health check", limit, text.Count(p.workers, "worker"))
	}
	text, err := sizing.YAML("Machines that are broken are replaced, one at a time. Not for the control plane.",
		sizing.NewMachineHealthCheck("workers", "worker", limit, e.Text("unhealthy_after", "value"), e.Text("node_startup_timeout", "value")))
	if err != nil {
		return err
	}
	p.Files = append(p.Files, sizing.Artefact{Name: "healthcheck.yml", What: "the health check of the workers' machines", Checked: "the types of openshift/api", Content: text})
	return e.Err()
}

// hugePages decides the pages of the nodes that have some.
func (p *plan) hugePages(context.Context) error {
	if p.w.HugePages == 0 {
		return nil
	}
	pages, err := server.CountHugePages(p.f, p.w.HugePages, p.w.HugePage, p.w.NUMANodes)
	if err != nil {
		return err
	}
	p.Add(sizing.Value{Group: "huge pages", Name: "pages", Value: pages.Pages, Unit: "pages", Why: fmt.Sprintf("%s in pages of %s, on each node that has some", p.w.HugePages, pages.Page), Sources: pages.Sources})
	if p.w.NUMANodes > 1 {
		p.Add(sizing.Value{Group: "huge pages", Name: "pages_per_numa_node", Value: pages.Each[0], Unit: "pages", Why: fmt.Sprintf("over %d NUMA nodes", p.w.NUMANodes)})
	}
	p.Spend("memory of a node with huge pages", "MiB", sizing.Round(float64(p.w.NodeRAM)/(1<<20)), sizing.Part{Name: "huge pages", Amount: float64(pages.Bytes() >> 20)})
	steps, files, err := pages.Cluster(p.w.HugePage, 0)
	p.Steps, p.Files = append(p.Steps, steps...), append(p.Files, files...)
	p.Note("a node has huge pages of one size; pods ask for %s, request equal to limit", pages.Resource)
	return err
}
