package server

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Router describes an HAProxy, or OpenShift's router, that handles its log's traffic.
type Router struct {
	frontEnd
	CPUs  int
	RAM   unit.Size
	For   string // openshift or haproxy
	Route string
}

// Names of the router's files.
const (
	IngressFile = "ingress-controller.yaml"
	HAProxyFile = "haproxy-limits.cfg"
)

// NewRouter returns a request with the defaults.
func NewRouter() *Router {
	w := &Router{For: "openshift", Route: "edge"}
	w.inputs = append(w.common("log of HAProxy (option httplog), or of OpenShift's router (spec.logging.access)"),
		sizing.Word(&w.For, "for", "program for which to calculate the values", "openshift", "haproxy"),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the router's machine", 1, 1024),
		sizing.Size(&w.RAM, "ram", "memory for the router", 128*unit.MiB, 64*unit.TiB),
		sizing.Word(&w.Route, "route", "type of most routes", "none", "edge", "passthrough", "re-encrypt"))
	return w
}

// Size implements sizing.Request.
func (w *Router) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if err := w.missing("/var/log/haproxy.log"); err != nil {
		return nil, err
	}
	switch {
	case w.CPUs == 0:
		return nil, sizing.Instead("cpus", "4", "not given; set the number of CPUs of the router's machine")
	case w.RAM == 0:
		return nil, sizing.Instead("ram", "16GiB", "not given; set the memory for the router")
	}
	r := sizing.NewResult(f, "router", "")
	e, measured := r.Newest("frontend-router"), r.Newest("openshift-router")
	r.RecordInputs(w.inputs)
	w.summary(r)
	if n := w.Traffic.PerConnection; n > 0 {
		r.Add(sizing.Value{Group: "log", Name: "per_connection", Value: sizing.Round(n), Unit: "requests", Why: "per client connection (%ci:%cp)"})
	}
	figure := func(row string) float64 { return e.Number(row, "value") }
	add := func(name string, value any, unit, why string, sources ...rule.Source) {
		r.Add(sizing.Value{Group: "router", Name: name, Value: value, Unit: unit, Why: why, Sources: sources})
	}
	chapter := rule.Cite("openshift-scalability", "11.1")

	now, of := w.Traffic.Connections, internaltext.Count(int(math.Round(w.Traffic.Connections)), "connection")+" at a time, as HAProxy logs them"
	if now == 0 {
		now, of = w.Traffic.Most, internaltext.Count(int(math.Round(w.Traffic.Most)), "request")+" in progress; the log does not contain idle connections, which come on top"
	}
	need := now * w.Headroom
	least := figure("maxconn openshift")
	if w.For == "haproxy" {
		least = figure("maxconn haproxy")
	}
	conns := math.Max(least, math.Ceil(need/1000)*1000)
	why := internaltext.Sprintf("%s; x %s is %.0f", of, unit.Digits(w.Headroom), math.Ceil(need))
	if need <= least {
		why += internaltext.Sprintf("; the default %.0f suffices", least)
	}
	each := figure("bytes of a connection")
	if memory := conns * each; memory > float64(w.RAM)/2 {
		if need*each > float64(w.RAM)/2 {
			return nil, sizing.Instead("ram", unit.Size(math.Ceil(2*need*each/(1<<30)))*unit.GiB, "%.0f connections take %s of buffers, more than half of %s: use %s, or more routers", need, unit.Size(need*each), w.RAM, unit.Size(math.Ceil(2*need*each/(1<<30)))*unit.GiB)
		}
		conns = math.Floor(float64(w.RAM)/2/each/1000) * 1000
		if conns < need {
			conns = math.Ceil(need)
		}
		why += fmt.Sprintf("; as many as fit into half of %s", w.RAM)
	}
	if conns > 2_000_000 {
		return nil, sizing.Bad("log", "%.0f connections are more than the 2,000,000 of one router: use several", conns)
	}
	add("maxconn", int(conns), "connections", why, chapter, rule.Cite("haproxy-configuration", "maxconn"))
	r.Spend("memory", "MiB", math.Floor(float64(w.RAM)/(1<<20)), sizing.Part{Name: internaltext.Sprintf("buffers of %.0f connections, %.0f bytes each (L03)", conns, each), Amount: sizing.Round(conns * each / (1 << 20))})
	r.Max(sizing.Limit{Name: "connections", Maximum: conns, Wanted: now, Why: of, Sources: []rule.Source{chapter}})

	threads := math.Min(float64(w.CPUs), figure("threads measured"))
	capacity, how := w.capacity(measured)
	rate := w.Traffic.Rate * w.Headroom
	replicas := max(2, sizing.Ceil(rate, capacity*threads/figure("threads measured")))
	add("threads", int(threads), "", internaltext.Sprintf("routers were measured with %.0f threads, one for each CPU; for more load add routers, not threads", figure("threads measured")), chapter)
	add("routers", replicas, "", internaltext.Sprintf("%s requests/s in %s x %s; one router with %.0f threads served %.0f/s (%s, %s, pages of 1 kB); at least two", unit.Digits(w.Traffic.Rate), w.Traffic.rateOf(), unit.Digits(w.Headroom), figure("threads measured"), capacity, w.Route, how), measured.Sources...)
	if w.Traffic.PerConnection == 0 {
		r.Note("the log does not show which requests shared a connection (HAProxy's %%ci:%%cp): connections are assumed to be kept; if clients open a connection for each request, the same figures give %.1f times as many routers", measured.Number(w.Route, "load_balancer")/measured.Number(w.Route, "load_balancer_close"))
	}
	r.Max(sizing.Limit{Name: "requests/s of the routers", Maximum: math.Round(float64(replicas) * capacity * threads / figure("threads measured")), Wanted: sizing.Round(w.Traffic.Rate), Why: "with the figures of OpenShift 4.4 Scalability and Performance", Sources: []rule.Source{chapter}})

	server := figure("timeout server")
	sWhy := fmt.Sprintf("the default; the longest request took %s s", unit.Digits(w.Traffic.Longest))
	ended := w.Traffic.Timeouts["server"]
	switch {
	case ended > 0:
		server = math.Max(2*server, math.Ceil(2*w.Traffic.Longest))
		sWhy = internaltext.Sprintf("%s timed out, the longest after %s s; twice that time", internaltext.Count(ended, "request"), unit.Digits(w.Traffic.Longest))
	case w.Traffic.Longest*1.25 > server:
		server = math.Ceil(w.Traffic.Longest * 1.25)
		sWhy = fmt.Sprintf("a quarter more than the longest request, %s s", unit.Digits(w.Traffic.Longest))
	}
	if most := figure("timeout most"); server > most {
		r.Note("requests of %.0f s need a longer timeout for their route or backend; the timeout for all others is %.0f s", server, most)
		server = most
	}
	add("timeout_server", int(server), "s", sWhy, chapter)
	client := figure("timeout client")
	cWhy := "the default: inactivity of the client"
	if n := w.Traffic.Timeouts["client"]; n > 0 {
		r.Note("%s ended because their client was inactive (timeout client): slow clients, or disconnected ones; this timeout stays at %.0f s", internaltext.Count(n, "request"), client)
	}
	add("timeout_client", int(client), "s", cWhy, chapter)
	if n := w.Traffic.Timeouts["queue"]; n > 0 {
		r.Note("%s timed out in the queue for a server: its maxconn, or the servers themselves, are the bottleneck", internaltext.Count(n, "request"))
	}
	for _, how := range slices.Sorted(maps.Keys(w.Traffic.Timeouts)) {
		if n := w.Traffic.Timeouts[how]; n > 0 {
			r.Add(sizing.Value{Group: "log", Name: "timeouts_" + how, Value: n, Unit: "requests", Why: "ended by a timeout", Sources: []rule.Source{rule.Cite("haproxy-configuration", "Session state at disconnection")}})
		}
	}
	r.Headline.Line("%s routers with %s threads and maxconn %s each, for a rate of %s/s and %s connections at once", r.InHeadline("router", "routers"), r.InHeadline("router", "threads"),
		r.Headline.Count("router_maxconn", int(conns), ""), r.Headline.Figure("log_rate_per_s", w.Traffic.Rate, ""), r.Headline.Figure("connections", now, ""))
	w.caveats(r, "")
	r.First("router/*", "log/*")
	data := map[string]any{
		"InProgress": w.Traffic.Most, "Connections": int(conns), "Threads": int(threads), "Replicas": replicas,
		"ClientTimeout": int(client), "ServerTimeout": int(server), "ConnectTimeout": int(figure("timeout connect")),
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if w.For == "haproxy" {
		haproxy(r, data)
	} else {
		openshift(r, data)
	}
	return r, nil
}

