package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ssh"
	"fettle.dev/fettle/internal/testkit/root"
)

// machine simulates a machine: its files after a number of seconds.
type machine struct {
	sched   bool
	at      float64
	busy    [2]float64 // share of each processor
	queue   [2]float64
	stolen  float64
	in, out float64
	memory  int64 // kB available of 1000
	extra   string
}

func (m machine) text() string {
	tick := func(s float64) uint64 { return uint64(math.Round(1000 + 100*s)) }
	line := func(name string, busy, stolen, of float64) string {
		return fmt.Sprintf("%s %d 0 0 %d 0 0 0 %d 0 0\n", name, tick(m.at*(busy-stolen)*of), tick(m.at*(1-busy)*of), tick(m.at*stolen*of))
	}
	text := fmt.Sprintf("%.2f 100.00\n", 5000+m.at)
	text += line("cpu ", (m.busy[0]+m.busy[1])/2, m.stolen, 2) + line("cpu0", m.busy[0], m.stolen, 1) + line("cpu1", m.busy[1], m.stolen, 1)
	text += "intr 5 0 0\nctxt 7\nprocs_running 4\nprocs_blocked 0\nsoftirq 1 2 3\n"
	if m.sched {
		text += "version 17\ntimestamp 4295\n"
		for i := range m.queue {
			ns := uint64(1e9 * m.at * m.queue[i])
			text += fmt.Sprintf("cpu%d 0 0 0 0 0 0 %d %d 99\ndomain0 MC 3 1 2 3\n", i, 500+ns/4, 500+ns-ns/4)
		}
	}
	text += fmt.Sprintf("MemTotal:           1000 kB\nMemFree:             10 kB\nMemAvailable:       %d kB\n", m.memory)
	text += "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
	text += fmt.Sprintf("    lo: 5 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n  eth0:%d 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0\n", 4_000_000_000+uint64(m.at*m.in), 77+uint64(m.at*m.out))
	return text + m.extra
}

// course simulates samples of a machine, a second apart.
func course(t *testing.T, all ...machine) *Course {
	t.Helper()
	c := &Course{Observer: &Observer{Name: "web1"}}
	for i, m := range all {
		s, err := parse([]byte(m.text()))
		if err != nil {
			t.Fatal(err)
		}
		c.kept = len(s.queued) > 0
		c.at, c.seen = append(c.at, time.Duration(i)*time.Second), append(c.seen, s)
	}
	return c
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.011*max(1, math.Abs(b)) }

func TestFigures(t *testing.T) {
	for _, sched := range []bool{true, false} {
		var all []machine
		for i := range 11 {
			memory := int64(600)
			if i == 4 {
				memory = 200 // one moment
			}
			all = append(all, machine{sched: sched, at: float64(i), busy: [2]float64{0.9, 0.3}, queue: [2]float64{3, 0.5}, stolen: 0.1, in: 5e6, out: 2e6, memory: memory})
		}
		c := course(t, all...)
		f, ok := c.Between(0, 10*time.Second)
		if !ok || !near(f.CPUShare, 0.6) || !near(f.BusiestCPUShare, 0.9) || !near(f.StolenShare, 0.1) || f.MemoryShare != 0.8 || f.MemoryBytes != 800<<10 || f.FromS != 0 || f.ToS != 10 {
			t.Errorf("%+v %t", f, ok)
		}
		if n := f.Networks["eth0"]; !near(n.InBytesPerS, 5e6) || !near(n.OutBytesPerS, 2e6) || f.Networks["lo"].InBytesPerS != 0 {
			t.Errorf("%+v", f.Networks)
		}
		if sched && (!near(f.RunQueue, 1.75) || f.LongestRunQueue == nil || !near(*f.LongestRunQueue, 3)) {
			t.Errorf("%v %v", f.RunQueue, f.LongestRunQueue)
		}
		// Four were runnable, one of them the reader, on two processors.
		if !sched && (!near(f.RunQueue, 1.5) || f.LongestRunQueue != nil || !strings.Contains(c.RunQueueSource(), "lacks /proc/schedstat")) {
			t.Errorf("%v %v %s", f.RunQueue, f.LongestRunQueue, c.RunQueueSource())
		}
		if got := f.BusiestNetwork(); !near(got, 5e6) {
			t.Errorf("the busiest interface has %v", got)
		}
		if later, ok := c.Between(4900*time.Millisecond, 8*time.Second); !ok || later.FromS != 5 || later.ToS != 8 || later.MemoryShare != 0.4 {
			t.Errorf("%+v %t", later, ok)
		}
		// One sample in it, and one soon after.
		if late, ok := c.Between(2500*time.Millisecond, 3800*time.Millisecond); !ok || late.FromS != 3 || late.ToS != 4 {
			t.Errorf("%+v %t", late, ok)
		}
		if late, ok := c.Between(3200*time.Millisecond, 4300*time.Millisecond); ok {
			t.Errorf("%+v", late)
		}
		if len(c.Samples()) != 10 || c.Err() != nil {
			t.Errorf("%d samples, %v", len(c.Samples()), c.Err())
		}
		for _, none := range [][2]time.Duration{{20 * time.Second, 30 * time.Second}, {5200 * time.Millisecond, 5700 * time.Millisecond}, {0, -time.Second}} {
			if f, ok := c.Between(none[0], none[1]); ok {
				t.Errorf("%v: %+v", none, f)
			}
		}
	}
	// Restarted in between.
	c := course(t, machine{at: 50, memory: 500}, machine{at: 1, memory: 500})
	if f, ok := c.Between(0, time.Second); ok || !errors.Is(c.Err(), errRestarted) {
		t.Errorf("%+v %v", f, c.Err())
	}
}

