package peers

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/stats"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// networkRounds is how often each program measures.
const networkRounds = 5

// TestBenchNetwork measures fettle bench network next to iperf3 and irtt, over a pair of veth
// devices between two network namespaces. ethr is missing: go install cannot get its module.
func TestBenchNetwork(t *testing.T) {
	if os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	testkitroot.Disposable(t)
	for _, name := range []string{"iperf3", "irtt", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			testkitroot.Missing(t, "needs %s: apt-get install iperf3 irtt iproute2", name)
		}
	}
	n := &networkBench{t: t, fettle: asInstalled(t, testkitroot.Program(t, "./cmd/fettle")), state: filepath.Join(t.TempDir(), "state")}
	n.do("ip netns add fettle-bench-a; ip netns add fettle-bench-b; ip link add name va netns fettle-bench-a type veth peer name vb netns fettle-bench-b; ip -n fettle-bench-a addr add 10.9.3.1/24 dev va; ip -n fettle-bench-b addr add 10.9.3.2/24 dev vb; ip -n fettle-bench-a link set va up; ip -n fettle-bench-b link set vb up; ip -n fettle-bench-b link set lo up")
	t.Cleanup(func() { n.do("ip netns del fettle-bench-a; ip netns del fettle-bench-b") })
	var theirs, ours, theirRTT, ourRTT []float64
	for range networkRounds {
		theirs = append(theirs, n.iperf())
		ours = append(ours, n.figure("send-1", "cpu_here_s_per_gbit")+n.figure("send-1", "cpu_peer_s_per_gbit"))
		theirRTT = append(theirRTT, n.irtt())
		ourRTT = append(ourRTT, n.figure("udp", "p50_s"))
	}
	row := func(v []float64, scale float64) string {
		low, high := v[0], v[0]
		for _, x := range v {
			low, high = math.Min(low, x), math.Max(high, x)
		}
		return fmt.Sprintf("%.3f (%.3f-%.3f)", stats.Median(v)*scale, low*scale, high*scale)
	}
	var unmet []string
	ratio := stats.Median(ours) / stats.Median(theirs)
	times := fmt.Sprintf("%.2f", ratio)
	if why := unsteady(theirs); why != "" {
		times = why
	} else if ratio > 1.05 {
		unmet = append(unmet, fmt.Sprintf("a gigabit takes %.2f of iperf3's CPU time", ratio))
	}
	tripTimes := unsteady(theirRTT)
	if tripTimes == "" {
		tripTimes = fmt.Sprintf("%.2f", stats.Median(ourRTT)/stats.Median(theirRTT))
	}
	text := fmt.Sprintf("iperf3 3.12 and irtt 0.9.0 of Debian 12 and fettle over veth devices between two network namespaces, alternately, %d rounds, as the median with the range in parentheses.\n\n| measurement | peer | peer's | fettle's | ratio | promised |\n|---|---|---|---|---|---|\n| CPU time of both ends for a gigabit of one TCP stream, s | iperf3 | %s | %s | %s | at most 1, within 5 %% |\n| median round trip of UDP probes, us | irtt | %s | %s | %s | - |\n",
		networkRounds, row(theirs, 1), row(ours, 1), times, row(theirRTT, 1e6), row(ourRTT, 1e6), tripTimes)
	record(t, "network", text, unmet)
}

type networkBench struct {
	t             *testing.T
	fettle, state string
}

func (n *networkBench) do(script string) string {
	n.t.Helper()
	out, err := exec.Command("sh", "-ec", script).Output()
	if err != nil {
		n.t.Fatalf("%s: %v", script, err)
	}
	return string(out)
}

// during runs a server in the second namespace until the function returns.
func (n *networkBench) during(words []string, do func(said func() string)) {
	n.t.Helper()
	c := exec.Command("ip", append([]string{"netns", "exec", "fettle-bench-b"}, words...)...)
	out := filepath.Join(n.t.TempDir(), "server")
	f, err := os.Create(out)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	do(func() string {
		text := ""
		if !testkitroot.Eventually(10*time.Second, func() bool {
			b, _ := os.ReadFile(out)
			text = string(b)
			return text != ""
		}) {
			n.t.Fatalf("%v says nothing", words)
		}
		return text
	})
}

// iperf returns the CPU time of both ends for a gigabit, in seconds.
func (n *networkBench) iperf() (cost float64) {
	n.during([]string{"iperf3", "-s", "-1", "--forceflush"}, func(said func() string) {
		said()
		var r struct {
			End struct {
				CPU struct {
					Host   float64 `json:"host_total"`
					Remote float64 `json:"remote_total"`
				} `json:"cpu_utilization_percent"`
				Received struct{ Seconds, Bytes float64 } `json:"sum_received"`
			}
		}
		if err := json.Unmarshal([]byte(n.do("ip netns exec fettle-bench-a iperf3 -c 10.9.3.2 -n 1G -J")), &r); err != nil {
			n.t.Fatal(err)
		}
		cost = (r.End.CPU.Host + r.End.CPU.Remote) / 100 * r.End.Received.Seconds / (8 * r.End.Received.Bytes / 1e9)
	})
	return cost
}

// irtt returns the median round trip in seconds.
func (n *networkBench) irtt() (rtt float64) {
	n.during([]string{"irtt", "server", "-b", "10.9.3.2", "-i", "1ms"}, func(said func() string) {
		testkitroot.Eventually(10*time.Second, func() bool { return strings.Contains(said(), "ListenerStart") })
		time.Sleep(100 * time.Millisecond) // it says so before it listens
		var r struct {
			Stats struct {
				RTT struct{ Median float64 } `json:"rtt"`
			}
		}
		if err := json.Unmarshal([]byte(n.do("ip netns exec fettle-bench-a timeout 60 irtt client -Q -o - -i 1ms -d 5s -l 172 10.9.3.2")), &r); err != nil {
			n.t.Fatal(err)
		}
		rtt = r.Stats.RTT.Median / 1e9
	})
	return rtt
}

// figure returns a figure of a cell of fettle.
func (n *networkBench) figure(cell, name string) (value float64) {
	value = math.NaN()
	n.during([]string{n.fettle, "bench", "network", "--serve", "10.9.3.2", "--output", "json"}, func(said func() string) {
		var s struct{ Key string }
		if !testkitroot.Eventually(10*time.Second, func() bool { return json.Unmarshal([]byte(said()), &s) == nil && s.Key != "" }) {
			n.t.Fatal(said())
		}
		var r struct {
			Body struct {
				Cells []struct {
					Figures []struct {
						Name  string
						Value float64
					}
				}
			}
		}
		out := n.do(strings.Join([]string{"ip netns exec fettle-bench-a", n.fettle, "--state-dir", n.state, "bench network 10.9.3.2 --for 5s --output json --cells", cell, "--key", s.Key}, " "))
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			n.t.Fatal(err)
		}
		for _, c := range r.Body.Cells {
			for _, f := range c.Figures {
				if f.Name == name {
					value = f.Value
				}
			}
		}
	})
	return value
}
