package override

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// udevTree is a part of /sys: path to content, "-> " for links.
var udevTree = map[string]string{
	"devices/pci0/uevent":            "DRIVER=ahci\n",
	"devices/pci0/subsystem":         "-> ../../bus/pci",
	"devices/pci0/driver":            "-> ../../bus/pci/drivers/ahci",
	"bus/pci/drivers/ahci/x":         "",
	"devices/pci0/host0/uevent":      "DEVTYPE=scsi_device\n",
	"devices/pci0/host0/subsystem":   "-> ../../../bus/scsi",
	"devices/pci0/host0/driver":      "-> ../../../bus/scsi/drivers/sd",
	"devices/pci0/host0/vendor":      "ATA     \n",
	"bus/scsi/drivers/sd/x":          "",
	"kernel/x":                       "",
	"devices/pci0/host0/block/sda/x": "", "devices/pci0/nvme0/block/nvme0n1/x": "",
	"devices/pci0/host0/block/sda/dev":                  "8:0\n",
	"devices/pci0/host0/block/sda/uevent":               "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\n",
	"devices/pci0/host0/block/sda/subsystem":            "-> ../../../../../class/block",
	"devices/pci0/host0/block/sda/queue/rotational":     "1\n",
	"devices/pci0/host0/block/sda/size":                 "1000\n",
	"devices/pci0/host0/block/sda/removable":            "0  \n",
	"devices/pci0/nvme0/uevent":                         "",
	"devices/pci0/nvme0/subsystem":                      "-> ../../../class/nvme",
	"devices/pci0/nvme0/block/nvme0n1/dev":              "259:0\n",
	"devices/pci0/nvme0/block/nvme0n1/uevent":           "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\nDEVTYPE=disk\n",
	"devices/pci0/nvme0/block/nvme0n1/subsystem":        "-> ../../../../../class/block",
	"devices/pci0/nvme0/block/nvme0n1/queue/rotational": "0\n",
	"class/block/sda":                                   "-> ../../devices/pci0/host0/block/sda",
	"class/block/nvme0n1":                               "-> ../../devices/pci0/nvme0/block/nvme0n1",
	"class/nvme/nvme0":                                  "-> ../../devices/pci0/nvme0",
}

var udevDisks = []string{"devices/pci0/host0/block/sda", "devices/pci0/nvme0/block/nvme0n1"}
var udevAttrs = []string{"queue/scheduler", "queue/read_ahead_kb", "queue/nr_requests"}

func generateUdevTree(t *testing.T, rnd *rand.Rand, dir string) {
	t.Helper()
	machine.Write(t, filepath.Join(dir, "sys"), udevTree)
	for _, d := range udevDisks {
		for _, a := range udevAttrs {
			machine.WriteFile(t, dir, "sys/"+d+"/"+a, "untouched;\n")
		}
	}
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	condition := func() string {
		op := pick("==", "==", "==", "!=")
		switch rnd.IntN(16) {
		case 0, 1:
			return "SUBSYSTEM" + op + pick(`"block"`, `"net"`, `"net|block"`, `"blo*"`)
		case 2, 3, 4:
			return "KERNEL" + op + pick(`"sd*"`, `"sda"`, `"nvme[0-9]n[0-9]"`, `"sd[!b-z]|x"`, `"nvme*|sdb"`, `"?da"`, `""`)
		case 5, 6:
			return "ATTR{queue/rotational}" + op + pick(`"0"`, `"1"`, `"[01]"`, `"0|2"`)
		case 7:
			return "ATTR{" + pick("size", "removable", "nothing") + "}" + op + pick(`"1000"`, `"0"`, `"*"`, `"0  "`)
		case 8:
			return "ATTRS{" + pick("vendor", "size", "none") + "}" + op + pick(`"ATA"`, `"ATA     "`, `"1000"`, `"*"`)
		case 9:
			return "SUBSYSTEMS" + op + pick(`"scsi"`, `"nvme"`, `"pci"`, `"block"`)
		case 10:
			return "KERNELS" + op + pick(`"host*"`, `"pci0"`, `"sda"`, `"block"`)
		case 11:
			return "DRIVERS" + op + pick(`"sd"`, `"ahci"`, `"s*|a*"`)
		case 12:
			return "ENV{DEVTYPE}" + op + pick(`"disk"`, `"partition"`)
		case 13:
			return "TEST" + op + pick(`"queue/scheduler"`, `"nothing"`, `"queue/s*"`, `"/sys/class/nvme"`)
		case 14:
			return pick(`ENV{X}=="1"`, `ACTION!="remove"`, `ACTION=="add|change"`, `ACTION=="change"`)
		}
		return pick(`DRIVER==""`, `DRIVER=="sd"`, `DEVPATH=="*/block/sd*"`, `DEVPATH=="/devices/pci0/nvme0/*"`, `ATTR{queue/scheduler}!="none"`)
	}
	for _, d := range []string{"etc", "run", "usr/lib"} {
		var b strings.Builder
		labels := 0
		for i := range 2 + rnd.IntN(8) {
			var parts []string
			for range rnd.IntN(4) {
				parts = append(parts, condition())
			}
			switch rnd.IntN(8) {
			case 0:
				labels++
				parts = append(parts, fmt.Sprintf(`GOTO="l%d"`, labels))
			case 1:
				if labels > 0 {
					parts = []string{fmt.Sprintf(`LABEL="l%d"`, labels)}
					labels--
				}
			default:
				// What names no device is not looked at.
				parts = append([]string{pick(`SUBSYSTEM=="block"`, `KERNEL=="sd*|nvme*"`)}, parts...)
				for range 1 + rnd.IntN(2) {
					parts = append(parts, fmt.Sprintf(`ATTR{%s}%s"%s"`, pick(udevAttrs...), pick("=", "=", ":=", "+="),
						fmt.Sprint(d[:1], i, pick("", "x", "$kernel", "%k-%n"), ";")))
				}
			}
			b.WriteString(strings.Join(parts, pick(", ", ",", ", \\\n  ")) + "\n" + pick("", "\n", "# comment\n"))
		}
		for ; labels > 0; labels-- {
			fmt.Fprintf(&b, "LABEL=\"l%d\"\n", labels)
		}
		machine.WriteFile(t, dir, d+"/udev/rules.d/"+pick("10-a.rules", "60-b.rules", "99-c.rules"), b.String())
	}
}