func TestRefused(t *testing.T) {
	good := machine{sched: true, at: 1, memory: 500}.text()
	for want, text := range map[string]string{
		"/proc/stat: not in the format":        "",
		"is not the beginning of /proc/uptime": "sh: cat: not found\n",
		"lacks MemTotal":                       strings.ReplaceAll(good, "MemAvailable", "Other"),
		"not in the format that the kernel":    strings.Replace(good, "cpu0 ", "cpu0 1 2 3\ncpu0 ", 1),
		"invalid syntax":                       strings.Replace(good, "eth0:", "eth0: x", 1),
		"want nine numbers":                    strings.Replace(good, "timestamp", "cpu9 1 2 3\ntimestamp", 1),
		"want a number of kB":                  strings.Replace(good, "1000 kB", "1000 MB", 1),
	} {
		if s, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v", want, s, err)
		}
	}
}

// broken is a source that fails after some reads.
type broken struct {
	left   int
	closed bool
}

func (b *broken) Read(context.Context) ([]byte, error) {
	if b.left--; b.left < 0 {
		return nil, errors.New("gone")
	}
	return []byte(machine{at: float64(10 - b.left), memory: 500}.text()), nil
}

func (b *broken) Close() { b.closed = true }

func TestWatch(t *testing.T) {
	source := &broken{}
	if _, err := New(t.Context(), "web1", source); err == nil || !source.closed || !strings.Contains(err.Error(), "cannot observe web1: gone") {
		t.Errorf("%v %+v", err, source)
	}
	o, err := New(t.Context(), "web1", &broken{left: 5})
	if err != nil {
		t.Fatal(err)
	}
	c := o.Watch(t.Context(), time.Now(), time.Millisecond)
	if !root.Eventually(time.Minute, func() bool { return c.Err() != nil }) {
		t.Fatal("the end of its source is not seen")
	}
	c.Stop()
	if len(c.seen) != 4 || c.Err().Error() != "gone" || len(c.Samples()) != 3 {
		t.Errorf("%d %v", len(c.seen), c.Err())
	}
}

// TestThisMachine tests that the files of this machine can be parsed, and that a shell reads the
// same.
func TestThisMachine(t *testing.T) {
	// What ssh's other side runs.
	session, err := ssh.Start(t.Context(), []string{"sh", "-c", script}, observeMaxLine)
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]Source{"local": Local(host.Live()), "shell": shell{session}} {
		o, err := New(t.Context(), name, source)
		if err != nil {
			t.Fatal(err)
		}
		c := o.Watch(t.Context(), time.Now(), 20*time.Millisecond)
		if !root.Eventually(time.Minute, func() bool { return len(c.Samples()) >= 3 }) {
			t.Fatalf("%s: %v", name, c.Err())
		}
		c.Stop()
		f, ok := c.Between(0, time.Hour)
		if !ok || f.CPUShare < 0 || f.CPUShare > 1 || f.MemoryShare <= 0 || f.MemoryShare >= 1 || len(f.Networks) == 0 {
			t.Errorf("%s: %+v %t", name, f, ok)
		}
		o.Close()
	}
}
