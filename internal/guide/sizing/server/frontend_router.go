package server

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/unit"
)

// Router is an HAProxy, or OpenShift's router, that is to hold what its log has.
type Router struct {
	wish
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

// NewRouter is a wish with the defaults.
func NewRouter() *Router {
	w := &Router{For: "openshift", Route: "edge"}
	w.inputs = append(w.common("log of HAProxy (option httplog); of OpenShift's router that of spec.logging.access"),
		sizing.Word(&w.For, "for", "whose values are written", "openshift", "haproxy"),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the router's machine", 1, 1024),
		sizing.Size(&w.RAM, "ram", "memory that the router may have", 128*unit.MiB, 64*unit.TiB),
		sizing.Word(&w.Route, "route", "what most routes are", "none", "edge", "passthrough", "re-encrypt"))
	return w
}

// ingress is the part of an IngressController that a plan writes.
type ingress struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Metadata   metadata    `yaml:"metadata"`
	Spec       ingressSpec `yaml:"spec"`
}

type metadata struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

type ingressSpec struct {
	Replicas int    `yaml:"replicas,omitempty"`
	Tuning   tuning `yaml:"tuningOptions"`
}

type tuning struct {
	Threads       int    `yaml:"threadCount,omitempty"`
	Connections   int    `yaml:"maxConnections,omitempty"`
	ClientTimeout string `yaml:"clientTimeout,omitempty"`
	ServerTimeout string `yaml:"serverTimeout,omitempty"`
}

