package proofs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/sizing"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
)

var routerModes = []string{"none", "edge", "passthrough", "re-encrypt"}

// cellOf returns a cell of table 11.1: clients resume TLS sessions.
func cellOf(mode string, closing bool, size int) routerCell {
	return routerCell{mode, closing, mode != "none", size}
}

// unresumed returns the cell with clients that do not resume sessions.
func (c routerCell) unresumed() routerCell {
	c.Resume = false
	return c
}

func kept(closing bool) string {
	if closing {
		return "close"
	}
	return "keep-alive"
}

// routerPage writes a record as docs/proofs/router.md, next to the source's table in the
// catalogue.
type routerPage struct {
	*routerRatios
	strings.Builder
	source *sizing.Edition
}

func newRouterPage(t *testing.T, r *routerRecord) (string, error) {
	t.Helper()
	x, err := newRouterRatios(r)
	if err != nil {
		return "", err
	}
	source, err := sizing.Of(testkitsizing.Figures(t), "openshift-router", "")
	if err != nil {
		return "", err
	}
	p := &routerPage{routerRatios: x, source: source}
	p.compared()
	p.changes()
	p.size()
	p.sizing()
	p.limits()
	p.cells()
	p.how()
	return p.Builder.String(), source.Err()
}

func (p *routerPage) say(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// table begins a table.
func (p *routerPage) table(heads ...string) {
	p.say("| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
}

func (p *routerPage) row(cells ...string) { p.say("| %s |\n", strings.Join(cells, " | ")) }

// published returns a figure of OpenShift 4.4, for keep-alive or closed connections.
func (p *routerPage) published(c routerCell, column string) float64 {
	if c.Close {
		column += "_close"
	}
	return p.source.Number(c.Mode, column)
}

const balancer, hostNetwork = "load_balancer", "host_network"

// both returns the ratio of two cells in each of the two columns of OpenShift 4.4.
func (p *routerPage) both(c, base routerCell) (lb, hn float64) {
	return p.published(c, balancer) / p.published(base, balancer), p.published(c, hostNetwork) / p.published(base, hostNetwork)
}

// compared writes the comparison with OpenShift 4.4.
func (p *routerPage) compared() {
	p.say("# Router: table 11.1 of OpenShift 4.4, measured again\n\nTable 11.1 of OpenShift 4.4 Scalability and Performance shows how many requests per second one OpenShift router served, for each type of route. The absolute figures belong to machines that are not available here, but their ratios may apply to other machines. This page measures these ratios with HAProxy %s on the machine below. The router has 100 routes, serves pages of 1 kB and resumes TLS sessions. Each figure is a ratio to the figure for routes without TLS over keep-alive connections. [The record](router/router.json) has every sample; [How it was measured](#how-it-was-measured) describes the method.\n\n## Comparison with OpenShift 4.4\n\nThe column \"CPU time\" compares requests per second of HAProxy's CPU time. This is the rate of one thread that is never idle. The column \"requests/s\" compares the rates that HAProxy, nginx and the load generator reached together on %d processors. Intervals are 95 %% intervals.\n\n", p.Programs["HAProxy"], p.Machine.CPUs)
	p.table("connections", "route", "OpenShift 4.4, 1/s: LoadBalancerService", "HostNetwork", "OpenShift 4.4, ratio: LoadBalancerService", "HostNetwork", "ours: CPU time", "ours: requests/s")
	base := cellOf("none", false, page1k)
	meeting, others := []string{}, 0
	worst, name := 0.0, ""
	for _, closing := range []bool{false, true} {
		for _, mode := range routerModes {
			c := cellOf(mode, closing, page1k)
			lb, hn := p.both(c, base)
			ours := p.ratio(c, base, capacity)
			p.row(kept(closing), mode, fmt.Sprintf("%.0f", p.published(c, balancer)), fmt.Sprintf("%.0f", p.published(c, hostNetwork)), fmt.Sprintf("%.2f", lb), fmt.Sprintf("%.2f", hn), ours.String(), p.ratio(c, base, rate).String())
			if c == base {
				continue
			}
			others++
			said := mode + ", " + kept(closing)
			if ours.meets(lb, hn) {
				meeting = append(meeting, said)
			}
			nearest := lb
			if math.Abs(math.Log(ours.Factor/hn)) < math.Abs(math.Log(ours.Factor/lb)) {
				nearest = hn
			}
			if off := math.Abs(math.Log(ours.Factor / nearest)); off > worst {
				worst, name = off, fmt.Sprintf("%s: our ratio is %s; the nearer ratio of OpenShift 4.4 is %.2f", said, ours, nearest)
			}
		}
	}
	which := "none"
	if len(meeting) > 0 {
		which = strings.Join(meeting, "; ")
	}
	p.say("\nA ratio of CPU time agrees with OpenShift 4.4 if its interval includes one of the two OpenShift ratios, or a value between them. Of our %d ratios these agree: %s. The largest difference is at %s.\n", others, which, name)
}

// changes has pairs of cells that differ in one thing.
func (p *routerPage) changes() {
	p.say("\n## Effect of one change\n\nA cell is one combination of route, connections, TLS sessions and page size. Each row divides the figure of a cell by that of a cell that differs in one property only.\n\n")
	p.table("change", "route", "connections", "OpenShift 4.4: LoadBalancerService", "HostNetwork", "ours, 1 kB", "ours, 8 kB")
	pair := func(change, route, connections string, to, from func(size int) routerCell, published bool) {
		lb, hn := "", ""
		if published {
			a, b := p.both(to(page1k), from(page1k))
			lb, hn = fmt.Sprintf("%.2f", a), fmt.Sprintf("%.2f", b)
		}
		p.row(change, route, connections, lb, hn, p.ratio(to(page1k), from(page1k), capacity).String(), p.ratio(to(page8k), from(page8k), capacity).String())
	}
	of := func(mode string, closing bool) func(int) routerCell {
		return func(size int) routerCell { return cellOf(mode, closing, size) }
	}
	for _, mode := range routerModes {
		pair("a new connection for each request", mode, "", of(mode, true), of(mode, false), true)
	}
	for _, closing := range []bool{false, true} {
		for _, x := range [][2]string{{"edge", "none"}, {"passthrough", "none"}, {"re-encrypt", "edge"}} {
			pair(x[0]+" instead of "+x[1], "", kept(closing), of(x[0], closing), of(x[1], closing), true)
		}
	}
	var noise []ratio
	for _, closing := range []bool{true, false} {
		for _, mode := range routerModes[1:] {
			to := func(size int) routerCell { return cellOf(mode, closing, size).unresumed() }
			change := "no TLS session resumption"
			if !closing {
				change += " (control)"
				for _, size := range []int{page1k, page8k} {
					noise = append(noise, p.ratio(to(size), cellOf(mode, closing, size), capacity))
				}
			}
			pair(change, mode, kept(closing), to, of(mode, closing), false)
		}
	}
	outside, most := 0, 0.0
	for _, r := range noise {
		if !r.meets(1, 1) {
			outside++
		}
		most = max(most, math.Abs(r.Factor-1))
	}
	p.say("\nThe rows marked (control) check the method. Over keep-alive connections, no TLS handshake takes place during the measurement, so nothing should change. The largest of these %d differences is %.1f %%. Intervals that do not include 1: %d; one 95 %% interval in twenty is expected to miss the true value. OpenShift 4.4 has figures for resumed sessions only. With re-encrypt, HAProxy resumes its own sessions with the back ends in every cell.\n", len(noise), 100*most, outside)
}

// size writes the figures of the larger page.
func (p *routerPage) size() {
	p.say("\n## Pages of 8 kB\n\n")
	p.table("route", "connections", "requests relative to pages of 1 kB", "throughput of one thread that is never idle, Gbit/s")
	for _, closing := range []bool{false, true} {
		for _, mode := range routerModes {
			c := cellOf(mode, closing, page8k)
			bits, _, _ := p.mean(c, func(s routerSample) float64 { return capacity(s) * s.AnswerBytes * 8 / 1e9 })
			p.row(mode, kept(closing), p.ratio(c, cellOf(mode, closing, page1k), capacity).String(), fmt.Sprintf("%.2f", bits))
		}
	}
	p.say("\nOpenShift 4.4 states that one router with four threads saturates 1 Gbit/s with pages of 8 kB over keep-alive connections.\n")
}

// sizing writes what the ratios change for fettle size router.
func (p *routerPage) sizing() {
	p.say("\n## What this means for fettle size router\n\n`fettle size router --route ROUTE` uses the LoadBalancerService figures of OpenShift 4.4 as the capacity of one router with four threads. OpenShift 4.4 has one figure for keep-alive connections and one for closed connections. Depending on the number of requests per connection in the log, `size router` uses one of the two or a value between them. It also doubles the demand found in the log (`--headroom 2`).\n\nThe table shows capacities in requests/s. The columns \"our ratio\" multiply the OpenShift 4.4 figure for keep-alive connections by our ratios.\n\n")
	p.table("--route", "keep-alive: OpenShift 4.4", "a new connection for each request: OpenShift 4.4", "our ratio", "our ratio, no session resumption", "keep-alive, pages of 8 kB: our ratio")
	var words []string
	for _, mode := range routerModes {
		base := cellOf(mode, false, page1k)
		figure := p.published(base, balancer)
		closed := cellOf(mode, true, page1k)
		unresumed := ""
		if closed.encrypted() {
			unresumed = p.ratio(closed.unresumed(), base, capacity).times(figure)
		}
		p.row(mode, fmt.Sprintf("%.0f", figure), fmt.Sprintf("%.0f", p.published(closed, balancer)), p.ratio(closed, base, capacity).times(figure), unresumed, p.ratio(cellOf(mode, false, page8k), base, capacity).times(figure))
		more, published := p.ratio(closed, base, capacity).inverted(), figure/p.published(closed, balancer)
		said := "our ratio agrees"
		switch {
		case more.Low > 2*published:
			said = "this is too low, and the headroom does not cover the difference"
		case more.Low > published:
			said = "this is too low, but the headroom may cover the difference"
		case more.High < published:
			said = "this is more than needed"
		}
		words = append(words, fmt.Sprintf("- %s: clients that open a connection for each request need %s times as many routers. OpenShift 4.4 and `size router` use a factor of %.1f; %s.", mode, more, published, said))
	}
	p.say("\n%s\n\nAn HAProxy log has one line for each request, with the address and port of the client (`%%ci:%%cp`). If the log has as many of these pairs as requests, each request had its own connection.\n", strings.Join(words, "\n"))
}

// cells writes the figures of all cells.
func (p *routerPage) cells() {
	p.say("\n## All cells\n\nThe figures are means of %d rounds. Parentheses show the lowest and the highest CPU time per request.\n\n", p.Rounds)
	p.table("route", "connections", "sessions", "page", "HAProxy CPU time per request, µs", "requests/s", "CPU use, %: HAProxy", "nginx", "generator", "connections per 100 requests: clients", "back ends", "resumed handshakes, %: clients", "back ends", "bytes per answer")
	number := func(c routerCell, digits int, value func(routerSample) float64) string {
		mean, _, _ := p.mean(c, value)
		return fmt.Sprintf("%.*f", digits, mean)
	}
	for _, c := range routerCells() {
		cost, least, most := p.mean(c, func(s routerSample) float64 { return 1e6 / capacity(s) })
		sessions, resumed, back := "", "", ""
		switch {
		case !c.encrypted():
		case c.Resume:
			sessions = "resumed"
		default:
			sessions = "new"
		}
		if c.encrypted() && c.Close {
			resumed = number(c, 1, func(s routerSample) float64 { return 100 * float64(s.Resumed) / float64(s.Handshakes) })
		}
		if c.Mode == "re-encrypt" && c.Close {
			back = number(c, 1, func(s routerSample) float64 { return 100 * float64(s.BackResumed) / float64(s.BackHandshakes) })
		}
		share := func(of func(routerSample) float64) string {
			return number(c, 0, func(s routerSample) float64 { return 100 * of(s) / s.WindowS })
		}
		p.row(c.Mode, kept(c.Close), sessions, fmt.Sprintf("%d kB", c.Bytes/1024), fmt.Sprintf("%.1f (%.1f-%.1f)", cost, least, most), number(c, 0, rate),
			share(func(s routerSample) float64 { return s.HAProxyCPUS }), share(func(s routerSample) float64 { return s.NginxCPUS }), share(func(s routerSample) float64 { return s.GeneratorCPUS }),
			number(c, 1, func(s routerSample) float64 { return 100 * float64(s.Opened) / float64(s.Requests) }), number(c, 1, func(s routerSample) float64 { return 100 * float64(s.BackOpened) / float64(s.Requests) }), resumed, back, number(c, 0, func(s routerSample) float64 { return s.AnswerBytes }))
	}
}

// TestRouterPage checks that docs/proofs/router.md is the page of its record.
func TestRouterPage(t *testing.T) {
	dir := records(t)
	r, err := readRouter(filepath.Join(dir, "router", "router.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := newRouterPage(t, r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "router.md")
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(have)); d != "" {
		t.Errorf("%s does not match its record: run make golden (-want +got):\n%s", file, d)
	}
}

// TestRouterPageOf checks the page of a made-up record with known figures.
func TestRouterPageOf(t *testing.T) {
	page, err := newRouterPage(t, invented())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n| keep-alive | none | 21515 | 29622 | 1.00 | 1.00 | 1 | 1 |\n",
		"\n| keep-alive | edge | 16743 | 22913 | 0.78 | 0.77 | 0.80 [0.80, 0.80] | 1 |\n",
		"\n| close | none | 5719 | 8273 | 0.27 | 0.28 | 0.25 [0.25, 0.25] | 1 |\n",
		"Of our 7 ratios these agree: re-encrypt, close. The largest difference is at passthrough, close: our ratio is 0.50 [0.50, 0.50]; the nearer ratio of OpenShift 4.4 is 0.19.",
		"\n| a new connection for each request | edge |  | 0.16 | 0.18 | 0.25 [0.25, 0.25] | 0.25 [0.25, 0.25] |\n",
		"\n| re-encrypt instead of edge |  | keep-alive | 1.29 | 1.10 | 0.50 [0.50, 0.50] | 0.50 [0.50, 0.50] |\n",
		"\n| no TLS session resumption | re-encrypt | close |  |  | 0.40 [0.40, 0.40] | 0.40 [0.40, 0.40] |\n",
		"\n| no TLS session resumption (control) | edge | keep-alive |  |  | 1 | 1 |\n",
		"The largest of these 6 differences is 0.0 %. Intervals that do not include 1: 0;",
		"\n| none | keep-alive | 0.67 [0.67, 0.67] | 0.87 |\n",
		"\n| edge | 16743 | 2729 | 4190 [4190, 4190] | 1670 [1670, 1670] | 11200 [11200, 11200] |\n",
		"- edge: clients that open a connection for each request need 4.00 [4.00, 4.00] times as many routers. OpenShift 4.4 and `size router` use a factor of 6.1; this is more than needed.",
		"\n| edge | close | new | 1 kB | 666.7 (562.5-812.5) | 1429 | ",
		"\n| re-encrypt | close | resumed | 8 kB | 800.0 ", " | 100.0 | 100.0 | 100.0 | 90.0 | 8492 |\n",
		"No measurement was repeated.", "OpenSSL 3.0.22 negotiated TLS 1.3 with TLS_AES_128_GCM_SHA256 (edge), TLS 1.3 with TLS_AES_128_GCM_SHA256 (passthrough), TLS 1.3 with TLS_AES_128_GCM_SHA256 (re-encrypt). The TCP congestion control is cubic.", "all other programs used 1.0 % of a processor", "HAProxy used 3 to 348 % of a processor",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
