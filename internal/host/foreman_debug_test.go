package host

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// debugged returns a tree as script/foreman-debug makes it: copied files, and
// command output by name.
func debugged(files map[string]string, outputs map[string][2]string) map[string]string {
	tree := map[string]string{}
	for name, text := range files {
		if text != "" { // find -size +0b
			tree[name] = text
		}
	}
	for name, o := range outputs {
		tree[name] = fmt.Sprintf("COMMAND> %s\n\n%s", o[0], o[1])
	}
	return tree
}

// facts is output of facter 4.
const facts = `dmi => {
  bios => {
    vendor => "SeaBIOS"
  },
  manufacturer => "Red Hat",
  product => {
    name => "KVM"
  }
}
kernelrelease => 4.18.0-553.el8_10.x86_64
mountpoints => {
  / => {
    available => "30 GiB",
    available_bytes => 32212254720,
    device => "/dev/mapper/rhel-root",
    filesystem => "xfs",
    options => [
      "rw",
      "relatime"
    ],
    size_bytes => 53687091200
  },
  /var/lib/pulp => {
    available_bytes => 1073741824,
    device => "/dev/vdb1",
    filesystem => "xfs",
    options => [
      "rw"
    ],
    size_bytes => 536870912000
  }
}
networking => {
  hostname => "sat"
}
os => {
  name => "RedHat",
  release => {
    full => "8.10",
    major => "8"
  }
}
system_uptime => {
  days => 1,
  seconds => 90061
}
`

func debugOutputs() map[string][2]string {
	return map[string][2]string{
		"date":               {"date", "Tue Mar 11 10:20:30 UTC 2025\n"},
		"lsb_release":        {"lsb_release -a", "LSB Version:\t:core-4.1\nDistributor ID:\tRedHatEnterprise\nDescription:\tRed Hat Enterprise Linux release 8.10 (Ootpa)\nRelease:\t8.10\nCodename:\tOotpa\n"},
		"uname":              {"uname -a", "Linux sat.example.com 4.18.0-553.el8_10.x86_64 #1 SMP Fri May 10 15:19:13 EDT 2024 x86_64 x86_64 x86_64 GNU/Linux\n"},
		"cpuinfo":            {"cat /proc/cpuinfo", "processor\t: 0\n"},
		"meminfo":            {"cat /proc/meminfo", "MemTotal:       32761164 kB\n"},
		"foreman_packages":   {"rpm -qa '*foreman*' || dpkg -l '*foreman*' | sort", "foreman-3.3.0.23-1.el8sat.noarch\n"},
		"installed_packages": {"rpm -qa", "foreman-3.3.0.23-1.el8sat.noarch\n"},
		"facts":              {"facter", facts},
	}
}