// Size implements sizing.Wish.
func (w *Router) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if err := w.missing(); err != nil {
		return nil, err
	}
	switch {
	case w.CPUs == 0:
		return nil, sizing.Instead("cpus", "4", "how many? for example 4")
	case w.RAM == 0:
		return nil, sizing.Instead("ram", "16GiB", "how much? for example 16GiB")
	}
	e, err := sizing.Of(f, "frontend-router", "")
	if err != nil {
		return nil, err
	}
	measured, err := sizing.Of(f, "openshift-router", "")
	if err != nil {
		return nil, err
	}
	r := sizing.NewResult("router", "")
	r.Heard(w.inputs)
	w.said(r)
	if n := w.Requests.PerConnection; n > 0 {
		r.Add(sizing.Value{Group: "log", Name: "per_connection", Value: sizing.Round(n), Unit: "requests", Why: "over each connection of a client (%ci:%cp)"})
	}
	figure := func(row string) float64 { return e.Number(row, "value") }
	add := func(name string, value any, unit, why string, sources ...rule.Source) {
		r.Add(sizing.Value{Group: "router", Name: name, Value: value, Unit: unit, Why: why, Sources: sources})
	}
	chapter := rule.Source{Document: "002", Section: "11.1"}

	now, of := w.Requests.Connections, "connections at a time, as HAProxy says"
	if now == 0 {
		now, of = w.Requests.Most, "requests at work at a time; connections that wait for the next one come to them, and the log does not have them"
	}
	need := now * w.Headroom
	least := figure("maxconn openshift")
	if w.For == "haproxy" {
		least = figure("maxconn haproxy")
	}
	conns := math.Max(least, math.Ceil(need/1000)*1000)
	why := fmt.Sprintf("%.0f %s; x %g is %.0f", now, of, w.Headroom, math.Ceil(need))
	if need <= least {
		why += fmt.Sprintf("; %.0f is the default, and does", least)
	}
	each := figure("bytes of a connection")
	if memory := conns * each; memory > float64(w.RAM)/2 {
		if need*each > float64(w.RAM)/2 {
			return nil, sizing.Instead("ram", unit.Size(math.Ceil(2*need*each/(1<<30)))*unit.GiB, "%.0f connections take %s of buffers, more than half of %s: %s, or further routers", need, unit.Size(need*each), w.RAM, unit.Size(math.Ceil(2*need*each/(1<<30)))*unit.GiB)
		}
		conns = math.Floor(float64(w.RAM)/2/each/1000) * 1000
		if conns < need {
			conns = math.Ceil(need)
		}
		why += fmt.Sprintf("; half of %s holds no more", w.RAM)
	}
	if conns > 2_000_000 {
		return nil, sizing.Bad("log", "%.0f connections are more than the 2000000 of one router: share them out", conns)
	}
	add("maxconn", int(conns), "connections", why, chapter, rule.Source{Document: "HAProxy Configuration Manual", Section: "maxconn"})
	r.Spend("memory", "MiB", math.Floor(float64(w.RAM)/(1<<20)), sizing.Part{Name: fmt.Sprintf("buffers of %.0f connections, %.0f bytes each (L03)", conns, each), Amount: sizing.Round(conns * each / (1 << 20))})
	r.Max(sizing.Limit{Name: "connections", Maximum: conns, Wanted: now, Why: of, Sources: []rule.Source{chapter}})

	threads := math.Min(float64(w.CPUs), figure("threads measured"))
	capacity, how := w.capacity(measured)
	rate := w.Requests.Rate * w.Headroom
	replicas := max(2, sizing.Ceil(rate, capacity*threads/figure("threads measured")))
	add("threads", int(threads), "", fmt.Sprintf("the figures of a router are with %.0f on as many CPUs; beyond them routers are added, not threads", figure("threads measured")), chapter)
	add("routers", replicas, "", fmt.Sprintf("%.0f requests/s in %s x %g; one router with %.0f threads served %.0f/s (%s, %s, pages of 1 kB); two are the least", w.Requests.Rate, w.Requests.rateOf(), w.Headroom, figure("threads measured"), capacity, w.Route, how), measured.Sources...)
	if w.Requests.PerConnection == 0 {
		r.Note("the log does not say which requests came over one connection (HAProxy's %%ci:%%cp): they are taken to be kept; clients that open one for each take %.1f times as many routers by the same figures", measured.Number(w.Route, "load_balancer")/measured.Number(w.Route, "load_balancer_close"))
	}
	r.Max(sizing.Limit{Name: "requests/s of the routers", Maximum: math.Round(float64(replicas) * capacity * threads / figure("threads measured")), Wanted: sizing.Round(w.Requests.Rate), Why: "with the figures of 002", Sources: []rule.Source{chapter}})

	server := figure("timeout server")
	sWhy := fmt.Sprintf("the default; the longest request took %.3g s", w.Requests.Longest)
	ended := w.Requests.Timeouts["server"]
	switch {
	case ended > 0:
		server = math.Max(2*server, math.Ceil(2*w.Requests.Longest))
		sWhy = fmt.Sprintf("%d requests were ended by it, the longest after %.3g s: twice that", ended, w.Requests.Longest)
	case w.Requests.Longest*1.25 > server:
		server = math.Ceil(w.Requests.Longest * 1.25)
		sWhy = fmt.Sprintf("the longest request took %.3g s, and a quarter more", w.Requests.Longest)
	}
	if most := figure("timeout most"); server > most {
		r.Note("requests of %.0f s want a timeout of their own for their route or backend, not one for all: %.0f s are written", server, most)
		server = most
	}
	add("timeout_server", int(server), "s", sWhy, chapter)
	client := figure("timeout client")
	cWhy := "the default: silence of the client"
	if n := w.Requests.Timeouts["client"]; n > 0 {
		r.Note("%d requests were ended since their client was silent (timeout client): slow clients, or ones that have gone; it stays at %.0f s", n, client)
	}
	add("timeout_client", int(client), "s", cWhy, chapter)
	if n := w.Requests.Timeouts["queue"]; n > 0 {
		r.Note("%d requests were given up in the queue for a server: its maxconn, or the servers themselves, are what is short", n)
	}
	for _, how := range slices.Sorted(maps.Keys(w.Requests.Timeouts)) {
		if n := w.Requests.Timeouts[how]; n > 0 {
			r.Add(sizing.Value{Group: "log", Name: "timeouts_" + how, Value: n, Unit: "requests", Why: "that a timeout ended", Sources: []rule.Source{{Document: "HAProxy Configuration Manual", Section: "Session state at disconnection"}}})
		}
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	if err := measured.Err(); err != nil {
		return nil, err
	}
	if w.For == "haproxy" {
		w.haproxy(r, int(conns), int(threads), int(client), int(server), int(figure("timeout connect")))
		return r, e.Err()
	}
	return r, w.openshift(r, int(conns), int(threads), replicas, int(client), int(server))
}

