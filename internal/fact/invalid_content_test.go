package fact

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/text"
)

// spoiled is a machine with one file's content replaced; asked are the files
// that were read.
type spoiled struct {
	host.Files
	path, content string
	asked         map[string]bool
}

func (s *spoiled) ReadFile(p string) ([]byte, error) {
	b, err := s.Files.ReadFile(p)
	if err != nil {
		return b, err
	}
	s.asked[p] = true
	if p == s.path {
		return []byte(s.content), nil
	}
	return b, nil
}

var anyNumber = text.LazyRegexp(`[0-9]+`)

// Invalid content is unknown: no content of a file makes a fact absent, or
// removes an item from a known set.
func TestGarbageIsNotAbsent(t *testing.T) {
	// In these files an empty content, or any word, legitimately means "none".
	none := []string{"/etc/hostname", "/etc/tuned/", "/proc/xen/capabilities"}
	contents := []string{"", "abc\n", "-5\n", "99999999999999999999999\n"}
	tried := map[string]bool{}
	for _, name := range []string{"kvm-guest", "container", "amd-epyc", "intel-2s-bare-metal"} {
		h, err := host.OpenRoot(hostsDir + "/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		files := &spoiled{Files: h.Files, asked: map[string]bool{}}
		h.Files = files
		before := Collect(h).List()
		for _, p := range sortedNames(files.asked) {
			form := anyNumber().ReplaceAllString(p, "N")
			if tried[form] || slices.ContainsFunc(none, func(n string) bool { return strings.HasPrefix(p, n) }) {
				continue // one of each kind is enough
			}
			tried[form] = true
			if len(tried)%8 >= root.Sample(8) {
				continue
			}
			kinds := contents
			b, _ := h.Files.ReadFile(p)
			switch words := !strings.ContainsAny(string(b), "0123456789"); {
			case len(files.asked) > 500: // large machines would take too long
				kinds = contents[len(tried)%2*2:][:1]
			case words:
				kinds = contents[:2]
			}
			for _, content := range kinds {
				files.path, files.content = p, content
				now := map[string]Item{}
				for _, it := range Collect(h).List() {
					now[it.Name] = it
				}
				for _, was := range before {
					it, there := now[was.Name]
					switch {
					case was.Absent:
					case it.Absent:
						t.Errorf("%s: %s with %q: %s was %v and is absent", name, p, content, was.Name, was.Value)
					case !there && !unknownAbove(now, was.Name):
						t.Errorf("%s: %s with %q: %s was %v and is gone", name, p, content, was.Name, was.Value)
					}
				}
			}
		}
	}
	if len(tried) < 80 {
		t.Errorf("only %d kinds of files were spoiled", len(tried))
	}
}

// unknownAbove reports whether a part of the tree above a fact is unknown.
func unknownAbove(items map[string]Item, name string) bool {
	for i := strings.LastIndexByte(name, '.'); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		if items[name[:i]].Unknown != "" {
			return true
		}
	}
	return false
}

// Invalid lines of /proc/meminfo, and the resulting reasons.
func TestMeminfoLines(t *testing.T) {
	for line, want := range map[string]string{
		"MemTotal: abc":                      `/proc/meminfo: MemTotal: "abc" is not a number`,
		"MemTotal: -16 kB":                   `/proc/meminfo: MemTotal: "-16 kB" is not a number`,
		"MemTotal: 18446744073709551615 kB":  `/proc/meminfo: MemTotal: "18446744073709551615 kB" is not a number`,
		"MemTotal: 9007199254740993000 kB":   `/proc/meminfo: MemTotal: "9007199254740993000 kB" is not a number`,
		"MemTotal:":                          `/proc/meminfo: MemTotal: "" is not a number`,
		"":                                   "/proc/meminfo is incomplete: MemTotal is missing",
		"MemTotal: 16 kB":                    "",
		"MemTotal: 16 kB\nSwapTotal: 1e3 kB": "",
		"MemFree: 4 kB\nCommitLimit: 3 kB\nC: 1 kB": "/proc/meminfo is incomplete: MemTotal is missing",
	} {
		h := machine.Mounted(t, map[string]string{"/proc/meminfo": line + "\n"})
		if m := Collect(h).Memory; m.TotalBytes.Unknown() != want || m.TotalBytes.Absent() || m.SwapTotalBytes.Unknown() == "" {
			t.Errorf("%q: %q, want %q; swap %+v", line, m.TotalBytes.Unknown(), want, m.SwapTotalBytes)
		}
	}
	h := machine.Mounted(t, map[string]string{"/proc/uptime": "", "/sys/class/net/eth0/mtu": "abc\n", "/sys/class/net/eth0/speed": "-1\n", "/sys/class/net/eth0/operstate": ""})
	f := Collect(h)
	eth := f.Net.Get("eth0")
	for _, c := range [][2]string{
		{f.Kernel.UptimeS.Unknown(), "/proc/uptime is empty"},
		{eth.MTUBytes.Unknown(), `/sys/class/net/eth0/mtu: "abc" is not a number in the valid range`},
		{eth.State.Unknown(), "/sys/class/net/eth0/operstate is empty"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
	if !eth.SpeedBps.Absent() {
		t.Errorf("the kernel's -1 is no speed: %+v", eth.SpeedBps)
	}
}
