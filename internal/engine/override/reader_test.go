package override

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestHugeFile tests that a file above the size limit is reported with name and size, and does not
// hide other files.
func TestHugeFile(t *testing.T) {
	huge := strings.Repeat("# nothing\n", 100_000)
	for file, source := range map[string]Source{
		"etc/sysctl.d/50-a.conf":          Sysctl,
		"etc/sysctl.conf":                 Sysctl,
		"proc/cmdline":                    CommandLine,
		"etc/modprobe.d/a.conf":           Modprobe,
		"etc/tmpfiles.d/a.conf":           Tmpfiles,
		"etc/sysfs.conf":                  Sysfsutils,
		"etc/default/cpupower":            Cpupower,
		"usr/lib/udev/rules.d/60-a.rules": Udev,
		"etc/default/kubelet":             Kubelet,
		"etc/systemd/system/k3s.service":  Kubelet,
	} {
		text, most := huge, "256 KiB"
		if source == Udev {
			text, most = strings.Repeat(huge, 2), "1 MiB"
		}
		h := machine.Mounted(t, map[string]string{
			file: text, "etc/sysctl.d/60-b.conf": "vm.swappiness = 10\n",
			"usr/lib/systemd/system/kubelet.service": "[Service]\n",
		})
		c, problems := read(t, h)
		unread := c.Unread(source)
		if len(unread) != 1 || unread[0].File != "/"+file || !strings.Contains(unread[0].What, "MiB, ") && !strings.Contains(unread[0].What, "KiB, ") || !strings.Contains(unread[0].What, "at most "+most) {
			t.Errorf("%s: the unread are %v", file, unread)
		}
		if len(problems) != 1 || problems[0] != unread[0] {
			t.Errorf("%s: the problems are %v", file, problems)
		}
		if got := claimsFor(t, c, "vm.swappiness"); len(got) == 0 {
			t.Errorf("%s: the other file's line is lost: %v", file, got)
		}
	}
}

// TestFewProblems tests that only the first invalid lines are reported, with the number of the
// others.
func TestFewProblems(t *testing.T) {
	_, problems := read(t, claimMachine(t, "-- etc/sysctl.d/a.conf --\n"+strings.Repeat("nonsense\n", 9_995)+"-- etc/sysctl.d/b.conf --\nnonsense\n"))
	if len(problems) != maxProblems+2 {
		t.Fatalf("%d problems, want %d: %v", len(problems), maxProblems+2, problems)
	}
	if got, want := problems[len(problems)-1].String(), "/etc/sysctl.d/a.conf: and 9990 more invalid lines"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := problems[len(problems)-2].String(); !strings.HasPrefix(got, "/etc/sysctl.d/b.conf:1: ") {
		t.Errorf("the problem of the other file is %q", got)
	}
}

// TestManyPatterns tests that patterns above the limit are not compared with every key, and that
// their claims are unknown.
func TestManyPatterns(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "a*%d*{b,c,d}?[a-z]*x%d = 1\nkey.of.its.own%d = 1\n", i, i, i)
	}
	files := map[string]string{"etc/sysctl.d/a.conf": text.String(), "etc/tmpfiles.d/a.conf": strings.Repeat("w /sys/kernel/*/*/* - - - - 1\n", 1000), "sys/kernel/mm/ksm/run": "0\n"}
	h := machine.Mounted(t, files)
	began := time.Now()
	c, problems := read(t, h)
	if n := len(c.sysctl.patterns) * 3; n > maxPatterns {
		t.Errorf("%d patterns are kept", n)
	}
	if n := len(c.For(setting.Setting{Kind: "sysfs", Name: "/sys/kernel/mm/ksm/run"})); n != maxPatterns {
		t.Errorf("%d claims of patterns, want %d", n, maxPatterns)
	}
	if len(problems) != 2 || len(c.Unread(Sysctl)) != 1 || len(c.Unread(Tmpfiles)) != 1 || !strings.Contains(problems[0].String(), "/etc/sysctl.d/a.conf: more than 256 patterns in") {
		t.Errorf("the problems are %v", problems)
	}
	if ids := c.Sysctls(h.Files); len(ids) != 2000 {
		t.Errorf("%d keys", len(ids))
	}
	t.Logf("in %v", time.Since(began))
	// No module has such a name.
	c, _ = read(t, machine.Mounted(t, map[string]string{
		"proc/cmdline": "*.*=1 a?.b=1\n", "etc/modprobe.d/a.conf": "options * *=1\n", "sys/module/ab/parameters/b": "0\n",
	}))
	if got := claimsFor(t, c, "sysfs:/sys/module/ab/parameters/b"); len(got) > 0 {
		t.Errorf("a pattern of modules claims: %v", got)
	}
}
