package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// lab is a machine with everything that can follow the load: a limit on latency,
// an Eee PC's clock, an ATA disk and an Ethernet device.
type lab struct {
	*fake
	latency uint32 // of /dev/cpu_dma_latency; noLatency: not requested
	disk    map[string]string
	asleep  bool
	offered string
	traffic [2]uint64
	pulses  []time.Duration

	load    chan time.Time
	devices chan []Uevent
}

const (
	noLatency = 2000000000
	allModes  = "10baseT/Half 10baseT/Full 100baseT/Half 100baseT/Full 1000baseT/Full"
	slowModes = "10baseT/Half 10baseT/Full 100baseT/Half 100baseT/Full"
	cpufv     = "/sys/devices/platform/eeepc/cpufv"
	diskStat  = "/sys/block/sda/stat"
	mainConf  = "/etc/tuned/tuned-main.conf"
	ifStats   = "/sys/devices/pci0/net/eth0/statistics/"
)

func newLab(t *testing.T, profile string) *lab {
	l := &lab{latency: noLatency, disk: map[string]string{"-B": "200", "-S": ""}, offered: allModes}
	l.fake = newFake(t, map[string]string{
		mainConf:                         "dynamic_tuning=1\nupdate_interval=10",
		"/etc/tuned/load/tuned.conf":     profile,
		"/proc/loadavg":                  "0.50 0.40 0.30 1/100 4711",
		cpufv:                            "0x300",
		"/dev/cpu_dma_latency":           "",
		"/dev/sda":                       "",
		"/run/x":                         "",
		"/sys/devices/system/cpu/cpu0/x": "",
		"/sys/block/sda/device/vendor":   "ATA",
		ifStats + "rx_bytes":             "0",
		ifStats + "tx_bytes":             "0",
	})
	l.requests(1000, 1000)
	l.link("/sys/class/net/eth0", "../../devices/pci0/net/eth0")
	l.machine = func(h *host.Host) {
		h.Files, h.Exec, h.Net = labFiles{h.Files, l}, labDisk{l}, labNet{h.Net, l}
	}
	return l
}

func (l *lab) requests(read, written int) {
	l.write(diskStat, fmt.Sprintf("%d 0 0 0 %d 0 0 0 0 0 0", read, written))
}

// labFiles has a limit on latency that only a descriptor holds.
type labFiles struct {
	host.Files
	l *lab
}

func (f labFiles) ReadFile(p string) ([]byte, error) {
	if p == "/dev/cpu_dma_latency" {
		return binary.NativeEndian.AppendUint32(nil, f.l.latency), nil
	}
	return f.Files.ReadFile(p)
}

func (f labFiles) Hold(p string, data []byte) (host.Handle, error) {
	h := labHeld{f.l}
	return h, h.Store(data)
}

type labHeld struct{ l *lab }

func (h labHeld) Store(data []byte) error { h.l.latency = binary.NativeEndian.Uint32(data); return nil }
func (h labHeld) Close() error            { h.l.latency = noLatency; return nil }

// labDisk answers as hdparm does.
type labDisk struct{ l *lab }

func (labDisk) LookPath(name string) (string, error) {
	if name == "hdparm" {
		return "/sbin/hdparm", nil
	}
	return "", &fs.PathError{Op: "look up", Path: name, Err: fs.ErrNotExist}
}

func (d labDisk) Run(_ context.Context, c host.Command) (host.Result, error) {
	switch {
	case c.Argv[0] != "hdparm":
		return host.Result{}, errors.New("no such program")
	case c.Argv[1] == "-C" && d.l.asleep:
		return host.Result{Stdout: []byte(" drive state is:  standby\n")}, nil
	case c.Argv[1] == "-C":
		return host.Result{Stdout: []byte(" drive state is:  active/idle\n")}, nil
	case len(c.Argv) == 4:
		d.l.disk[c.Argv[1]] = c.Argv[2]
	}
	return host.Result{Stdout: []byte(" APM_level\t= " + d.l.disk["-B"] + "\n")}, nil
}

// labNet is a device that negotiates its speed.
type labNet struct {
	host.Net
	l *lab
}

func (n labNet) Link(name string) (host.Link, error) { return host.Link{Name: name}, nil }

func (n labNet) Params(_ string, g host.NetGroup) ([]host.NetParam, error) {
	if g != host.NetLinkModes {
		return nil, errors.New("not asked for")
	}
	return []host.NetParam{{Name: "advertise", Value: n.l.offered, Max: allModes}}, nil
}

func (n labNet) SetParam(_ string, _ host.NetGroup, _, value string) error {
	n.l.offered = value
	return nil
}

// run starts a daemon and its loop; what it would sleep for is in pulses.
func (l *lab) run() *Daemon {
	l.t.Helper()
	l.load, l.devices = make(chan time.Time), make(chan []Uevent)
	c := Config{Open: l.open, Log: &l.log}
	d := New(c)
	d.pulse = func(after time.Duration) { l.pulses = append(l.pulses, after) }
	m, err := d.open(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	if err := d.begin(l.t.Context(), m); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.loop(ctx, &events{load: l.load, devices: l.devices})
	}()
	l.t.Cleanup(func() { cancel(); <-ended })
	return d
}

// interval is one look at the load after ten seconds.
func (l *lab) interval() {
	l.clock.up += 10 * time.Second
	l.load <- time.Time{}
	l.devices <- nil // taken once the look has ended
}

// killed ends a daemon as kill -9 does: its descriptors go, its values stay.
func (l *lab) killed(d *Daemon) {
	d.alive.Close()
	l.latency = noLatency
}

// verify is what fettle verify says in another process.
func (l *lab) verify(place setting.Setting) (plugin.Verdict, bool) {
	l.t.Helper()
	m, _ := l.open(l.t.Context())
	s := l.journal()
	sel, err := tune.SelectionOf(s.InForce())
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := m.Engine.LoadAccepted(l.t.Context(), sel, m.Loader)
	if err != nil {
		l.t.Fatal(err)
	}
	v, err := m.Engine.Verify(l.t.Context(), p, s)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, c := range v.Values {
		if c.Setting == place {
			return c.Verdict, v.Met
		}
	}
	return "", v.Met
}

func (l *lab) wantNow(what, got, want string) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s is %q, want %q\n%s", what, got, want, l.log.String())
	}
}

var (
	clockPlace   = setting.Setting{Kind: "eeepc", Name: "cpufv"}
	levelPlace   = setting.Setting{Kind: "hdparm", Name: "sda/apm"}
	latencyPlace = setting.Setting{Kind: "pmqos", Name: "cpu_dma_latency"}
	speedPlace   = setting.Setting{Kind: "net", Name: "eth0/advertise"}
)

func proved(t *testing.T, plugin string, options ...string) {
	for _, o := range options {
		testkitplugin.Proves(t, testkitplugin.FakeTree, plugin, o)
	}
}
