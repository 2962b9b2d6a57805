package proofs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// limits says what cannot be compared.
func (p *routerPage) limits() {
	spoken, least, most := map[string]bool{}, math.Inf(1), 0.0
	for _, s := range p.Samples {
		if s.TLS != "" {
			spoken[fmt.Sprintf("%s with %s (%s)", s.TLS, s.Cipher, s.Mode)] = true
		}
		least, most = min(least, s.HAProxyCPUS/s.WindowS), max(most, s.HAProxyCPUS/s.WindowS)
	}
	p.say(`
## What cannot be compared

- The source's router had four threads on a public cloud's machine of 4 vCPU and 16 GB, its clients and back ends were other machines, and LoadBalancerService has a load balancer of the cloud before it; ours has one thread on a machine of %d processors that generator, HAProxy and nginx share, and everything goes over the loopback. Its requests/s are bounded by the slowest of these; ours by the sum of three programs. That is why processor time is counted: a share of requests/s says as much of nginx and of the generator as of the router.
- Over the loopback the kernel does the work of receiving in the time of whoever sends. Some of HAProxy's is on the account of nginx and of the generator, and some of theirs on HAProxy's: more so where connections are opened and closed. With a network card it would be on nobody's account, or on a processor's of its own.
- HAProxy had %.0f to %.0f %% of a processor, by the cell. Where it is not always at work it is woken for fewer requests at a time, and each may cost it more than under full load: a cell where nginx or the generator had most to do can look dearer for the router than it is.
- The source does not say how many connections there were, nor its keys, its version of TLS or its client. Here %d clients, one for each route, send one request after the other; the key is RSA of 2048 bits, as OpenShift makes it for its router; TLS is %s, by OpenSSL %s; the congestion control of TCP is %s.
- The configuration is that of OpenShift's router in its main parts: hosts are regular expressions in maps, which are tried one after the other; TLS is looked into for the name by a first frontend and ended by a second behind a socket; requests get headers of where they came from, and answers a cookie. A router with other maps, or with many more routes, has other ratios. There are no health checks (each route has one back end) and no log, as is OpenShift's default.
- One kind of machine is one kind of machine: with another processor, or another OpenSSL, what encryption costs beside everything else is another part.
`, p.Machine.CPUs, 100*least, 100*most, p.Routes, strings.Join(slices.Sorted(maps.Keys(spoken)), ", "), p.Programs["OpenSSL"], p.Machine.Settings["sysctl:net.ipv4.tcp_congestion_control"])
}

// how says how it was made.
func (p *routerPage) how() {
	others, stolen, window := 0.0, 0.0, 0.0
	for _, s := range p.Samples {
		others, stolen, window = max(others, s.OthersCPUS/s.WindowS), max(stolen, s.StolenS/s.WindowS), max(window, s.WindowS)
	}
	p.say("\n## How it was measured\n\nOn %s, %s, %s, kernel %s: %d × %s. HAProxy %s with OpenSSL %s, nginx %s, fettle's own generator (Go %s) in one root of Debian and a network of its own.\n", p.Began.Format("2006-01-02"), machineName(p.Machine.Hypervisor), p.Machine.OS, p.Machine.Kernel, p.Machine.CPUs, p.Machine.CPU, p.Programs["HAProxy"], p.Programs["OpenSSL"], p.Programs["nginx"], p.Programs["Go"])
	p.say(`
- Each cell of each round is a HAProxy of its own (one process, one thread) with %d routes of one sort, before one nginx that has a listener for each back end. A warm-up of %.3g s, then %.3g s that count: processor time is that of /proc/PID/stat, requests are those that nginx has had.
- %d rounds of %d cells; in each they come in a random order of its own (seed %d), which the record keeps. Ratios are made of the cells of one round, and intervals are Student's of the logarithms of %d ratios.
- A cell counts if it was what it claims to be: each answer was 200, and as long as its page and a header; each back end of HAProxy had exactly the requests that the client of its route has sent, and nginx answers 421 to whoever asks the wrong one; over kept connections none was opened by a client in the time that counts, otherwise one for each request; sessions were taken up by every handshake, or by none, as HAProxy and the clients both count them. %s
- At the beginning the load average was %.2f. In the worst cell everything else on the machine had %.1f %% of a processor, and the hypervisor took %.1f %%.

%s
`, p.Routes, p.WarmUpS, window, p.Rounds, len(p.of), p.Seed, p.Rounds, discarded(p.Discarded), p.Load, 100*max(0, others), 100*stolen, "`make experiments` makes the record anew, this page from it, and every other proof; `FETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 go test -count=1 -v -timeout 40m -run '^TestRouter$' ./test/proofs` this record alone, in a quarter of an hour.")
}

func machineName(hypervisor string) string {
	if hypervisor == "" {
		return "a machine"
	}
	return "a virtual machine (" + hypervisor + ")"
}

func discarded(all []string) string {
	if len(all) == 0 {
		return "None was discarded."
	}
	return fmt.Sprintf("What was not is measured again at once: %d (%s).", len(all), strings.Join(all, "; "))
}
