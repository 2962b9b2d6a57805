package daemon

import (
	"encoding/binary"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
)

func settingOf(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }
func text(s string) setting.Value           { return setting.Text(s) }

// udevMessage is what udevd sends (struct monitor_netlink_header).
func udevMessage(properties string) []byte {
	b := append([]byte("libudev\x00"), make([]byte, 32)...)
	binary.BigEndian.PutUint32(b[8:], 0xfeedcafe)
	native.PutUint32(b[12:], 40)
	native.PutUint32(b[16:], 40)
	native.PutUint32(b[20:], uint32(len(properties)))
	return append(b, properties...)
}

func TestParseUevent(t *testing.T) {
	properties := "ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sdb\x00SUBSYSTEM=block\x00DEVTYPE=disk\x00SEQNUM=4711\x00"
	want := Uevent{"add", "/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sdb", "block", "disk"}
	for name, message := range map[string][]byte{
		"kernel": []byte("add@/devices/pci0000:00/x\x00" + properties),
		"udevd":  udevMessage(properties),
	} {
		if got, ok := parseUevent(message); !ok || got != want || got.Name() != "sdb" || !got.arrived() {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for name, message := range map[string]string{
		"nothing":        "",
		"no action":      "add@/devices/x\x00DEVPATH=/devices/x\x00",
		"no head":        properties,
		"outside":        "add@/x\x00ACTION=add\x00DEVPATH=/../etc\x00",
		"short udevd":    "libudev\x00\xfe\xed\xca\xfe",
		"udevd too long": strings.Replace(string(udevMessage("ACTION=add\x00")), "ACTION", "", 1),
	} {
		if u, ok := parseUevent([]byte(message)); ok {
			t.Errorf("%s: taken as %v", name, u)
		}
	}
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte("add@/devices/x\x00ACTION=add\x00DEVPATH=/devices/x\x00SUBSYSTEM=block\x00"))
	f.Add(udevMessage("ACTION=remove\x00DEVPATH=/devices/y\x00SUBSYSTEM=net\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, ok := parseUevent(b); ok && (u.Action == "" || !strings.HasPrefix(u.Path, "/devices/")) {
			t.Fatalf("taken as %v", u)
		}
	})
}

func FuzzInotifyNames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00lock\x00\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) { named(b, "lock") })
}
