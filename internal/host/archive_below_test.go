package host

import (
	"strings"
	"testing"
)

// TestArchiveBelowLinks tests that files below links are found by their directory, each time and
// with the same errors.
func TestArchiveBelowLinks(t *testing.T) {
	h, err := ParseArchive("m", []byte(strings.ReplaceAll(`fettle archive 1
-- link /sys/class/net/eth0 -> ../../devices/pci/net/eth0 --
-- file /sys/devices/pci/net/eth0/mtu --
1500
-- dir /sys/devices/pci/net/eth0/queues --
-- absent /sys/devices/pci/net/eth0/duplex --
-- link /sys/devices/pci/net/eth0/device -> ../../../pci --
-- link /loop -> loop --
`, "fettle archive 1", archiveHeadingV1)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if b, err := h.Files.ReadFile("/sys/class/net/eth0/mtu"); string(b) != "1500\n" || err != nil {
			t.Errorf("%q %v", b, err)
		}
		if at, err := h.Files.Resolve("/sys/class/net/eth0/queues"); at != "/sys/devices/pci/net/eth0/queues" || err != nil {
			t.Errorf("%q %v", at, err)
		}
		if to, err := h.Files.Readlink("/sys/class/net/eth0/device"); to != "../../../pci" || err != nil {
			t.Errorf("%q %v", to, err)
		}
		if at, err := h.Files.Resolve("/sys/class/net/eth0/device/net/eth0/mtu"); at != "/sys/devices/pci/net/eth0/mtu" || err != nil {
			t.Errorf("%q %v", at, err)
		}
		if _, err := h.Files.ReadFile("/sys/class/net/eth0/duplex"); !NotFound(err) || Unknown(err) || !strings.Contains(err.Error(), "/sys/class/net/eth0/duplex") {
			t.Errorf("absent: %v", err)
		}
		if _, err := h.Files.ReadFile("/sys/class/net/eth0/address"); !Unknown(err) {
			t.Errorf("not recorded: %v", err)
		}
		if at, err := h.Files.Resolve("/sys/class/net/eth0/../x"); err == nil {
			t.Errorf("through a link and up: %q", at)
		}
		if _, err := h.Files.ReadFile("/loop/x"); err == nil {
			t.Error("a loop of links")
		}
	}
}

// TestArchiveWrongParents tests that the error names the first entry by name, in any order.
func TestArchiveWrongParents(t *testing.T) {
	for range 20 {
		_, err := ParseArchive("m", []byte(archiveHeadingV1+"\n-- file /y --\n1\n-- file /y/b --\n1\n-- file /x --\n1\n-- file /y/a/c --\n1\n-- file /x/z/d --\n1\n"))
		if err == nil || !strings.Contains(err.Error(), "/x/z/d is below /x, which is not a directory") {
			t.Fatal(err)
		}
	}
}
