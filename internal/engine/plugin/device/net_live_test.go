package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// lab is a network namespace for this test on the running kernel, with its own /sys, and Debian's
// ethtool and ip. Nothing outside changes.
type lab struct {
	t     *testing.T
	h     *host.Host
	kinds setting.Kinds
	root  string
}

// newLab creates the namespace for this test's thread: veth0 and veth1 with four queues each,
// above.5 on top of veth0, and tap0.
func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		testkitroot.Missing(t, "a network namespace needs root")
	}
	root := testkitroot.Dir(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS))
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "veth0", 4, 4
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "veth1"}))
	veth0, err := netlink.LinkByName("veth0")
	must(err)
	above := netlink.NewLinkAttrs()
	above.Name, above.ParentIndex = "above.5", veth0.Attrs().Index
	must(netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: above, Mode: netlink.MACVLAN_MODE_BRIDGE}))
	must(netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap0"}, Mode: netlink.TUNTAP_MODE_TAP}))
	h := host.Live()
	return &lab{t, h, plugin.Kinds(h, NetKinds(h)), root}
}

// run runs one of the test root's programs in the namespace.
func (l *lab) run(argv ...string) string {
	l.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Path = "/usr/sbin/" + argv[0]
	c.Err = nil
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: l.root}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil && out.Len() == 0 {
		l.t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return out.String()
}

// everything returns the output of Debian's programs about a device.
func (l *lab) everything(device string) string {
	l.t.Helper()
	out := ""
	for _, flag := range []string{"-k", "-c", "-a", "-g", "-l"} {
		out += l.run("ethtool", flag, device)
	}
	var links []map[string]any
	if err := json.Unmarshal([]byte(l.run("ip", "-j", "link", "show", device)), &links); err != nil || len(links) != 1 {
		l.t.Fatalf("ip -j link show %s: %v", device, err)
	}
	return out + fmt.Sprintf("mtu %v qlen %v\n", links[0]["mtu"], links[0]["txqlen"])
}

// plan plans a unit for virtual devices, which the plug-in would not list.
func (l *lab) plan(device string, lines ...string) []engineplugin.Item {
	l.t.Helper()
	pl := Net
	pl.Devices = func(context.Context, *host.Host) ([]string, error) { return []string{device}, nil }
	return plugin.Items(l.t, pl, l.h, l.kinds, plugin.Unit("net", lines...))
}

// TestOnThisKernel sets values, reads them with ethtool and ip, and undoes them.
func TestOnThisKernel(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		device string
		lines  []string
		see    []string // in what ethtool and ip print afterwards
	}{
		{"veth0", []string{"mtu=1400", "txqueuelen=321"}, []string{"mtu 1400 qlen 321"}},
		{"above.5", []string{"mtu=1300"}, []string{"mtu 1300"}},
		{"veth0", []string{"channels=combined 2"}, []string{"RX:\t\t2", "TX:\t\t2"}},
		{"veth0", []string{"channels=rx 3 tx 1"}, []string{"RX:\t\t3", "TX:\t\t1"}},
		{"veth0", []string{"features=gso off gro on"}, []string{"generic-segmentation-offload: off", "generic-receive-offload: on"}},
		{"veth0", []string{"features=tso off"}, []string{"tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\n\ttx-tcp-ecn-segmentation: off\n"}},
		{"veth0", []string{"features=tx off"}, []string{"tx-checksum-ip-generic: off", "tx-tcp-segmentation: off [requested on]"}},
		{"veth0", []string{"features=sg off"}, []string{"scatter-gather: off", "generic-segmentation-offload: off [requested on]"}},
		{"tap0", []string{"coalesce=rx-frames 32"}, []string{"rx-frames: 32"}},
	} {
		// No sub-tests: each would have a thread of its own, outside.
		before := l.everything(tt.device)
		below := l.everything("above.5")
		images := plugin.Apply(t, l.kinds, l.plan(tt.device, tt.lines...))
		if len(images) == 0 {
			t.Errorf("%s: nothing was to be written", tt.lines)
		}
		after := l.everything(tt.device)
		for _, see := range tt.see {
			if !strings.Contains(after, see) {
				t.Errorf("%s %s: ethtool and ip do not print %q:\n%s", tt.device, tt.lines, see, after)
			}
		}
		plugin.Undo(t, l.kinds, images)
		if diff := cmp.Diff(before, l.everything(tt.device)); diff != "" {
			t.Errorf("%s %s: left behind:\n%s", tt.device, tt.lines, diff)
		}
		if diff := cmp.Diff(below, l.everything("above.5")); diff != "" {
			t.Errorf("%s %s: left behind on the device above:\n%s", tt.device, tt.lines, diff)
		}
		for _, line := range tt.lines {
			option, _, _ := strings.Cut(line, "=")
			plugin.Proves(t, plugin.Here(), "net", option)
		}
	}
}

