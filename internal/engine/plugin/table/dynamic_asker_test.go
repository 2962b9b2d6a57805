package table

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// sample is what a monitor reads in one look.
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

// askerWith is asker with stubs of programs that record their calls.
func askerWith(t *testing.T, stubs map[string]string) (func(dynamicQuestion) dynamicAnswer, *testkitroot.Root) {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	root := testkitroot.New(t, testkitroot.Options{Binds: []testkitroot.Bind{{Source: dir, Target: "/mnt", ReadOnly: true}}, Stubs: stubs})
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

// follower is one of fettle's loops on a machine of files.
type follower struct {
	t     *testing.T
	h     *host.Host
	loop  plugin.Loop
	state map[string]string
	names map[setting.Setting]string // what TuneD's side calls the places
}

// loopOf returns the only loop of a unit.
func loopOf(t *testing.T, h *host.Host, p string, names map[setting.Setting]string, lines ...string) *follower {
	t.Helper()
	pl, _ := plugin.Find(All, p)
	u := testkitplugin.Unit(p, lines...)
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

// offers is a network device that negotiates its speed and supports all modes.
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
	h := machine.Mounted(t, map[string]string{
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
	h := machine.Mounted(t, map[string]string{
		"/sys/class/net/sda":                           "-> ../../devices/pci/net/sda",
		"/sys/devices/pci/net/sda/statistics/rx_bytes": "0",
		"/sys/devices/pci/net/sda/statistics/tx_bytes": "0",
	})
	h.Net = offers{h.Net, modes}
	return loopOf(t, h, "net", map[setting.Setting]string{{Kind: "net", Name: "sda/advertise"}: "speed"})
}

// episodes generates loads that alternate between idle and busy.
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
