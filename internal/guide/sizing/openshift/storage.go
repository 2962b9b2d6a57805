package openshift

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/unit"
)

// verdicts are the accepted verdicts of the storage table, best first.
var verdicts = []string{"recommended", "configurable"}

// storageChoices decides the storage technology of each component.
func (p *plan) storageChoices() error {
	e := p.Table("openshift-storage")
	registry := "scaled registry"
	switch {
	case p.w.RegistryReplicas < 2:
		registry = "registry"
	case !p.w.given("registry-replicas") && !slices.ContainsFunc(p.w.Storage, func(technology string) bool {
		return slices.Contains(verdicts, e.Text(registry, technology))
	}):
		registry, p.w.RegistryReplicas = "registry", 1
		p.Note("the registry has only one replica, because further replicas need object or file storage")
	}
	var without []string
	for _, r := range e.Rows {
		if strings.HasSuffix(r.Key, "registry") && r.Key != registry {
			continue
		}
		c := sizing.Choice{For: r.Key, Sources: e.Sources}
		best := len(verdicts)
		for _, technology := range []string{"block", "file", "object"} {
			o := sizing.Option{Name: technology, Verdict: e.Text(r.Key, technology)}
			o.Why, _ = r.Cells[technology+"_why"].(string)
			switch i := slices.Index(verdicts, o.Verdict); {
			case !slices.Contains(p.w.Storage, technology):
				o.Why = join("not available", o.Why)
			case i >= 0 && i < best:
				best, c.Take = i, technology
				c.Why = join(o.Verdict, o.Why)
			}
			c.Options = append(c.Options, o)
		}
		switch {
		case c.Take != "":
		case strings.HasPrefix(r.Key, "many "): // many users of a volume, which not every cluster needs
			c.Why = "none of " + strings.Join(p.w.Storage, ", ") + " is suitable"
			p.Note("storage for %s: %s", c.For, c.Why)
		default:
			without = append(without, c.For)
		}
		p.Choices = append(p.Choices, c)
	}
	p.storageTypes()
	if len(without) > 0 {
		return sizing.Instead("storage", "block,file,object", "with only %s there is no storage for %s: add a technology; a local disk of the nodes is block storage", strings.Join(p.w.Storage, " and "), strings.Join(without, ", "))
	}
	return nil
}

// storageTypes describes the technologies, with advice on the choice.
func (p *plan) storageTypes() {
	e := p.Table("openshift-storage-types")
	for _, technology := range p.w.Storage {
		p.Add(sizing.Value{Group: "storage types", Name: technology, Value: e.Text(technology, "examples"), Why: e.Text(technology, "description") + "; " + e.Text(technology, "note"), Sources: e.Sources})
	}
	const usual = 250
	if p.podsPerNode > usual {
		p.Note("how many pods with persistent volumes fit on a node depends on the storage provider: with more than %d pods on a node only OpenShift Container Storage 4 kept up in the tests (9.1)", usual)
	}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// directories adds the sizes of the directories on the disks of the nodes.
func (p *plan) directories() error {
	e := p.Table("openshift-directories")
	sizes := []struct {
		group string
		ram   float64
	}{{"disk of a worker", float64(p.w.NodeRAM) / (1 << 30)}}
	if v := p.Value("control plane", "ram"); v != nil {
		sizes = append(sizes, struct {
			group string
			ram   float64
		}{"disk of a control plane node", v.Value.(float64)})
	}
	for _, s := range sizes {
		total := 0.0
		for _, r := range e.Rows {
			if r.Cells["on"] == "control plane" && s.group == "disk of a worker" {
				continue
			}
			most, sized := r.Cells["base_max"].(float64)
			if !sized {
				p.Add(sizing.Value{Group: s.group, Name: r.Key, Value: "varies", Why: e.Text(r.Key, "growth"), Sources: e.Sources})
				continue
			}
			least := e.Number(r.Key, "base_min")
			why := e.Text(r.Key, "growth")
			if perMin, ok := r.Cells["per_8_gb_min"].(float64); ok {
				further := max(0, s.ram-16) / 8
				least += further * perMin
				most += further * e.Number(r.Key, "per_8_gb_max")
				more := fmt.Sprintf("%s with 16 GiB of memory, %s to %s more for each further 8 of %s", sizing.Amount(e.Number(r.Key, "base_max"), "GB"), sizing.Amount(perMin, "GB"), sizing.Amount(e.Number(r.Key, "per_8_gb_max"), "GB"), unit.Digits(s.ram))
				if further == 0 {
					more = "with up to 16 GiB of memory"
				}
				why = more + "; " + why
			}
			total += most
			v := sizing.Value{Group: s.group, Name: r.Key, Value: sizing.Round(most), Unit: "GB", Why: why, Sources: e.Sources}
			if least != most {
				v.Also = []sizing.Figure{{Value: sizing.Round(least), Unit: "GB", What: "at least"}}
			}
			p.Add(v)
		}
		p.Add(sizing.Value{Group: s.group, Name: "all", Value: sizing.Round(total), Unit: "GB", Why: "excluding /var/lib/kubelet, which holds the data that pods store outside volumes", Sources: e.Sources})
	}
	return nil
}
