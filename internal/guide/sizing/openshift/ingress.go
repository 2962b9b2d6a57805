package openshift

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// leastRouters is the number of routers of a new cluster.
const leastRouters = 2

// ingress decides the number of routers, and whether one set of them suffices.
func (p *plan) ingress() error {
	routes := *p.w.Objects["routes"]
	if p.w.RequestRate == 0 && p.w.RouteApps == 0 && routes == 0 {
		return nil
	}
	e := p.Table("openshift-router")
	bounds := p.Table("openshift-router-limits")
	p.routers = leastRouters
	why := "a new cluster has two"
	if p.w.RequestRate > 0 {
		column := map[bool]string{false: "load_balancer", true: "host_network"}[p.w.HostNetwork]
		if p.w.Close {
			column += "_close"
		}
		each := e.Number(p.w.Route, column)
		how := fmt.Sprintf("TLS: %s; %s; %s", p.w.Route, map[bool]string{false: "behind a load balancer's service", true: "on the machine's network"}[p.w.HostNetwork], map[bool]string{false: "connections are kept", true: "a connection per request"}[p.w.Close])
		if p.w.BareMetal {
			each *= bounds.Number("bare_metal_factor", "value")
			how += "; twice that on bare metal"
		}
		p.Add(sizing.Value{Group: "routers", Name: "requests", Value: each, Unit: "1/s", Why: "of one router with 4 vCPU and pages of 1 kB; " + how, Sources: e.Sources})
		// The rate of the network device of the router's node.
		pages := p.w.Rate * 1e9 / 8 / float64(p.w.PageSize)
		bound := "its requests"
		p.Add(sizing.Value{Group: "routers", Name: "pages_of_link", Value: math.Floor(pages), Unit: "1/s", Why: text.Sprintf("%s Gbit/s in pages of %s, without headers", unit.Digits(p.w.Rate), text.Count(uint64(p.w.PageSize), "byte")), Sources: bounds.Sources})
		if pages < each {
			each, bound = pages, "the network device"
			p.Note("the network device of a router's node is full before the router is: %.0f pages/s", math.Floor(pages))
		}
		if float64(p.w.PageSize) > bounds.Number("page_of_table", "value") {
			p.Note("the routers were measured with pages of 1 kB: the cost of larger ones, apart from the network, is unknown")
		}
		if n := sizing.Ceil(p.w.RequestRate, each); n > p.routers {
			p.routers, why = n, text.Sprintf("%s requests/s, %.0f by each, bounded by %s", unit.Digits(p.w.RequestRate), math.Floor(each), bound)
		}
	}
	if p.w.RouteApps > 0 {
		few, many := bounds.Number(p.w.RouteAppsKind+"_apps_min", "value"), bounds.Number(p.w.RouteAppsKind+"_apps_max", "value")
		n := sizing.Ceil(float64(p.w.RouteApps), many)
		if n > p.routers {
			p.routers, why = n, text.Sprintf("%d %s applications, %s for each at most", p.w.RouteApps, p.w.RouteAppsKind, unit.Digits(many))
		}
		p.Add(sizing.Value{Group: "routers", Name: "for_applications", Value: n, Unit: "routers", Why: text.Sprintf("%d %s applications, %s to %s for each router", p.w.RouteApps, p.w.RouteAppsKind, unit.Digits(few), unit.Digits(many)), Sources: bounds.Sources,
			Also: []sizing.Figure{{Value: sizing.Ceil(float64(p.w.RouteApps), few), Unit: "routers", What: "with the smaller number for each"}}})
		p.Max(sizing.Limit{Name: "applications of one set of routers", Maximum: many * leastRouters, Wanted: float64(p.w.RouteApps), Why: p.w.RouteAppsKind + ", two routers", Sources: bounds.Sources})
	}
	p.Add(sizing.Value{Group: "routers", Name: "routers", Value: p.routers, Unit: "routers", Why: why, Sources: e.Sources})
	shard, reason := false, "one set of routers suffices"
	switch maximum := p.maximum("routes"); {
	case p.routers > p.infra:
		shard, reason = true, text.Sprintf("%s on %s: shards have nodes of their own", text.Count(p.routers, "router"), text.Count(p.infra, "infrastructure node"))
	case maximum > 0 && float64(routes) > maximum:
		shard, reason = true, text.Sprintf("%s, and two routers were tested with %s", text.Count(routes, "route"), unit.Digits(maximum))
	}
	p.Add(sizing.Value{Group: "routers", Name: "shard", Value: shard, Why: reason, Sources: bounds.Sources})
	if p.routers > leastRouters || shard {
		p.Steps = append(p.Steps, sizing.Step{
			Do: "Set the number of routers", Command: fmt.Sprintf(`oc patch -n openshift-ingress-operator ingresscontroller/default --type merge -p '{"spec":{"replicas":%d}}'`, p.routers),
			Check: "oc get -n openshift-ingress deployment/router-default",
		})
	}
	if p.minor() < 9 {
		p.Note("the number of a router's threads cannot be set with %s (O35)", p.Version)
	}
	return nil
}

// maximum returns a tested maximum of the version, or 0.
func (p *plan) maximum(name string) float64 {
	e := p.Table("openshift-maximums")
	if r, err := e.Row(name); err == nil {
		n, _ := r.Cells["maximum"].(float64)
		return n
	}
	return 0
}
