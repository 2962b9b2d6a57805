package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

func TestArchivedNet(t *testing.T) {
	h, err := ParseArchive("x", []byte(sampleArchive))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"eth0": "eth0", "enp0s3": "eth0", "odd name": "eth0", "lo": "lo"} {
		if l, err := h.Net.Link(name); err != nil || l.Name != want {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if _, err := h.Net.Link("eth9"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
	features, err := h.Net.Params("enp0s3", NetFeatures)
	want := []NetParam{
		{Name: "tx-tcp-segmentation", Value: "off", Requested: "on"},
		{Name: "rx-vlan-filter", Value: "on", Fixed: true},
	}
	if diff := cmp.Diff(want, features); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := h.Net.Params("eth0", NetCoalesce); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("a group that the device lacks: %v", err)
	}
	if _, err := h.Net.Params("eth0", NetPause); !Unknown(err) {
		t.Errorf("a group that nobody asked for: %v", err)
	}
	if err := h.Net.SetParam("eth0", NetLink, "mtu", "9000"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("writing a copy: %v", err)
	}
	bare, err := ParseArchive("x", []byte(archiveHeadingV1+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Net.Link("eth0"); !Unknown(err) {
		t.Errorf("an archive without devices: %v", err)
	}
}

// privateNet gives the test a network namespace with two veth devices, veth0
// and veth1, with four queues each.
func privateNet(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		root.Missing(t, "a network namespace needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "veth0", 4, 4
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "veth1"}); err != nil {
		t.Fatal(err)
	}
}

// The archive of a recording answers about network devices as the recording host did.
func TestRecordNet(t *testing.T) {
	privateNet(t)
	live := Live()
	rec, recording := Record(live)
	for _, g := range NetGroups {
		_, _ = rec.Net.Params("veth0", g)
	}
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	copied, err := ParseArchive("x", text.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.Bytes())
	}
	links, err := live.Net.Links()
	if err != nil || len(links) != 3 {
		t.Fatalf("links of a namespace with lo and two veth: %v, %v", links, err)
	}
	again, err := copied.Net.Links()
	if diff := cmp.Diff(links, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, g := range NetGroups {
		want, wantErr := live.Net.Params("veth0", g)
		got, gotErr := copied.Net.Params("veth0", g)
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: %v and %v\n%s", g, wantErr, gotErr, diff)
		}
		if wantErr == nil && len(want) == 0 {
			t.Errorf("%s: neither parameters nor an error", g)
		}
	}
}

// The ioctl of old kernels reads and writes the same values as netlink.
func TestIoctlAsNetlink(t *testing.T) {
	privateNet(t)
	byNetlink, err := features("veth0")
	if err != nil {
		t.Fatal(err)
	}
	byIoctl, err := featuresByIoctl("veth0")
	if diff := cmp.Diff(byNetlink, byIoctl); err != nil || diff != "" || len(byIoctl) < 30 {
		t.Errorf("%d features by ioctl, %v\n%s", len(byIoctl), err, diff)
	}
	feature := func() string {
		t.Helper()
		all, err := features("veth0")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := FindParam(all, "tx-generic-segmentation")
		return p.Value
	}
	if err := setFeatureByIoctl("veth0", "tx-generic-segmentation", false); err != nil || feature() != "off" {
		t.Errorf("turned off by ioctl: %v, reads %s", err, feature())
	}
	if err := setFeatureByIoctl("veth0", "tx-generic-segmentation", true); err != nil || feature() != "on" {
		t.Errorf("turned on by ioctl: %v, reads %s", err, feature())
	}
	channels := ethtoolGroups[NetChannels]
	values, err := channels.readByIoctl("veth0")
	rx, _ := channels.find("rx")
	if err != nil || values[rx.max] != 4 || values[rx.attr] != 4 {
		t.Errorf("channels by ioctl: %v, %v", values, err)
	}
	if err := channels.writeByIoctl("veth0", rx, 2); err != nil {
		t.Error(err)
	}
	now, err := Live().Net.Params("veth0", NetChannels)
	if p, _ := FindParam(now, "rx"); err != nil || p.Value != "2" || p.Max != "4" {
		t.Errorf("channels by netlink after the ioctl: %v, %v", now, err)
	}
	if _, err := ethtoolGroups[NetCoalesce].readByIoctl("veth0"); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("coalescing of a veth by ioctl: %v", err)
	}
}