// capacity is how many requests a second one router served by the source's table, and
// how its connections were. A request that opens one costs the time of both: what a
// kept one takes, and what the table has between kept and closed; the log says how
// many of them do.
func (w *Router) capacity(measured *sizing.Edition) (perSecond float64, how string) {
	kept, closed := measured.Number(w.Route, "load_balancer"), measured.Number(w.Route, "load_balancer_close")
	switch each := w.Requests.PerConnection; {
	case each == 0:
		return kept, "connections kept"
	case each <= 1:
		return closed, "a connection for each request"
	default:
		return 1 / (1/kept + (1/closed-1/kept)/each), fmt.Sprintf("%.3g requests over a connection; %.0f/s where all are kept, %.0f/s where none is", each, kept, closed)
	}
}

func (w *Router) haproxy(r *sizing.Result, conns, threads, client, server, connect int) {
	r.Add(sizing.Value{Group: "router", Name: "timeout_connect", Value: connect, Unit: "s", Why: "a server that does not answer by then is not asked", Sources: []rule.Source{{Document: "HAProxy Configuration Manual", Section: "timeout connect"}}})
	text := fmt.Sprintf(`# Written by fettle size router, from a log with %.0f requests at work at a time: put
# the lines into the sections of haproxy.cfg.
global
    # connections of clients; each has two sockets and two buffers
    maxconn %d
    # threads, no more than CPUs
    nbthread %d

defaults
    # a proxy without one of these waits without an end (L04)
    timeout connect %ds
    timeout client %ds
    timeout server %ds
`, w.Requests.Most, conns, threads, connect, client, server)
	r.Files = append(r.Files, sizing.Artefact{Name: HAProxyFile, What: "the limits, for the sections of haproxy.cfg", Checked: "haproxy -c of HAProxy 2.6", Content: text})
	r.Steps = append(r.Steps,
		sizing.Step{Do: "Put the lines into haproxy.cfg, or have fettle set them, with a way back", Command: fmt.Sprintf("fettle tune --set haproxy:maxconn=%d --set haproxy:nbthread=%d --set haproxy:timeout-server=%ds --set haproxy:timeout-client=%ds --set haproxy:timeout-connect=%ds", conns, threads, server, client, connect), Restarts: "nothing: HAProxy is reloaded", Check: "fettle check haproxy has nothing against it (L01, L03, L04, L05, L07)"})
}

func (w *Router) openshift(r *sizing.Result, conns, threads, replicas, client, server int) error {
	text, err := sizing.YAML("Written by fettle size router, from the log of a router.", ingress{
		"operator.openshift.io/v1", "IngressController", metadata{"default", "openshift-ingress-operator"},
		ingressSpec{replicas, tuning{threads, conns, fmt.Sprintf("%ds", client), fmt.Sprintf("%ds", server)}},
	})
	if err != nil {
		return err
	}
	r.Files = append(r.Files, sizing.Artefact{Name: IngressFile, What: "replicas and spec.tuningOptions of the default IngressController", Checked: "the types of openshift/api", Content: text})
	r.Steps = append(r.Steps, sizing.Step{
		Do: "Patch the IngressController: the router's own environment variables are overwritten by its operator (O35)", Command: "oc patch -n openshift-ingress-operator ingresscontroller/default --type merge --patch-file " + IngressFile,
		Restarts: "the routers, one after the other", Check: "oc get -n openshift-ingress deployment/router-default",
	})
	r.Note("threadCount is there from OpenShift 4.9 on, maxConnections from 4.11; before them a router has 4 threads and 20000 connections, and only more routers help (O35)")
	return nil
}
