package lean

import (
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/host"
)

var rssFile = regexp.MustCompile(`(?m)^RssFile:\s+(\d+) kB`)

// mapped is how much of files this process has in its memory, in KiB.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	f := rssFile.FindSubmatch(text)
	if f == nil {
		t.Fatal("the kernel does not say it")
	}
	n, err := strconv.Atoi(string(f[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBegin: pages of the program go, it goes on with those that it needs, and the
// collector is as before when it has ended.
func TestBegin(t *testing.T) {
	was := debug.SetGCPercent(77)
	defer debug.SetGCPercent(was)
	before := mapped(t)
	end := Begin(host.Live())
	after := mapped(t)
	t.Logf("%d KiB of files before, %d after", before, after)
	if after >= before {
		t.Errorf("%d KiB of files are in memory, before it were %d", after, before)
	}
	end()
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("the collector is left at %d", got)
	}
}

func TestUnchanging(t *testing.T) {
	all := unchanging(`00400000-00402000 r-xp 00000000 08:01 11 /usr/bin/my program
00402000-00403000 r--p 00002000 08:01 11 /usr/bin/my program
00403000-00404000 rw-p 00003000 08:01 11 /usr/bin/my program
00500000-00600000 r-xp 00000000 08:01 12 /usr/lib/other.so
7f0000000000-7f0000001000 r--p 00000000 00:00 0
00404000-zz r--p 00003000 08:01 11 /usr/bin/my program
`, "/usr/bin/my program")
	if len(all) != 2 || all[0] != (part{0x400000, 0x402000}) || all[1] != (part{0x402000, 0x403000}) {
		t.Errorf("%x", all)
	}
}
