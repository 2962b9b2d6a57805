package network

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// inTunnels makes TestTunnels measure the tunnels that match its regular expression.
const inTunnels = "FETTLE_TEST_NETWORK_TUNNELS"

// TestTunnelsInGuest measures what VXLAN, Geneve and IPsec cost, in a guest whose kernel has them.
// The table in docs/bench-network.md is its output.
func TestTunnelsInGuest(t *testing.T) {
	testkitroot.Nightly(t, "a virtual machine")
	m := testkitvm.Boot(t, testkitvm.Options{})
	m.Put(os.Args[0], "/root/network.test")
	which := cmp.Or(os.Getenv(inTunnels), ".")
	out, code := m.RunFor(2*time.Hour, "cd /root; "+inTunnels+"=1 unshare --net ./network.test -test.run '^TestTunnels$/"+which+"' -test.v -test.timeout 2h 2>&1")
	t.Log(out)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// encrypted are the commands for IPsec in transport mode (ESP, AES-GCM with 128 bits) of the
// packets that match a selector, on both ends.
func encrypted(selector string) string {
	const key = "aead 'rfc4106(gcm(aes))' 0x0123456789abcdef0123456789abcdef01234567 128"
	var script strings.Builder
	for _, ns := range []string{"", "-n peer "} {
		in, out := "10.9.2.2", "10.9.1.2"
		if ns != "" {
			in, out = out, in
		}
		fmt.Fprintf(&script, "ip %sxfrm state add src 10.9.1.2 dst 10.9.2.2 proto esp spi 1 reqid 1 mode transport %s\n", ns, key)
		fmt.Fprintf(&script, "ip %sxfrm state add src 10.9.2.2 dst 10.9.1.2 proto esp spi 2 reqid 1 mode transport %s\n", ns, key)
		fmt.Fprintf(&script, "ip %sxfrm policy add src %s dst %s %s dir out tmpl proto esp reqid 1 mode transport\n", ns, out, in, selector)
		fmt.Fprintf(&script, "ip %sxfrm policy add src %s dst %s %s dir in tmpl proto esp reqid 1 mode transport\n", ns, in, out, selector)
	}
	return script.String()
}

// TestTunnels compares each kind of tunnel with the network that carries it. The tunnels may send
// packets of any size, with DF, so the path MTU shows what they add. TestTunnelsInGuest runs it.
func TestTunnels(t *testing.T) {
	if os.Getenv(inTunnels) == "" {
		t.Skip("TestTunnelsInGuest runs it")
	}
	newLab(t)
	device := func(kind, options string) string {
		return fmt.Sprintf(`ip link add tun0 type %[1]s id 7 remote 10.9.2.2 %[2]s; ip link set tun0 mtu 1500 up; ip addr add 10.8.0.1/24 dev tun0
ip -n peer link add tun0 type %[1]s id 7 remote 10.9.1.2 %[2]s; ip -n peer link set tun0 mtu 1500 up; ip -n peer addr add 10.8.0.2/24 dev tun0`+"\n", kind, options)
	}
	const drop = "ip link del tun0; ip -n peer link del tun0\n"
	const clear = "for n in '' '-n peer'; do ip $n xfrm policy flush; ip $n xfrm state flush; done\n"
	rows := []string{"| tunnel | bytes a packet | calculated | goodput | CPU a gigabit | request of 1 byte |", "|---|---|---|---|---|---|"}
	for _, x := range []struct {
		name, begin, end string
		least, most      int // bytes that it adds to a packet
	}{
		{"VXLAN", device("vxlan", "dstport 4789 df set"), drop, 50, 50},
		{"Geneve", device("geneve", "df set"), drop, 50, 100},
		{"VXLAN, IPsec", device("vxlan", "dstport 4789 df set") + encrypted("proto 17 dport 4789"), drop + clear, 50 + 30, 50 + 46},
		{"Geneve, IPsec", device("geneve", "df set") + encrypted("proto 17 dport 6081"), drop + clear, 50 + 30, 100 + 46},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &lab{t}
			l.during(x.begin, x.end)
			inside := l.dial(t, "10.8.0.2:0")
			path, err := inside.path(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			added := 1500 - path.Up.MTU
			if added < x.least || added > x.most || path.Down.MTU != path.Up.MTU {
				t.Errorf("%s adds %d bytes, want %d to %d: %+v", x.name, added, x.least, x.most, path)
			}
			l.do(fmt.Sprintf("ip link set tun0 mtu %d; ip -n peer link set tun0 mtu %[1]d", path.Up.MTU))
			p := NewPlan()
			p.For, p.Cells, p.Overlay = 20*time.Second, []Cell{{Kind: Send, Streams: 1}, {Kind: Request, Size: 1}}, true
			r, err := (&Bench{Client: l.dial(t, peer4), Overlay: inside, Plan: p}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cells := []string{x.name, fmt.Sprint(added), fmt.Sprint(x.most)}
			for _, f := range []struct {
				cost *Cost
				name string
				form func(float64) string
			}{{&r.Overlay.Costs[0], goodputFactor, text.Percent}, {&r.Overlay.Costs[0], cpuFactor, unit.Digits}} {
				v, is := f.cost.Figure(f.name)
				if !is || v.Interval == nil {
					t.Fatalf("%s: %+v", f.name, r.Overlay.Costs)
				}
				cells = append(cells, fmt.Sprintf("%s (%s)", f.form(v.Value), between(v, f.form)))
			}
			outside, _ := r.Cells[1].Figure(p50)
			v, _ := r.Overlay.Costs[1].Figure(addedP50)
			share := func(s float64) string { return text.Percent(s / outside.Value) }
			cells = append(cells, fmt.Sprintf("+%s (%s)", share(v.Value), between(v, share)))
			rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
			if cpu, _ := r.Overlay.Costs[0].Figure(cpuFactor); cpu.Interval[1] < 1 {
				t.Errorf("a gigabit inside takes less CPU time than outside: %+v", cpu)
			}
		})
	}
	t.Logf("emulated machine, ratios of inside to outside only:\n%s", strings.Join(rows, "\n"))
}
