package resident

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// entry is a mapping as /proc/PID/smaps tells of it, cut to a few of its lines.
func entry(head, anonymous string) string {
	return head + "\nSize:               9608 kB\nRss:                 896 kB\nPrivate_Dirty:         0 kB\nAnonymous:          " +
		anonymous + " kB\nAnonHugePages:         0 kB\nVmFlags: rd ex mr mw me sd \n"
}

func TestUnchanged(t *testing.T) {
	const file = "/usr/bin/fettle"
	smaps := entry("00400000-00d62000 r-xp 00000000 fe:00 10504069                           /usr/bin/fettle", "0") +
		entry("00d62000-016b0000 r--p 00962000 fe:00 10504069                           /usr/bin/fettle", "0") +
		entry("016b0000-0172f000 rw-p 012b0000 fe:00 10504069                           /usr/bin/fettle", "0") + // data
		entry("01730000-01740000 r--p 01300000 fe:00 10504069                           /usr/bin/fettle", "12") + // relocated
		entry("0172f000-03774000 rw-p 00000000 00:00 0 ", "100") +
		entry("7f0000000000-7f0000001000 r--p 00000000 fe:00 77                         /usr/lib/locale/C.utf8", "0") +
		entry("7f0000002000-7f0000003000 r--s 00000000 fe:00 10504069                   /usr/bin/fettle", "0") +
		entry("7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]", "0")
	want := []mapping{{0x400000, 0xd62000}, {0xd62000, 0x16b0000}}
	if diff := cmp.Diff(want, unchanged(smaps, file), cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
	replaced := entry("00400000-00d62000 r-xp 00000000 fe:00 1    /usr/bin/fettle (deleted)", "0")
	if diff := cmp.Diff(want[:1], unchanged(replaced, file+" (deleted)"), cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error("a program that was replaced while it runs:", diff)
	}
	if found := unchanged("00400000 r-xp\nAnonymous:\n\nAnonymous: 0 kB\n"+replaced[:40], file); found != nil {
		t.Errorf("of a text that is cut off: %v", found)
	}
}

// This process has text and read-only data that is unchanged, and it goes on
// after they were given back.
func TestRestGoesOn(t *testing.T) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	found := func() int {
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		return len(unchanged(string(smaps), self))
	}
	before := found()
	Rest()
	if after := found(); before == 0 || after != before {
		t.Errorf("%d mappings as in the file, after the rest %d", before, after)
	}
}

// What is done moves the rest away; what was rested from is not rested from again, and
// after little it is not rested often.
func TestSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var s Sleeper
		began := time.Now()
		var rests []time.Duration
		go s.run(ctx, 10*time.Second, 2*time.Minute, func() { rests = append(rests, time.Since(began)) })
		// Never at the moment of a tick: which of the two would be first is by chance.
		time.Sleep(time.Minute + 3*time.Second) // it has done nothing
		for range 12 {
			s.Worked()
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Minute)
		s.Worked()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(rests) != 2 || rests[0] < 2*time.Minute || rests[0] > 2*time.Minute+20*time.Second || rests[1]-rests[0] < 2*time.Minute {
			t.Errorf("rests at %v", rests)
		}
		for range 2 {
			for range many {
				s.Worked()
			}
			time.Sleep(30 * time.Second)
		}
		synctest.Wait()
		if len(rests) != 4 || rests[3]-rests[2] != 30*time.Second {
			t.Errorf("rests at %v, the last two after much work", rests)
		}
	})
}
