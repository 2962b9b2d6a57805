package openshift

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
)

// maximums holds the wish against the tested maximums of the version.
func (p *plan) maximums(context.Context) error {
	e, err := p.of("openshift-maximums")
	if err != nil {
		return err
	}
	wanted := map[string]float64{"nodes": float64(p.nodes), "pods": float64(p.pods), "pods_per_node": float64(p.podsPerNode)}
	for _, o := range objects {
		wanted[o.row] = float64(*p.w.Objects[o.row])
		if r, err := e.Row(o.row); wanted[o.row] > 0 && (err != nil || r.Cells["maximum"] == nil) {
			p.Note("the documents of %s have no maximum of %s", p.Version, o.doc)
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
			p.Note("%s is exceeded: %g of %g. It was not tested; it does not have to fail", l.Name, l.Wanted, l.Maximum)
		}
	}
	return e.Err()
}

// installation writes install-config.yaml and puts the steps in order.
func (p *plan) installation(context.Context) error {
	node, err := p.of("openshift-kubelet")
	if err != nil {
		return err
	}
	batch, least := int(node.Number("scale_up_max", "value")), int(node.Number("scale_up_min", "value"))
	releases, err := sizing.Of(p.f, "openshift-releases", "")
	if err != nil {
		return err
	}
	first := min(p.workers, batch)
	net := sizing.Networking{
		NetworkType:    p.network,
		ClusterNetwork: []sizing.ClusterNetwork{{CIDR: p.w.ClusterCIDR.String(), HostPrefix: p.hostPrefix}},
		ServiceNetwork: []string{p.w.ServiceCIDR.String()},
	}
	if releases.Text(p.Version, "machine_network_key") == "machineCIDR" {
		net.MachineCIDR = p.w.MachineCIDR.String()
	} else {
		net.MachineNetwork = []sizing.CIDR{{CIDR: p.w.MachineCIDR.String()}}
	}
	comment := fmt.Sprintf("For OpenShift %s. To be added: platform, pullSecret, sshKey.\nEach worker: %d cores, %g GB.", p.Version, p.w.NodeCores, p.w.nodeGB())
	if cores, ram := p.Value("control plane", "cores"), p.Value("control plane", "ram"); cores != nil && ram != nil {
		comment += fmt.Sprintf("\nEach node of the control plane: %v cores, %v GB; not to be changed later.", cores.Value, ram.Value)
	}
	if first < p.workers {
		comment += fmt.Sprintf("\n%d workers at first: the machine sets add the others, %d to %d at once.", first, least, batch)
	}
	text, err := sizing.YAML(comment, sizing.InstallConfig{
		APIVersion: "v1", BaseDomain: p.w.BaseDomain, Metadata: sizing.Meta{Name: p.w.ClusterName},
		ControlPlane: sizing.MachinePool{Name: "master", Hyperthreading: "Enabled", Replicas: controlPlane},
		Compute:      []sizing.MachinePool{{Name: "worker", Hyperthreading: "Enabled", Replicas: first}},
		Networking:   net,
	})
	if err != nil {
		return err
	}
	p.Files = append([]sizing.Artefact{{Name: "install-config.yaml", What: "the networks and the numbers of machines, for openshift-install", Checked: "structs of our own (the installer's types bring every cloud's library)", Content: text}}, p.Files...)
	install := []sizing.Step{{Do: "Put the platform, the pull secret and the ssh key into install-config.yaml"}}
	if p.w.given("mtu") || p.w.IPsec {
		step, err := p.networkFile()
		if err != nil {
			return err
		}
		install = append(install, step)
	}
	install = append(install, sizing.Step{Do: "Install the cluster: its networks, its MTU and the size of its control plane stay", Command: "openshift-install create cluster", Check: "oc get clusteroperators: each is Available and none Degraded"})
	install = append(install,
		sizing.Step{
			Do: fmt.Sprintf("Add %d machines, the %d of the infrastructure among them, %d to %d at once, spread over the zones", p.workers-first+p.infra, p.infra, least, batch), Command: "oc scale -n openshift-machine-api --replicas=N machineset/NAME",
			Check: "oc get nodes: each is Ready before the next are added",
		},
		sizing.Step{Do: fmt.Sprintf("Label the %d infrastructure nodes", p.infra), Command: `oc label node NODE node-role.kubernetes.io/infra=`},
		sizing.Step{Do: fmt.Sprintf("Where OpenShift Container Storage is to provide the volumes, add %d nodes with NVMe drives for it, and label them", p.storageNodes), Command: `oc label node NODE cluster.ocs.openshift.io/openshift-storage=`, Check: "oc get storageclass names its classes"},
		sizing.Step{Do: "Let broken machines be replaced", Command: "oc apply -f healthcheck.yml", Check: "oc get machinehealthcheck -n openshift-machine-api"},
	)
	p.Steps = append(install, p.Steps...)
	p.Steps = append(p.Steps, sizing.Step{Do: "Give monitoring its volumes", Command: "oc apply -f cluster-monitoring-config.yml", Restarts: "Prometheus and Alertmanager, whose samples so far are lost", Check: "oc get pvc -n openshift-monitoring: each is Bound"})
	if err := releases.Err(); err != nil {
		return err
	}
	return node.Err()
}

// networkFile sets the MTU inside the overlay where the machines' is said, or IPsec
// takes its part: otherwise the operator finds it out itself.
func (p *plan) networkFile() (sizing.Step, error) {
	mtu := p.Value("network", "overlay_mtu").Value.(int)
	var ipsec *sizing.IPsec
	if p.w.IPsec && p.network == "OVNKubernetes" {
		ipsec = &sizing.IPsec{}
		if p.minor() >= 15 {
			ipsec.Mode = "Full"
		}
	}
	text, err := sizing.YAML("The MTU inside the overlay.", sizing.NewNetwork(p.network, p.w.MTU, mtu, ipsec))
	p.Files = append(p.Files, sizing.Artefact{Name: server.NetworkFile, What: "the MTU inside the overlay", Checked: "the types of openshift/api", Content: text})
	return sizing.Step{Do: "Make the manifests, and put " + server.NetworkFile + " among them", Command: "openshift-install create manifests"}, err
}
