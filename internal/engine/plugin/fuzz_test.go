package plugin

import (
	"strings"
	"testing"
)

func FuzzDeviceLess(f *testing.F) {
	for _, s := range [][3]string{{"cpu2", "cpu10", "cpu01"}, {"sda", "sdaa", "sdb"}, {"nvme0n1", "nvme0n10", "nvme10n1"}, {"1-1", "1-1.2", "1-1.10"}, {"", "0", "00"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if deviceLess(a, a) {
			t.Errorf("%q comes before itself", a)
		}
		if a != b && deviceLess(a, b) == deviceLess(b, a) {
			t.Errorf("no order between %q and %q", a, b)
		}
		if deviceLess(a, b) && deviceLess(b, c) && !deviceLess(a, c) {
			t.Errorf("%q < %q < %q, but not the first before the last", a, b, c)
		}
	})
}

func FuzzUdevRecord(f *testing.F) {
	f.Add("S:disk/by-id/x\nI:1\nE:A=B=C\nG:t\nQ:t\nV:1\n")
	f.Add("E:=\nE:\n:\nS:\nG:\n")
	f.Add("E:DEVPATH=/x\nE:DEVLINKS=no\nS:a b\n")
	f.Fuzz(func(t *testing.T, db string) {
		props := map[string]string{}
		addUdevRecord(props, db)
		for k, v := range props {
			if strings.Contains(k, "\n") || strings.Contains(v, "\n") || strings.Contains(k, "=") {
				t.Errorf("property %q=%q is more than one line", k, v)
			}
		}
		if strings.Contains("\n"+db, "\nS:") && !strings.Contains(props["DEVLINKS"], "/dev/") {
			t.Errorf("links are lost: %q", props["DEVLINKS"])
		}
	})
}
