package table

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/plugintest"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testroot"
)

// sample is what a monitor sees at one look.
type sample struct {
	Load   any  `json:"load"`
	Asleep bool `json:"asleep,omitempty"` // the disk, before the decision
}

type dynamicQuestion struct {
	Plugin  string         `json:"plugin"`
	Options map[string]any `json:"options,omitempty"` // as Python has them
	Speed   int            `json:"speed,omitempty"`   // of the link, Mb/s; 0: what ethtool says
	Samples []sample       `json:"samples"`
}

type dynamicAnswer struct {
	Raised string              `json:"raised"`
	States []map[string]string `json:"states"` // after each sample
}

// asker starts Debian's TuneD with testdata/dynamic.py.
func asker(t *testing.T) func(dynamicQuestion) dynamicAnswer {
	t.Helper()
	ask, _ := askerWith(t, nil)
	return ask
}

// askerWith is asker with stubs of programs, whose calls the root knows.
func askerWith(t *testing.T, stubs map[string]string) (func(dynamicQuestion) dynamicAnswer, *testroot.Root) {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	root := testroot.New(t, testroot.Options{Binds: []testroot.Bind{{Source: dir, Target: "/mnt", ReadOnly: true}}, Stubs: stubs})
	cmd := root.Command("python3", "/mnt/dynamic.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, said.String())
		}
	})
	questions, answers := json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	return func(q dynamicQuestion) (a dynamicAnswer) {
		t.Helper()
		if err := questions.Encode(q); err != nil {
			t.Fatal(err)
		}
		if err := answers.Decode(&a); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		return a
	}, root
}

// follower is one loop of ours on a machine of files.
type follower struct {
	t     *testing.T
	h     *host.Host
	loop  plugin.Loop
	state map[string]string
	names map[setting.Setting]string // what TuneD's side calls the places
}

// loopOf makes the one loop of a unit.
func loopOf(t *testing.T, h *host.Host, p string, names map[setting.Setting]string, lines ...string) *follower {
	t.Helper()
	pl, _ := plugin.Find(All, p)
	u := plugintest.Unit(p, lines...)
	kinds := Kinds(h)
	r := &plugin.Request{Host: h, Kinds: kinds, Unit: *u, Original: func(s setting.Setting) (setting.Value, error) {
		return kinds.Read(t.Context(), s)
	}}
	if pl.Devices != nil {
		assigned, problems := plugin.Assign(t.Context(), h, All, []*profile.Unit{u})
		if r.Devices = assigned[u.Name]; len(r.Devices) == 0 {
			t.Fatal(problems)
		}
	}
	loops, items, err := pl.Dynamic(t.Context(), r)
	if err != nil || len(loops) != 1 {
		t.Fatalf("%d loops, %v, %v", len(loops), items, err)
	}
	return &follower{t, h, loops[0], map[string]string{}, names}
}

func (f *follower) next() map[string]string {
	f.t.Helper()
	wishes, err := f.loop.Next(f.t.Context(), 10*time.Second)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, w := range wishes {
		switch {
		case w.Back && f.state[f.names[w.Setting]] == "":
			// It has never been elsewhere.
		case w.Back:
			f.state[f.names[w.Setting]] = "full"
		default:
			f.state[f.names[w.Setting]] = w.Want.Text
		}
	}
	out := map[string]string{}
	for k, v := range f.state {
		out[k] = v
	}
	return out
}

func (f *follower) put(path, text string) {
	f.t.Helper()
	if err := f.h.Files.Store(path, []byte(text)); err != nil {
		f.t.Fatal(err)
	}
}

// sleeper is a disk that may sleep.
type sleeper struct{ asleep *bool }

func (sleeper) LookPath(name string) (string, error) { return "/sbin/" + name, nil }
func (s sleeper) Run(_ context.Context, c host.Command) (host.Result, error) {
	if c.Argv[1] == "-C" && *s.asleep {
		return host.Result{Stdout: []byte(" drive state is:  standby\n")}, nil
	}
	return host.Result{Stdout: []byte(" drive state is:  active/idle\n APM_level\t= 254\n")}, nil
}

// offers is a network device that negotiates, and offers all the modes it has.
type offers struct {
	host.Net
	modes string
}

func (offers) Link(name string) (host.Link, error) { return host.Link{Name: name}, nil }
func (o offers) Params(string, host.NetGroup) ([]host.NetParam, error) {
	return []host.NetParam{{Name: "advertise", Value: o.modes, Max: o.modes}}, nil
}

const gigabit = "100baseT/Full 1000baseT/Full"

const statFormat = "%d %d 0 0 %d %d 0 0 0 0 0\n" // completed, merged, ...

func dynamicDisk(t *testing.T) (*follower, *bool) {
	h := hosttest.Mounted(t, map[string]string{
		"/sys/class/block/sda": "-> ../../devices/sda", "/sys/block/sda": "-> ../devices/sda",
		"/sys/devices/sda/removable": "0", "/sys/devices/sda/device/vendor": "ATA", "/sys/devices/sda/stat": fmt.Sprintf(statFormat, 0, 0, 0, 0),
	})
	asleep := new(bool)
	h.Exec = sleeper{asleep}
	return loopOf(t, h, "disk", map[setting.Setting]string{
		{Kind: "hdparm", Name: "sda/apm"}: "-B", {Kind: "hdparm", Name: "sda/spindown"}: "-S",
	}), asleep
}

func dynamicNet(t *testing.T, modes string) *follower {
	h := hosttest.Mounted(t, map[string]string{
		"/sys/class/net/sda":                           "-> ../../devices/pci/net/sda",
		"/sys/devices/pci/net/sda/statistics/rx_bytes": "0",
		"/sys/devices/pci/net/sda/statistics/tx_bytes": "0",
	})
	h.Net = offers{h.Net, modes}
	return loopOf(t, h, "net", map[setting.Setting]string{{Kind: "net", Name: "sda/advertise"}: "speed"})
}

// episodes makes loads that rest and work for some time in turn.
func episodes(r *rand.Rand, most int64) func() int64 {
	left, busy := 0, false
	return func() int64 {
		if left == 0 {
			if left, busy = 1+r.IntN(15), !busy; !busy {
				left *= 4
			}
		}
		left--
		switch {
		case busy:
			return 1 + r.Int64N(most)
		case r.IntN(8) == 0:
			return r.Int64N(most/50 + 1) // about the threshold
		}
		return 0
	}
}

// TestDynamicAsTuneD: for invented histories of load our loops hold
// at every moment what TuneD's own plug-ins would have set.
func TestDynamicAsTuneD(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TuneD")
	}
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of writes, which no disk need see
	}
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
		f := loopOf(t, hosttest.Mounted(t, load), p, map[setting.Setting]string{
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
		plugintest.Proves(t, plugintest.TuneD, o.plugin, o.option)
	}
}

// TestDynamicUnlikeTuneD asserts from both sides where fettle decides otherwise:
// what TuneD takes for rest is none.
func TestDynamicUnlikeTuneD(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TuneD")
	}
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

// TestLinkRaisedUnlikeTuneD: a link of 10 Gb/s that has rested and gets work
// again is told by TuneD's own class for network cards to offer the modes up to
// 1 Gb/s (ETHTOOL_LINK_MODE_10baseT_Half_BIT to _1000baseT_Full_BIT of
// linux/ethtool.h, 0x03f); by fettle to offer what it did before.
func TestLinkRaisedUnlikeTuneD(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TuneD")
	}
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
