package proofs

import (
	"fmt"
	"strings"
	"testing"
)

// wrong says where a cell was not what it claims to be: an error, a route that led
// elsewhere, a page of another size, connections or sessions that were kept or not against
// what was asked for. It is about the whole time, where counts have to be exact.
func (f *routerFound) wrong() (all []string) {
	not := func(fine bool, format string, args ...any) {
		if !fine {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	c, sent := f.routerCell, int64(0)
	not(f.Errors == "", "%s", f.Errors)
	not(f.Reopened == 0, "%d connections were closed while they were idle", f.Reopened)
	backEnds := 0
	for name := range f.HAProxy {
		if strings.Contains(name, ":") {
			backEnds++
		}
	}
	not(backEnds == routes, "%d back ends", backEnds)
	for n := 1; n <= routes; n++ {
		sent += f.Sent[n]
		name := backPrefix[c.Mode] + ":" + routeName(n)
		// What is passed through is not looked into: connections are all that is counted.
		counter, want := "req_tot", f.Sent[n]
		if c.Mode == "passthrough" {
			if counter = "stot"; !c.Close {
				want = 1
			}
		}
		not(f.Sent[n] > 0 && f.HAProxy[name][counter] == want, "route %d was asked %d times, and %s has %s %d", n, f.Sent[n], name, counter, f.HAProxy[name][counter])
		each := float64(f.In[n])/float64(f.Sent[n]) - float64(c.Bytes)
		not(each > 150 && each < 700, "answers of route %d are %.0f bytes longer than the page", n, each)
	}
	not(f.NginxRequests == sent, "%d requests were sent, and the back ends had %d", sent, f.NginxRequests)
	connections := int64(routes)
	if c.Close {
		connections = sent
	}
	not(f.Dialed == connections, "clients opened %d connections for %d requests of %d routes", f.Dialed, sent, routes)
	not(f.BackDialed == connections, "back ends had %d connections for %d requests of %d routes", f.BackDialed, sent, routes)
	f.sessions(not)
	return all
}

// sessions checks that those of TLS were taken up, or not, as each side counts them.
func (f *routerFound) sessions(not func(bool, string, ...any)) {
	handshakes, resumed := int64(0), int64(0)
	if f.encrypted() {
		handshakes = f.Dialed
	}
	if f.Resume && f.Close {
		resumed = f.Dialed - routes // the first one of each client cannot
	}
	not(f.Shaken == handshakes, "%d handshakes on %d connections", f.Shaken, f.Dialed)
	not(f.Taken == resumed, "%d of %d handshakes took up a session, want %d", f.Taken, f.Shaken, resumed)
	if f.ended() {
		all, taken := f.HAProxy["fe_sni"].handshakes()
		not(all == f.Shaken && taken == f.Taken, "HAProxy had %d handshakes, %d of which took up a session; clients had %d and %d", all, taken, f.Shaken, f.Taken)
	}
	handshakes, resumed = 0, 0
	if f.Mode == "re-encrypt" {
		handshakes = f.BackDialed
		resumed = f.BackDialed - routes // HAProxy takes up its own, whatever clients do
	}
	not(f.BackHandshakes == handshakes && f.BackResumed == resumed, "HAProxy had %d handshakes with the back ends, %d of which took up a session; want %d and %d", f.BackHandshakes, f.BackResumed, handshakes, resumed)
}

// unsettled says what of the beginning still went on when the warm-up was over, and where
// the counters of the time after it contradict each other.
func (f *routerFound) unsettled() (all []string) {
	if f.Requests <= 0 || f.HAProxyCPUS <= 0 {
		all = append(all, fmt.Sprintf("%d requests took %.2f s of HAProxy's processor time", f.Requests, f.HAProxyCPUS))
	}
	if !f.Close && (f.Opened > 0 || f.BackOpened > 0) {
		all = append(all, fmt.Sprintf("clients opened %d connections after the warm-up, and HAProxy %d", f.Opened, f.BackOpened))
	}
	if f.Close && f.Resume && f.Resumed != f.Handshakes {
		all = append(all, fmt.Sprintf("%d of %d handshakes after the warm-up took up a session", f.Resumed, f.Handshakes))
	}
	if f.Requests < f.Least || f.Requests > f.Most {
		all = append(all, fmt.Sprintf("the back ends had %d requests after the warm-up, and by their answers clients had sent %d to %d", f.Requests, f.Least, f.Most))
	}
	return all
}

// TestRouterChecks: each thing that may be wrong with a cell is found, and only that.
func TestRouterChecks(t *testing.T) {
	good := func(c routerCell) *routerFound {
		f := &routerFound{routerSample: routerSample{routerCell: c, WindowS: 2, Requests: 2000, HAProxyCPUS: 0.4}, Least: 1900, Most: 2110, NginxRequests: 30 * routes, Dialed: routes, BackDialed: routes, HAProxy: map[string]counters{"public": {}, "fe_sni": {}}}
		if c.Close {
			f.Opened, f.BackOpened, f.Dialed, f.BackDialed = 2000, 2000, 30*routes, 30*routes
		}
		if c.encrypted() {
			f.Handshakes, f.Shaken = f.Opened, f.Dialed
			if c.Resume && c.Close {
				f.Resumed, f.Taken = f.Opened, f.Dialed-routes
			}
		}
		if c.ended() {
			f.HAProxy["fe_sni"] = counters{"ssl_sess": f.Shaken - f.Taken, "ssl_reused_sess": f.Taken}
		}
		if c.Mode == "re-encrypt" {
			f.BackHandshakes, f.BackResumed = f.BackDialed, f.BackDialed-routes
		}
		for n := 1; n <= routes; n++ {
			f.Sent[n], f.In[n] = 30, 30*int64(c.Bytes+300)
			connections := int64(1)
			if c.Close {
				connections = 30
			}
			f.HAProxy[backPrefix[c.Mode]+":"+routeName(n)] = counters{"req_tot": 30, "stot": connections}
		}
		return f
	}
	all := func(f *routerFound) []string { return append(f.wrong(), f.unsettled()...) }
	for _, c := range routerCells() {
		if wrong := all(good(c)); len(wrong) > 0 {
			t.Errorf("%s: %q", c, wrong)
		}
	}
	kept, each := routerCell{Mode: "none", Bytes: page1k}, routerCell{Mode: "edge", Close: true, Resume: true, Bytes: page8k}
	through, whole := routerCell{Mode: "passthrough", Close: true, Bytes: page1k}, routerCell{Mode: "re-encrypt", Close: true, Bytes: page1k}
	for want, x := range map[string]struct {
		routerCell
		spoil func(*routerFound)
	}{
		"status 503":                                      {kept, func(f *routerFound) { f.Errors = "3 answers with status 503" }},
		"closed while they were idle":                     {kept, func(f *routerFound) { f.Reopened = 1 }},
		"0.00 s of HAProxy's":                             {kept, func(f *routerFound) { f.HAProxyCPUS = 0 }},
		"101 back ends":                                   {kept, func(f *routerFound) { f.HAProxy["be_http:app-101"] = counters{} }},
		"be_http:app-007 has req_tot 29":                  {kept, func(f *routerFound) { f.HAProxy["be_http:app-007"]["req_tot"]-- }},
		"be_tcp:app-100 has stot 31":                      {through, func(f *routerFound) { f.HAProxy["be_tcp:app-100"]["stot"]++ }},
		"route 9 are 8":                                   {each, func(f *routerFound) { f.In[9] = 30 * (page8k + 8) }},
		"the back ends had 2999":                          {kept, func(f *routerFound) { f.NginxRequests-- }},
		"clients opened 101 connections for 3000":         {kept, func(f *routerFound) { f.Dialed++ }},
		"back ends had 2900 connections":                  {each, func(f *routerFound) { f.BackDialed -= 100 }},
		"1 handshakes on 100 connections":                 {kept, func(f *routerFound) { f.Shaken = 1 }},
		"1 of 3000 handshakes took up a session, want 0":  {through, func(f *routerFound) { f.Taken = 1 }},
		"clients had 3000 and 2900":                       {each, func(f *routerFound) { f.HAProxy["fe_sni"]["ssl_reused_sess"]-- }},
		"5 handshakes with the back ends, 0 of which":     {each, func(f *routerFound) { f.BackHandshakes = 5 }},
		"want 3000 and 2900":                              {whole, func(f *routerFound) { f.BackResumed = 0 }},
		"clients opened 1 connections after the":          {kept, func(f *routerFound) { f.Opened = 1 }},
		"connections after the warm-up, and HAProxy 3":    {kept, func(f *routerFound) { f.BackOpened = 3 }},
		"1999 of 2000 handshakes after the warm-up took ": {each, func(f *routerFound) { f.Resumed-- }},
		"clients had sent 1900 to 1999":                   {kept, func(f *routerFound) { f.Most = 1999 }},
	} {
		f := good(x.routerCell)
		x.spoil(f)
		if wrong := all(f); len(wrong) != 1 || !strings.Contains(wrong[0], want) {
			t.Errorf("%s: %q, want %q", x.routerCell, wrong, want)
		}
	}
}
