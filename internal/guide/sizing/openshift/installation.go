package openshift

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// maximums compares the request with the tested maximums of the version.
func (p *plan) maximums() error {
	e := p.Table("openshift-maximums")
	wanted := map[string]float64{"nodes": float64(p.nodes), "pods": float64(p.pods), "pods_per_node": float64(p.podsPerNode)}
	for _, o := range objects {
		wanted[o.row] = float64(*p.w.Objects[o.row])
		if r, err := e.Row(o.row); wanted[o.row] > 0 && (err != nil || r.Cells["maximum"] == nil) {
			p.Note("the documents of %s have no maximum for %s", p.Version, o.doc)
		}
	}
	for _, r := range e.Rows {
		name := strings.ReplaceAll(r.Key, "_", " ")
		if of, _ := r.Cells["unit"].(string); r.Key == "nodes" && of == "worker nodes" {
			name, wanted[r.Key] = of, float64(p.workers)
		}
		p.Max(sizing.Limit{Name: "tested maximum of " + name, Maximum: e.Number(r.Key, "maximum"), Wanted: wanted[r.Key], Why: e.Why, Sources: e.Sources})
	}
	slices.SortStableFunc(p.Limits, func(a, b sizing.Limit) int { return cmp.Compare(b.UsedPercent, a.UsedPercent) })
	for _, l := range p.Limits {
		if l.Over {
			p.Note("%s is exceeded: %s of %s. That was not tested; it may still work", l.Name, unit.Digits(l.Wanted), unit.Digits(l.Maximum))
		}
	}
	return nil
}

// installation writes install-config.yaml and orders the steps.
func (p *plan) installation() error {
	node := p.Table("openshift-kubelet")
	batch, least := int(node.Number("scale_up_max", "value")), int(node.Number("scale_up_min", "value"))
	releases := p.Newest("openshift-releases")
	first := min(p.workers, batch)
	comment := fmt.Sprintf("For OpenShift %s. To be added: platform, pullSecret, sshKey.\nEach worker: %s, %s GiB.", p.Version, internaltext.Count(p.w.NodeCores, "core"), unit.Digits(p.w.nodeGiB()))
	if cores, ram := p.Value("control plane", "cores"), p.Value("control plane", "ram"); cores != nil && ram != nil {
		comment += fmt.Sprintf("\nEach node of the control plane: %v cores, %v GiB; not to be changed later.", cores.Value, ram.Value)
	}
	if first < p.workers {
		comment += internaltext.Sprintf("\n%d workers at first: the machine sets add the others, %d to %d at once.", first, least, batch)
	}
	text := sizing.Manifest("install-config.yaml", comment, map[string]any{
		"BaseDomain": p.w.BaseDomain, "Name": p.w.ClusterName, "ControlPlane": controlPlane, "Workers": first,
		"Plugin": p.network, "ClusterCIDR": p.w.ClusterCIDR, "HostPrefix": p.hostPrefix, "ServiceCIDR": p.w.ServiceCIDR,
		"MachineCIDR": p.w.MachineCIDR, "OldKey": releases.Text(p.Version, "machine_network_key") == "machineCIDR",
	})
	p.Files = append([]sizing.Artefact{{Name: "install-config.yaml", What: "the networks and the numbers of machines, for openshift-install", Checked: "the installer's documentation (its types need the libraries of all clouds)", Content: text}}, p.Files...)
	install := []sizing.Step{{Do: "Add the platform, the pull secret and the ssh key to install-config.yaml"}}
	if p.w.given("mtu") || p.w.IPsec {
		install = append(install, p.networkFile())
	}
	add := internaltext.Sprintf("Add %s (%d of them infrastructure)", internaltext.Count(p.workers-first+p.infra, "machine"), p.infra)
	if p.workers-first+p.infra > least {
		add += internaltext.Sprintf(", %d to %d at once, in all zones", least, batch)
	}
	install = append(install,
		sizing.Step{Do: "Install the cluster (networks, MTU and control plane cannot change later)", Command: "openshift-install create cluster", Check: "oc get clusteroperators: each is Available and none Degraded"},
		sizing.Step{
			Do: add, Command: "oc scale -n openshift-machine-api --replicas=N machineset/NAME",
			Check: "oc get nodes: each is Ready before the next are added",
		},
		sizing.Step{Do: internaltext.Sprintf("Label the %s", internaltext.Count(p.infra, "infrastructure node")), Command: `oc label node NODE node-role.kubernetes.io/infra=`},
		sizing.Step{Do: internaltext.Sprintf("For OpenShift Container Storage: add %s with NVMe drives, label them", internaltext.Count(p.storageNodes, "node")), Command: `oc label node NODE cluster.ocs.openshift.io/openshift-storage=`, Check: "oc get storageclass names its classes"},
		sizing.Step{Do: "Enable the replacement of broken machines", Command: "oc apply -f healthcheck.yml", Check: "oc get machinehealthcheck -n openshift-machine-api"},
	)
	p.Steps = append(install, p.Steps...)
	p.Steps = append(p.Steps, sizing.Step{Do: "Give monitoring its volumes", Command: "oc apply -f cluster-monitoring-config.yml", Restarts: "Prometheus and Alertmanager, whose samples so far are lost", Check: "oc get pvc -n openshift-monitoring: each is Bound"})
	return nil
}

// networkFile sets the MTU inside the overlay if the machines' MTU is given or IPsec reduces it.
// Otherwise the operator detects it.
func (p *plan) networkFile() sizing.Step {
	ipsec := ""
	switch {
	case !p.w.IPsec || p.network != "OVNKubernetes":
	case p.minor() >= 15:
		ipsec = "Full"
	default:
		ipsec = "on" // older versions have no modes
	}
	p.Files = append(p.Files, server.NetworkManifest("", p.network, p.w.MTU, p.Value("network", "overlay_mtu").Value.(int), ipsec))
	return sizing.Step{Do: "Create the manifests, and add " + server.NetworkFile, Command: "openshift-install create manifests"}
}