func TestForemanDebug(t *testing.T) {
	h := sosTree(t, debugged(map[string]string{"etc/foreman/database.yml": "production:\n"}, debugOutputs()))
	for name, want := range map[string]string{
		"/proc/cpuinfo":                  "processor\t: 0\n",
		"/proc/meminfo":                  "MemTotal:       32761164 kB\n",
		"/proc/sys/kernel/osrelease":     "4.18.0-553.el8_10.x86_64\n",
		"/proc/sys/kernel/hostname":      "sat\n",
		"/sys/class/dmi/id/sys_vendor":   "Red Hat\n",
		"/sys/class/dmi/id/product_name": "KVM\n",
		"/etc/os-release":                "ID=\"rhel\"\nVERSION_ID=\"8.10\"\nPRETTY_NAME=\"Red Hat Enterprise Linux release 8.10 (Ootpa)\"\n",
		"/proc/mounts":                   "/dev/mapper/rhel-root / xfs rw,relatime 0 0\n/dev/vdb1 /var/lib/pulp xfs rw 0 0\n",
		"/proc/uptime":                   "90061\n",
		"/etc/foreman/database.yml":      "production:\n",
	} {
		if b, err := h.Files.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	for _, name := range []string{"/etc/hosts", "/proc/1/comm", "/etc/httpd/conf.modules.d/prefork.conf", "/sys/class/dmi/id/board_name", "/proc/sys/vm/swappiness"} {
		if b, err := h.Files.ReadFile(name); !Unknown(err) {
			t.Errorf("%s: %q, %v: foreman-debug takes it not, so nobody knows", name, b, err)
		}
	}
	if size, free, err := h.Space("/var/lib/pulp/media"); err != nil || size != 500<<30 || free != 1<<30 {
		t.Errorf("space: %d of %d, %v", free, size, err)
	}
	if now := h.Clock.Now(); !now.Equal(time.Date(2025, 3, 11, 10, 20, 30, 0, time.UTC)) {
		t.Errorf("it was made %v", now)
	}
	if up, err := h.Clock.SinceBoot(); err != nil || up != 90061*time.Second {
		t.Errorf("up %v, %v", up, err)
	}

	// Without facter, and with foreman-debug -g, which omits the generic part.
	o := debugOutputs()
	delete(o, "facts")
	h = sosTree(t, debugged(nil, o))
	for name, want := range map[string]string{"/proc/sys/kernel/hostname": "sat.example.com\n", "/proc/sys/kernel/osrelease": "4.18.0-553.el8_10.x86_64\n"} {
		if b, err := h.Files.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("without facter: %s: %q, %v", name, b, err)
		}
	}
	if b, err := h.Files.ReadFile("/proc/mounts"); !Unknown(err) {
		t.Errorf("mounts without facter: %q, %v", b, err)
	}
	h = sosTree(t, debugged(map[string]string{"etc/foreman/database.yml": "x\n"}, map[string][2]string{"foreman_packages": {"rpm -qa", "bash: rpm: command not found\n"}, "meminfo": {"cat /proc/cpuinfo", "x\n"}}))
	if b, err := h.Files.ReadFile("/proc/meminfo"); !Unknown(err) {
		t.Errorf("the output of another command: %q, %v", b, err)
	}
}

// Content that replaces a file has only lines and fields of the output.
func FuzzForemanDebug(f *testing.F) {
	f.Add(facts, "Distributor ID:\tDebian\nRelease:\t12\n")
	f.Add("a => {\n}\n}\nb => [\n1,\n]\n", "")
	f.Add("mountpoints => {\n  /a b => {\n device => \"x\ty\",\n filesystem => \"xfs\"\n}\n", "Release:\t\"\n")
	dir := f.TempDir()
	sosIn(f, dir, debugged(nil, debugOutputs()))
	f.Fuzz(func(t *testing.T, facts, lsb string) {
		h := sosIn(t, dir, debugged(nil, map[string][2]string{"facts": {"facter", facts}, "lsb_release": {"lsb_release -a", lsb}}))
		if b, err := h.Files.ReadFile("/proc/mounts"); err == nil {
			for line := range strings.Lines(string(b)) {
				if n := strings.Count(line, " "); n != 5 || !strings.HasSuffix(line, " 0 0\n") {
					t.Errorf("%q", line)
				}
			}
		}
		if b, err := h.Files.ReadFile("/etc/os-release"); err == nil && strings.Count(string(b), "\n") != 3 {
			t.Errorf("%q", b)
		}
		if size, free, err := h.Space("/var"); err == nil && free > size {
			t.Errorf("%d of %d bytes are free", free, size)
		}
		_, _ = h.Clock.SinceBoot()
	})
}

// The memory for parsing facter's output is bounded by its size.
func FuzzFacter(f *testing.F) {
	f.Add(facts)
	f.Add("a => [\n\"b\",\n]\nc => {\nd => {\ne => \"}\"\n")
	f.Add("} => {\n]\n => \n[ => [\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for name, v := range facter(text) {
			n += len(v)
			if strings.Contains(name+v, "\n") {
				t.Errorf("%q: %q has several lines", name, v)
			}
		}
		if n > 2*len(text) {
			t.Errorf("%d bytes make %d", len(text), n)
		}
	})
}
