package override

import (
	"path"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
)

// FuzzSysctl tests that keys of any file stay below /proc/sys, that line numbers increase, and that
// a rewritten line parses to the same.
func FuzzSysctl(f *testing.F) {
	for _, s := range []string{
		"vm.swappiness = 10\n", "-net/ipv4/conf/eth0.100/rp_filter\n", "# c\n; d\n\n = 5\nx", "net.ipv4.conf.*.rp_filter=1\r\n\x00a=b",
		"net.ipv4.conf.{all,{lo,eth[!a]}}.x=1", "../../etc/passwd=1", "-=", "a=b=c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, _ := parseSysctl(text)
		last := 0
		for _, l := range lines {
			if l.line <= last {
				t.Fatalf("line %d after line %d", l.line, last)
			}
			last = l.line
			if p := path.Join("/proc/sys", l.key); !strings.HasPrefix(p, "/proc/sys/") || p != "/proc/sys/"+l.key {
				t.Fatalf("key %q leads to %q", l.key, p)
			}
			again := "/" + l.key
			if l.exclude {
				again = "-" + again
			} else {
				again += "=" + l.value
			}
			if strings.Trim(l.key, spaces) != l.key || strings.Contains(l.key, "=") {
				continue // a blank inside a key's end cannot be written so
			}
			back, problems := parseSysctl(again)
			if len(back) != 1 || len(problems) > 0 || back[0].key != l.key || back[0].value != l.value || back[0].exclude != l.exclude {
				t.Fatalf("%q reads as %+v, %v; want %+v", again, back, problems, l)
			}
			for _, g := range expandBraces(l.key) {
				_, _ = path.Match(g, l.key)
			}
		}
	})
}

// FuzzCommandLine tests that no word is lost or invented, and that words for init are ignored.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{
		"quiet a=b", `x="a b" "y=c d"`, "a -- b", `"`, `a="`, "=x", "a\x00b", `sysctl.vm.swappiness=1`, `m.p="q"r`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range parseCommandLine(text) {
			if p.key == "" || p.text == "" || !strings.Contains(text, p.text) || p.text == "--" {
				t.Fatalf("%q gave %+v", text, p)
			}
			if p.assigned != strings.Contains(p.text[1:], "=") {
				t.Fatalf("%q: assigned is %v", p.text, p.assigned)
			}
		}
	})
}

func FuzzModprobe(f *testing.F) {
	for _, s := range []string{"options a b=c\n", "options a \\\n b\n", "# options x y=1", "options a", "options a b=\"c d\" e\\", "blacklist x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, _ := parseModprobe(text)
		last := 0
		for _, l := range lines {
			if l.line <= last || l.line > strings.Count(text, "\n")+1 || l.module == "" || strings.Contains(l.module, "-") {
				t.Fatalf("%+v after line %d", l, last)
			}
			last = l.line
		}
	})
}

func FuzzTmpfiles(f *testing.F) {
	for _, s := range []string{
		"w /sys/kernel/mm/ksm/run - - - - 1\n", `w+! "/sys/a b" 0644 root root - a\x62c%%`, "F /proc/sys/vm/x - - - - %v", "w /sys/../etc/passwd - - - - x",
		`w '/sys/x`, `w /sys/x - - - - \`, "# w /sys/x", "f~ /sys/x - - - - YQ==",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range parseTmpfiles(text, func() string { return "6.1.0" }) {
			if !strings.HasPrefix(l.path, "/sys/") && !strings.HasPrefix(l.path, "/proc/sys/") || path.Clean(l.path) != l.path {
				t.Fatalf("path %q", l.path)
			}
			if l.kind != 'w' && l.kind != 'f' {
				t.Fatalf("kind %q", l.kind)
			}
		}
	})
}

// FuzzUdev tests that each token, written again, parses to itself.
func FuzzUdev(f *testing.F) {
	for _, s := range []string{
		`SUBSYSTEM=="block", KERNEL=="sd*", ATTR{queue/scheduler}="bfq"`, "A==\"x\", \\\n# c\n B{c}:=\"y\"\n", `A=e"\x41\""`, `A=i"x"`, `GOTO="a"` + "\n" + `LABEL="a"`,
		`A{=="x"`, `A=="x`, `A`, `A=="\"", B!="\\"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		rules, _ := parseUdev(text)
		for _, r := range rules {
			if r.line <= last || r.line > strings.Count(text, "\n")+1 {
				t.Fatalf("line %d after %d", r.line, last)
			}
			last = r.line
			for _, m := range append(r.matches, r.sets...) {
				if m.key == "" || m.op == "" {
					t.Fatalf("%+v", m)
				}
				if strings.ContainsAny(m.value, "\"\\") {
					continue
				}
				attr := ""
				if m.attr != "" {
					attr = "{" + m.attr + "}"
				}
				again, err := udevTokens(m.key + attr + m.op + `"` + m.value + `"`)
				if err != "" || len(again) != 1 || again[0] != m {
					t.Fatalf("%+v reads as %+v, %s", m, again, err)
				}
			}
		}
	})
}

func FuzzSysfsConf(f *testing.F) {
	f.Add("block/sda/queue/scheduler = none # c\nmode a = 1\n../../etc = x\n=")
	f.Fuzz(func(t *testing.T, text string) {
		lines, _ := parseSysfsConf(text)
		for _, l := range lines {
			if p := path.Join("/sys", l.key); p != "/sys/"+l.key {
				t.Fatalf("key %q leads to %q", l.key, p)
			}
		}
		for _, l := range parseShellVars(text) {
			governorValues(l.key, l.value)
		}
	})
}

func FuzzLoggerLine(f *testing.F) {
	f.Add("sysctl[2115] changed vm/swappiness from 60 to 10")
	f.Add("sh[7](sudo[6]) initiated change of a from b to c (note: truncation")
	f.Fuzz(func(t *testing.T, text string) {
		w, key, ok := parseLoggerLine(text)
		if ok && (key == "" || strings.ContainsAny(key, " \n") || w.PID < 0) {
			t.Fatalf("%q: %q, %+v", text, key, w)
		}
		_, _ = newestWrite(text, "vm/swappiness")
	})
}

func FuzzParseWatch(f *testing.F) {
	f.Add([]byte(`{"schema":"fettle/watch/v1","boot_id":"b","pid":7,"start_ticks":9,"settings":[{"setting":"sysctl:vm.swappiness","since":"2026-11-21T20:12:24Z","value":"10","last":{"time":"2026-11-21T20:12:24Z","process":"sysctl","pid":7,"old":"10","new":"44","source":"x"}}]}`))
	f.Add([]byte(`{"schema":"fettle/watch/v1","settings":[{"setting":":","value":null}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := parseWatch(text)
		if (w == nil) == (err == nil) {
			t.Errorf("%v, %v", w, err)
		}
		if w != nil {
			w.Find(setting.Setting{Kind: "sysctl", Name: "vm.swappiness"})
		}
	})
}