// TestAsEthtool sets each feature with ethtool on one device and with fettle on another, equal one,
// and compares the output of ethtool for both.
func TestAsEthtool(t *testing.T) {
	l := newLab(t)
	twin := func() string {
		return strings.Replace(l.run("ethtool", "-k", "veth1"), "veth1", "veth0", 1)
	}
	if diff := cmp.Diff(twin(), l.run("ethtool", "-k", "veth0")); diff != "" {
		t.Fatalf("the two are not twins:\n%s", diff)
	}
	names := []string{"rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro", "rxvlan", "txvlan", "ntuple", "rxhash",
		"tx-checksum-ip-generic", "tx-udp-segmentation", "rx-gro-list", "tx-gso-list", "highdma", "no-such-feature"}
	changed := 0
	for _, name := range names {
		for _, value := range []string{"off", "on"} {
			was := twin()
			l.run("ethtool", "-K", "veth1", name, value)
			for _, it := range l.plan("veth0", "features="+name+" "+value) {
				if it.Verdict != "" {
					continue
				}
				s := it.Change.Setting
				if now, err := l.kinds.Read(context.Background(), s); err != nil || l.kinds.Equal(s, now, it.Change.Want) {
					continue
				}
				if err := l.kinds.Write(context.Background(), s, it.Change.Want); err != nil {
					t.Errorf("%s %s: %v", name, value, err)
				}
			}
			now := twin()
			if now != was {
				changed++
			}
			if diff := cmp.Diff(now, l.run("ethtool", "-k", "veth0")); diff != "" {
				t.Errorf("%s %s: (-ethtool +fettle)\n%s", name, value, diff)
			}
		}
	}
	if changed < 10 {
		t.Errorf("ethtool changed something %d times only: the comparison is worth little", changed)
	}
}

// TestNames renames a device and gives it an alternative name.
func TestNames(t *testing.T) {
	l := newLab(t)
	l.run("ip", "link", "property", "add", "dev", "veth0", "altname", "wan")
	k := l.kinds[netKind]
	for _, name := range []string{"veth0", "wan"} {
		s, err := k.Resolve(setting.Setting{Kind: netKind, Name: name + "/mtu"})
		if err != nil || s.Name != "veth0/mtu" {
			t.Errorf("%s/mtu resolves to %v, %v", name, s, err)
		}
	}
	l.run("ip", "link", "set", "veth0", "name", "up0")
	s, err := k.Resolve(setting.Setting{Kind: netKind, Name: "wan/mtu"})
	if err != nil || s.Name != "up0/mtu" {
		t.Errorf("after the device was renamed wan/mtu resolves to %v, %v", s, err)
	}
	v, err := k.Read(context.Background(), setting.Setting{Kind: netKind, Name: "veth0/mtu"})
	if err != nil || !v.Absent {
		t.Errorf("the old name reads %v, %v", v, err)
	}
}

// TestWhatIsRefused tests that the kernel's error names the device and the requested value.
func TestWhatIsRefused(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct{ name, value, want string }{
		{"veth0/ring-rx", "512", "veth0: rx 512: operation not supported"},
		{"veth0/mtu", "70000", "veth0: mtu 70000: invalid argument"},
		{"veth0/channels-rx", "5", "veth0: rx 5: invalid argument (requested channel count exceeds maximum)"},
		{"veth0/feature-no-such", "on", "bit name not found"},
		{"veth0/feature-rx-gro", "maybe", `"maybe" is not on or off`},
		{"none0/channels-rx", "1", "network device none0: file does not exist"},
	} {
		err := l.kinds[netKind].Write(context.Background(), setting.Setting{Kind: netKind, Name: tt.name}, setting.Text(tt.value))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %s: %v; want %q", tt.name, tt.value, err, tt.want)
		}
	}
}

// TestCoupled changes one parameter and looks for all other changes: each must be in the list.
func TestCoupled(t *testing.T) {
	l := newLab(t)
	k := l.kinds[netKind]
	names := func(s setting.Setting) map[string]bool {
		out := map[string]bool{}
		for _, c := range k.Coupled(s) {
			out[c.String()] = true
		}
		return out
	}
	mtu := names(netSetting("veth0", host.NetLink, "mtu"))
	for _, want := range []string{"net:above.5/mtu"} {
		if !mtu[want] {
			t.Errorf("mtu of veth0 is coupled to %v, without %s", mtu, want)
		}
	}
	channels := names(netSetting("veth0", host.NetChannels, "rx"))
	for _, want := range []string{"net:veth0/channels-tx", "sysfs:/sys/class/net/veth0/queues/rx-3/rps_cpus", "sysfs:/sys/class/net/veth0/queues/tx-0/xps_cpus"} {
		if !channels[want] {
			t.Errorf("channels of veth0 are coupled to %v, without %s", channels, want)
		}
	}
	// What was set for a queue is lost with it and comes back with undo.
	const rps = "/sys/class/net/veth0/queues/rx-3/rps_cpus"
	if err := l.h.Files.Store(rps, []byte("1")); err != nil {
		t.Fatal(err)
	}
	images := plugin.Apply(t, l.kinds, l.plan("veth0", "channels=combined 2"))
	if engineplugin.Exists(l.h, rps) {
		t.Error("the fourth queue is still there")
	}
	plugin.Undo(t, l.kinds, images)
	if text, _ := engineplugin.Attribute(l.h, rps); strings.Trim(text, "0,") != "1" {
		t.Errorf("%s is %q after undo, was 1", rps, text)
	}
}

// TestWithoutRoot plans as the user nobody. The kernel reports wake-on-LAN only to root, so the
// plan calls it unknown, not unsupported.
func TestWithoutRoot(t *testing.T) {
	l := newLab(t)
	const nobody = 65534
	// The raw call, for this thread only; it ends with the test.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
		t.Fatal(errno)
	}
	var got []string
	for _, it := range l.plan("veth0", "features=gro off", "wake_on_lan=g") {
		got = append(got, plugin.Line(it))
	}
	want := []string{
		"net:veth0/feature-rx-gro = off # requested as gro",
		"net:veth0/wake-on-lan ! unknown: not readable: veth0: wake-on-lan: operation not permitted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	err := l.kinds[netKind].Write(context.Background(), netSetting("veth0", host.NetLink, "mtu"), setting.Text("1400"))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "veth0: mtu 1400") {
		t.Errorf("nobody set the MTU: %v", err)
	}
}
