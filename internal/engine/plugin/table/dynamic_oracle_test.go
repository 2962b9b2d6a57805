package table

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestDynamicAsTuneD tests generated load histories: at every moment fettle's loops have the values
// that TuneD's plug-ins would have set.
func TestDynamicAsTuneD(t *testing.T) {
	testkitroot.Real(t, "runs TuneD")
	ask := asker(t)
	r := rand.New(rand.NewPCG(1, 20))
	compare := func(what string, q dynamicQuestion, ours []map[string]string) {
		t.Helper()
		a := ask(q)
		if a.Raised != "" {
			t.Fatalf("%s: TuneD raised %s", what, a.Raised)
		}
		for i := range ours {
			if diff := cmp.Diff(a.States[i], ours[i]); diff != "" {
				t.Fatalf("%s, sample %d of %v: (-TuneD +fettle)\n%s", what, i, q.Samples[:i+1], diff)
			}
		}
	}
	moved := map[string]int{}
	for range 40 {
		f, asleep := dynamicDisk(t)
		f.next() // where counting begins: TuneD begins at nothing
		q := dynamicQuestion{Plugin: "disk"}
		reads, writes := episodes(r, 2000), episodes(r, 2000)
		var ours []map[string]string
		var read, written int64
		for range 150 {
			read, written, *asleep = read+reads(), written+writes(), r.IntN(3) == 0
			q.Samples = append(q.Samples, sample{[]int64{read, read, 0, 0, written, written, 0, 0, 0, 0, 0}, *asleep})
			f.put("/sys/block/sda/stat", fmt.Sprintf(statFormat, read, read, written, written))
			ours = append(ours, f.next())
			moved["disk "+ours[len(ours)-1]["-B"]]++
		}
		compare("disk", q, ours)
	}
	for range 40 {
		f := dynamicNet(t, gigabit)
		f.next()
		q := dynamicQuestion{Plugin: "net", Speed: 1000}
		in, out := episodes(r, 100_000_000), episodes(r, 100_000_000)
		var ours []map[string]string
		var received, sent int64
		for range 60 {
			received, sent = received+in(), sent+out()
			q.Samples = append(q.Samples, sample{Load: []string{fmt.Sprint(received), "0", fmt.Sprint(sent), "0"}})
			f.put("/sys/class/net/sda/statistics/rx_bytes", fmt.Sprint(received))
			f.put("/sys/class/net/sda/statistics/tx_bytes", fmt.Sprint(sent))
			state := f.next()
			if s, ok := state["speed"]; ok && s != "full" {
				state["speed"] = "slow"
			}
			ours = append(ours, state)
			moved["net "+state["speed"]]++
		}
		compare("net", q, ours)
	}
	loads := func(n int) (out []float64) {
		for range n {
			out = append(out, float64(r.IntN(120))/100)
		}
		return append(out, 0.2, 0.19, 0.4, 0.41, 0.59, 0.6)
	}
	load := map[string]string{"/proc/loadavg": "0.00 0 0 1/1 1", "/dev/cpu_dma_latency": "", "/sys/devices/system/cpu/cpu0/x": "",
		"/sys/devices/platform/eeepc/cpufv": "0x301"}
	for p, name := range map[string]string{"cpu": "latency", "eeepc_she": "file"} {
		f := loopOf(t, machine.Mounted(t, load), p, map[setting.Setting]string{
			{Kind: "pmqos", Name: "cpu_dma_latency"}: name, {Kind: "eeepc", Name: "cpufv"}: name,
		})
		q := dynamicQuestion{Plugin: p}
		var ours []map[string]string
		for _, l := range loads(300) {
			q.Samples = append(q.Samples, sample{Load: l})
			f.put("/proc/loadavg", fmt.Sprintf("%.2f 0 0 1/1 1", l))
			state := f.next()
			ours = append(ours, state)
			moved[p+" "+state[name]]++
		}
		compare(p, q, ours)
	}
	t.Logf("%v", moved)
	for _, level := range []string{"disk 254", "disk 225", "disk 20", "net slow", "net full", "cpu 100", "cpu 1000", "eeepc_she 1", "eeepc_she 2"} {
		if moved[level] < 10 {
			t.Errorf("%s was seen %d times only", level, moved[level])
		}
	}
	for _, o := range []struct{ plugin, option string }{{"disk", "dynamic"}, {"net", "dynamic"}} {
		plugin.Proves(t, plugin.TuneD, o.plugin, o.option)
	}
}