// TestWinnerIsWhatUdevWrites compares the claims with the real udev. udevadm test applies the rules
// to one device. If the claims are certain, udev must write the winner's value; if some are
// conditional, the value of one of them.
func TestWinnerIsWhatUdevWrites(t *testing.T) {
	testkitroot.Real(t, "runs udevadm in the Debian test root")
	const trees, seed = 80, 20261123
	root := testkitroot.New(t, testkitroot.Options{Env: []string{"SYSTEMD_DEVICE_VERIFY_SYSFS=0"}})
	claims := make([]*Claims, trees)
	for n := range trees {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		generateUdevTree(t, rand.New(rand.NewPCG(seed, uint64(n))), dir)
		h := host.Mounted(dir)
		claims[n], _ = Read(context.Background(), h, setting.Kernel(h))
	}
	root.Must("sh", "-euc", `
for d in etc run usr/lib; do
  mkdir -p "/$d/udev"; rm -rf "/$d/udev/rules.d"; ln -s "$1/now/$d/udev/rules.d" "/$d/udev/rules.d"
done
rm -f /etc/udev/hwdb.bin /lib/udev/hwdb.bin
for tree in "$1"/tree*; do
  ln -sfn "$tree" "$1/now"
  mount --bind "$tree/sys" /sys
  for d in $2; do udevadm test --action=add "/sys/$d" >>"$tree/log" 2>&1 || :; done
  umount /sys
done`, "sh", root.Share(), strings.Join(udevDisks, " "))
	certain, conditional := 0, 0
	for n, c := range claims {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		for _, d := range udevDisks {
			for _, a := range udevAttrs {
				s := setting.Setting{Kind: "sysfs", Name: "/sys/" + d + "/" + a}
				b, err := os.ReadFile(filepath.Join(dir, s.Name))
				if err != nil {
					t.Fatal(err)
				}
				got, _, _ := strings.Cut(string(b), ";") // a plain file is not cut off
				allowed := []string{"untouched"}
				for _, cl := range c.For(s) {
					switch {
					case cl.Certain():
						allowed = []string{strings.TrimSuffix(cl.Value.Text, ";")}
					case cl.Void == "":
						allowed = append(allowed, strings.TrimSuffix(cl.Value.Text, ";"))
					}
				}
				ok := false
				for _, v := range allowed {
					ok = ok || got == v
				}
				if !ok {
					t.Fatalf("tree %d, %s: udev left %q, allowed %q\n%s%s", n, s, got, allowed, describe(c.For(s)), dump(t, dir))
				}
				if len(allowed) > 1 {
					conditional++
				} else if got != "untouched" {
					certain++
				}
			}
		}
	}
	t.Logf("%d trees: %d values decided, %d with conditions", trees, certain, conditional)
	if certain < trees {
		t.Errorf("the trees are too easy: %d values decided", certain)
	}
}
