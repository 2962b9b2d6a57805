package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/profile"
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

// TestWordsAsTuneD compares each word with TuneD 2.20's parser (plugins/base.py _option_bool,
// utils/commands.py get_bool). A word that a reader would understand differently gets TuneD's value
// and a warning. All other words stay unchanged.
func TestWordsAsTuneD(t *testing.T) {
	getBool := func(v string) string {
		switch strings.ToUpper(strings.TrimSpace(v)) {
		case "Y", "YES", "T", "TRUE":
			return "1"
		case "N", "NO", "F", "FALSE":
			return "0"
		}
		return v
	}
	surprises := 0
	for _, c := range []struct {
		words Words
		tuned func(string) bool
	}{
		{OnlyTrue, func(v string) bool { v = strings.ToLower(v); return v == "true" || v == "1" }},
		{YesWords, func(v string) bool { return getBool(v) == "1" }},
		{NoWords, func(v string) bool { return getBool(v) != "0" }},
	} {
		for _, word := range strings.Fields("1 0 true True TRUE false yes YES no on off y n t f T F enabled disabled") {
			o, warning := c.words.Read(profile.Option{Name: "x", Value: word})
			meant, _ := Truth(word)
			got, ok := Truth(o.Value)
			if !ok || got != c.tuned(word) || (warning != "") != (meant != got) || warning == "" && o.Value != word {
				t.Errorf("%v: %s becomes %s (%q), TuneD reads %t", c.words, word, o.Value, warning, c.tuned(word))
			}
			if warning != "" {
				surprises++
			}
		}
		for _, other := range []string{"", "5", "-1", "force", "${x}"} {
			if o, warning := c.words.Read(profile.Option{Name: "x", Value: other}); o.Value != other || warning != "" {
				t.Errorf("%q becomes %q (%q)", other, o.Value, warning)
			}
		}
	}
	if surprises < 10 {
		t.Errorf("only %d words surprise", surprises)
	}
	p := Plugin{Options: []Option{{Name: "dynamic", Words: OnlyTrue}, {Name: "other"}}}
	var warned []string
	u := profile.Unit{Name: "disk", Options: []profile.Option{{Name: "dynamic", Value: "yes"}, {Name: "other", Value: "yes"}}}
	read := p.ReadUnit(u, func(_ profile.Pos, w string) { warned = append(warned, w) })
	if read.Options[0].Value != "0" || read.Options[1].Value != "yes" || u.Options[0].Value != "yes" || len(warned) != 1 || !slices.ContainsFunc(warned, func(w string) bool { return strings.HasPrefix(w, "[disk] dynamic=yes") }) {
		t.Errorf("read %v, warned %q", read.Options, warned)
	}
}

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