// TestDynamicUnlikeTuneD tests both sides of a difference: load that TuneD takes for idle time is
// load for fettle.
func TestDynamicUnlikeTuneD(t *testing.T) {
	testkitroot.Real(t, "runs TuneD")
	ask := asker(t)
	last := func(a dynamicAnswer) map[string]string {
		t.Helper()
		if a.Raised != "" || len(a.States) == 0 {
			t.Fatalf("TuneD: %+v", a)
		}
		return a.States[len(a.States)-1]
	}
	disk := func(first, merged int64) (tuned, ours map[string]string) {
		f, _ := dynamicDisk(t)
		q := dynamicQuestion{Plugin: "disk"}
		for n := first; n < first+15*500; n += 500 {
			m := n * merged
			q.Samples = append(q.Samples, sample{Load: []int64{n, m, 0, 0, n, m, 0, 0, 0, 0, 0}})
			f.put("/sys/block/sda/stat", fmt.Sprintf(statFormat, n, m, n, m))
			ours = f.next()
		}
		return last(ask(q)), ours
	}
	if tuned, ours := disk(0, 0); tuned["-B"] != "30" || len(ours) != 0 {
		t.Errorf("a busy disk whose requests are not merged: TuneD %v, want level 10; fettle %v, want nothing set", tuned, ours)
	}
	if tuned, ours := disk(1_000_000, 1); tuned["-B"] == "" || len(ours) != 0 {
		t.Errorf("a busy disk that was busy before: TuneD %v, want some level; fettle %v, want nothing set", tuned, ours)
	}
	f, q := dynamicNet(t, gigabit), dynamicQuestion{Plugin: "net", Speed: 1000}
	var ours map[string]string
	const before, each = 1 << 40, 50_000_000
	for n := int64(before); n < before+15*each; n += each {
		q.Samples = append(q.Samples, sample{Load: []string{fmt.Sprint(n), "0", fmt.Sprint(n), "0"}})
		f.put("/sys/class/net/sda/statistics/rx_bytes", fmt.Sprint(n))
		f.put("/sys/class/net/sda/statistics/tx_bytes", fmt.Sprint(n))
		ours = f.next()
	}
	if tuned := last(ask(q)); tuned["speed"] != "slow" || len(ours) != 0 {
		t.Errorf("a busy link that was busy before: TuneD %v, want slow; fettle %v, want nothing set", tuned, ours)
	}
	// A profile's options are text, which 2.20 does not compare with a load.
	for p, option := range map[string]string{"cpu": "load_threshold", "eeepc_she": "load_threshold_powersave"} {
		a := ask(dynamicQuestion{Plugin: p, Options: map[string]any{option: "0.3"}, Samples: []sample{{Load: 0.5}}})
		if a.Raised != "TypeError" {
			t.Errorf("[%s] %s in a profile: TuneD %+v, want TypeError", p, option, a)
		}
	}
}

// TestLinkRaisedUnlikeTuneD tests a link of 10 Gb/s that was idle and becomes busy. TuneD's class
// for network cards advertises only the modes up to 1 Gb/s (ETHTOOL_LINK_MODE_10baseT_Half_BIT to
// _1000baseT_Full_BIT of linux/ethtool.h, 0x03f). fettle advertises the former modes.
func TestLinkRaisedUnlikeTuneD(t *testing.T) {
	testkitroot.Real(t, "runs TuneD")
	const modes = gigabit + " 10000baseT/Full"
	ask, root := askerWith(t, map[string]string{"ethtool": `case $1 in -s) ;; *) cat <<'E'
Settings for sda:
	Supported link modes:   100baseT/Full
	                        1000baseT/Full
	                        10000baseT/Full
	Supports auto-negotiation: Yes
	Advertised link modes:  100baseT/Full
	                        1000baseT/Full
	                        10000baseT/Full
	Advertised auto-negotiation: Yes
	Speed: 10000Mb/s
	Duplex: Full
	Auto-negotiation: on
	Link detected: yes
E
;;
esac`})
	f, q := dynamicNet(t, modes), dynamicQuestion{Plugin: "net"}
	f.next()
	var held []string
	var n int64
	for range 8 {
		q.Samples = append(q.Samples, sample{Load: []string{"0", "0", "0", "0"}})
		held = append(held, f.next()["speed"])
	}
	for range 2 {
		n += 10_000_000_000
		q.Samples = append(q.Samples, sample{Load: []string{fmt.Sprint(n), "0", fmt.Sprint(n), "0"}})
		f.put("/sys/class/net/sda/statistics/rx_bytes", fmt.Sprint(n))
		f.put("/sys/class/net/sda/statistics/tx_bytes", fmt.Sprint(n))
		held = append(held, f.next()["speed"])
	}
	if a := ask(q); a.Raised != "" {
		t.Fatalf("TuneD raised %s", a.Raised)
	}
	calls, err := root.Calls()
	if err != nil {
		t.Fatal(err)
	}
	var set []string
	for _, c := range calls {
		if len(c) > 1 && c[1] == "-s" {
			set = append(set, strings.Join(c, " "))
		}
	}
	if diff := cmp.Diff([]string{"ethtool -s sda advertise 0x008", "ethtool -s sda advertise 0x03f"}, set); diff != "" {
		t.Errorf("TuneD (-want +got):\n%s", diff)
	}
	rest := "100baseT/Full"
	if diff := cmp.Diff([]string{"", "", "", "", "", rest, rest, rest, "full", "full"}, held); diff != "" {
		t.Errorf("fettle (-want +got):\n%s", diff)
	}
}
