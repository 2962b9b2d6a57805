package plugin

import (
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
)

func TestLadder(t *testing.T) {
	l := Ladder{Top: 2, Patience: 3, Rest: 0.1}
	type load = [2]float64
	s := Standing{Most: load{100, 100}}
	for i, tt := range []struct {
		load  load
		level int
		idle  [2]int
	}{
		{load{9.9, 0}, 0, [2]int{1, 1}},
		{load{0, 9.9}, 0, [2]int{2, 2}},
		{load{10, 0}, 0, [2]int{0, 3}}, // a tenth is load
		{load{0, 0}, 0, [2]int{1, 4}},
		{load{0, 0}, 0, [2]int{2, 5}},
		{load{0, 0}, 1, [2]int{3, 6}}, // both ways have rested three times
		{load{0, 0}, 2, [2]int{4, 7}},
		{load{0, 0}, 2, [2]int{5, 8}}, // the top
		{load{0, 50}, 1, [2]int{6, 0}},
		{load{0, 0}, 1, [2]int{7, 1}}, // neither rested enough nor at work: it stays
		{load{0, 0}, 1, [2]int{8, 2}},
		{load{0, 0}, 2, [2]int{9, 3}},
		{load{1000, 0}, 1, [2]int{0, 4}},
		{load{99, 0}, 1, [2]int{1, 5}}, // a tenth of the new highest load is more
		{load{100, 0}, 0, [2]int{0, 6}},
		{load{100, 0}, 0, [2]int{0, 7}},
	} {
		if s = l.Next(s, tt.load); s.Level != tt.level || s.Idle != tt.idle {
			t.Fatalf("interval %d, load %v: level %d, idle %v, want %d, %v", i, tt.load, s.Level, s.Idle, tt.level, tt.idle)
		}
	}
}

func TestCounters(t *testing.T) {
	var c Counters
	for i, tt := range []struct {
		now     [2]uint64
		elapsed time.Duration
		load    [2]float64
		ok      bool
	}{
		{[2]uint64{1e12, 7}, 0, [2]float64{}, false}, // since boot: no load of now
		{[2]uint64{1e12 + 100, 7}, 10 * time.Second, [2]float64{100, 0}, true},
		{[2]uint64{1e12 + 200, 8}, 20 * time.Second, [2]float64{50, 0.5}, true},
		{[2]uint64{1e12 + 300, 8}, time.Second, [2]float64{1000, 0}, true},
		{[2]uint64{5, 9}, 10 * time.Second, [2]float64{}, false}, // another device
		{[2]uint64{6, 9}, 10 * time.Second, [2]float64{1, 0}, true},
		{[2]uint64{7, 9}, 0, [2]float64{}, false}, // no time has passed
	} {
		if load, ok := c.Load(tt.now, tt.elapsed); load != tt.load || ok != tt.ok {
			t.Errorf("sample %d: %v %v, want %v %v", i, load, ok, tt.load, tt.ok)
		}
	}
}

func TestLoadAverage(t *testing.T) {
	for text, want := range map[string]float64{"0.20 0.18 0.12 1/80 11206\n": 0.2, "113.07 1 2 3/4 5\n": 113.07} {
		h, err := host.ParseArchive("m", []byte("fettle archive v1\n-- file /proc/loadavg --\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := LoadAverage(h); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	h, _ := host.ParseArchive("m", []byte("fettle archive v1\n-- file /proc/loadavg --\nbusy\n"))
	if _, err := LoadAverage(h); err == nil {
		t.Error("a load that is no number is taken")
	}
}
