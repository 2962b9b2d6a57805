package proofs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// limits writes the differences that limit the comparison.
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

- OpenShift's router had four threads on a machine of a public cloud with 4 vCPU and 16 GB. Its clients and back ends were separate machines, and with LoadBalancerService a load balancer of the cloud is in front of the router. Our router has one thread on a machine with %d processors. The load generator, HAProxy and nginx share these processors, and all traffic uses the loopback interface. The slowest component limits the requests/s of OpenShift; the sum of three programs limits ours. Therefore this page compares CPU time: a ratio of requests/s depends on nginx and the generator as much as on the router.
- On the loopback interface, the kernel processes received data in the CPU time of the sender. Some of HAProxy's work is therefore counted for nginx and the generator, and some of their work for HAProxy. The effect is larger where connections are opened and closed. With a network card, this work would be counted for no program, or another processor would do it.
- HAProxy used %.0f to %.0f %% of a processor, depending on the cell. If HAProxy is not always busy, each wake-up handles fewer requests, and a request may cost more than under full load. In cells where nginx or the generator was the busiest program, the router can therefore look more expensive than it is.
- OpenShift 4.4 does not state the number of connections, its keys, its TLS version or its client. Here %d clients, one for each route, send one request after another. The key is RSA with 2048 bits; OpenShift makes the same kind for its router. OpenSSL %s negotiated %s. The TCP congestion control is %s.
- The configuration has the main parts of the router of OpenShift. Each host is a regular expression in a map, and HAProxy tries one expression after another. A first frontend reads the host name from the TLS handshake, and a second frontend behind a socket terminates TLS. HAProxy adds headers with the origin of a request, and adds a cookie to each answer. A router with other maps or many more routes has other ratios. There are no health checks (each route has one back end) and there is no log, which is OpenShift's default.
- All figures come from one type of machine. With another processor or another version of OpenSSL, TLS takes another share of the CPU time.
`, p.Machine.CPUs, 100*least, 100*most, p.Routes, p.Programs["OpenSSL"], strings.Join(slices.Sorted(maps.Keys(spoken)), ", "), p.Machine.Settings["sysctl:net.ipv4.tcp_congestion_control"])
}

// how writes the method.
func (p *routerPage) how() {
	others, stolen, window := 0.0, 0.0, 0.0
	for _, s := range p.Samples {
		others, stolen, window = max(others, s.OthersCPUS/s.WindowS), max(stolen, s.StolenS/s.WindowS), max(window, s.WindowS)
	}
	p.say("\n## How it was measured\n\nThe measurement ran on %s on %s with %s, kernel %s and %d × %s. The programs were HAProxy %s with OpenSSL %s, nginx %s and fettle's own load generator (Go %s). They ran in one Debian root with its own network namespace.\n", p.Began.Format("2006-01-02"), machineName(p.Machine.Hypervisor), p.Machine.OS, p.Machine.Kernel, p.Machine.CPUs, p.Machine.CPU, p.Programs["HAProxy"], p.Programs["OpenSSL"], p.Programs["nginx"], p.Programs["Go"])
	p.say(`
- Each cell of each round starts a new HAProxy (one process, one thread) with %d routes of one type. Behind it, one nginx has a listener for each back end. After a warm-up of %.3g s, the next %.3g s count. The CPU time comes from /proc/PID/stat. The number of requests is the number that nginx received.
- There are %d rounds of %d cells. Each round has its own random order (seed %d); the record keeps the order. A ratio compares cells of the same round. The intervals are Student's t intervals of the logarithms of %d ratios.
- A measurement counts only if it passes these checks:
  - Each answer has status 200 and the length of its page plus a header.
  - Each back end received exactly the requests that the client of its route sent. nginx answers 421 to a request for the wrong back end.
  - With keep-alive, no client opened a connection during the time that counts. Otherwise, each request opened one connection.
  - Either every handshake resumed a session or none did. HAProxy and the clients both count this.
- %s
- At the start, the load average was %.2f. In the worst cell, all other programs used %.1f %% of a processor, and the hypervisor took %.1f %%.

%s
`, p.Routes, p.WarmUpS, window, p.Rounds, len(p.of), p.Seed, p.Rounds, discarded(p.Discarded), p.Load, 100*max(0, others), 100*stolen, "`make experiments` repeats this experiment and all others, and writes their pages. The following command repeats only this one, in about 15 minutes: `FETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 go test -count=1 -v -timeout 40m -run '^TestRouter$' ./test/proofs`")
}

func machineName(hypervisor string) string {
	if hypervisor == "" {
		return "a machine"
	}
	return "a virtual machine (" + hypervisor + ")"
}

func discarded(all []string) string {
	if len(all) == 0 {
		return "No measurement was repeated."
	}
	return fmt.Sprintf("Measurements that failed a check and were repeated at once: %d (%s).", len(all), strings.Join(all, "; "))
}