// capacity returns the requests per second that one router served in the source's table, given its
// use of connections. A request that opens a connection costs the time of one on a kept
// connection, plus the difference between the table's two columns.
func (w *Router) capacity(measured *sizing.Edition) (perSecond float64, how string) {
	kept, closed := measured.Number(w.Route, "load_balancer"), measured.Number(w.Route, "load_balancer_close")
	switch each := w.Traffic.PerConnection; {
	case each == 0:
		return kept, "connections kept"
	case each <= 1:
		return closed, "a connection per request"
	default:
		return 1 / (1/kept + (1/closed-1/kept)/each), internaltext.Sprintf("%s requests per connection; %.0f/s if all connections are kept, %.0f/s if none are", unit.Digits(each), kept, closed)
	}
}

func haproxy(r *sizing.Result, data map[string]any) {
	r.Add(sizing.Value{Group: "router", Name: "timeout_connect", Value: data["ConnectTimeout"], Unit: "s", Why: "time after which HAProxy gives up connecting to a server", Sources: []rule.Source{rule.Cite("haproxy-configuration", "timeout connect")}})
	r.Files = append(r.Files, sizing.Artefact{Name: HAProxyFile, What: "the limits, for the sections of haproxy.cfg", Checked: "haproxy -c of HAProxy 2.6", Content: fill("haproxy.cfg", data)})
	r.Steps = append(r.Steps, sizing.Step{
		Do:       "Put the lines into haproxy.cfg, or let fettle set them, which can be undone",
		Command:  fmt.Sprintf("fettle tune --set haproxy:maxconn=%d --set haproxy:nbthread=%d --set haproxy:timeout-server=%ds --set haproxy:timeout-client=%ds --set haproxy:timeout-connect=%ds", data["Connections"], data["Threads"], data["ServerTimeout"], data["ClientTimeout"], data["ConnectTimeout"]),
		Restarts: "nothing: HAProxy is reloaded", Check: "fettle check haproxy has no finding (L01, L03, L04, L05, L07)",
	})
}

func openshift(r *sizing.Result, data map[string]any) {
	text := sizing.Manifest("ingress-controller.yaml", "Written by fettle size router, from the log of a router.", data)
	r.Files = append(r.Files, sizing.Artefact{Name: IngressFile, What: "replicas and spec.tuningOptions of the default IngressController", Checked: "the types of openshift/api", Content: text})
	r.Steps = append(r.Steps, sizing.Step{
		Do: "Patch the IngressController", Command: "oc patch -n openshift-ingress-operator ingresscontroller/default --type merge --patch-file " + IngressFile,
		Restarts: "the routers, one after the other", Check: "oc get -n openshift-ingress deployment/router-default; the operator overwrites environment variables that are set on the router itself (O35)",
	})
	r.Note("threadCount exists since OpenShift 4.9, maxConnections since 4.11; before that a router has 4 threads and 20,000 connections, and only more routers help (O35)")
}
