package placement

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// TestChooseLikeNumad compares with answers of the real numad -w; TestNumadAnswers asks it again.
func TestChooseLikeNumad(t *testing.T) {
	text, err := os.ReadFile("testdata/numad.txt")
	if err != nil {
		t.Fatal(err)
	}
	machines := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rooms, mb, cpu, want := readMachine(t, line)
		machines++
		if got := unit.CPUs(Choose(rooms, mb, cpu)...).String(); got != want {
			t.Errorf("%s: nodes %s", line, got)
		}
	}
	if machines != 200 {
		t.Errorf("%d machines", machines)
	}
}

func TestChooseEdges(t *testing.T) {
	two := []Room{
		{Node: 2, TotalMB: 1000, FreeMB: 900, TotalCPU: 200, FreeCPU: 200, Distances: []int{10, 20}},
		{Node: 5, TotalMB: 1000, FreeMB: 900, TotalCPU: 200, FreeCPU: 200, Distances: []int{20, 10}},
	}
	for _, c := range []struct {
		rooms   []Room
		mb, cpu int
		want    string
	}{
		{nil, 100, 100, ""},
		{two, 0, 0, "2"},               // of equal nodes the first
		{two, 801, 100, "2,5"},         // 100 MB stay free on a node that is filled
		{two, 800, 100, "2"},           //
		{two, 100, 201, "2,5"},         // not enough CPU on one
		{two, 1 << 40, 1 << 20, "2,5"}, // more than there is
		{[]Room{{Node: 1, Distances: []int{10}}}, 100, 100, "1"}, // nothing free, nothing in all
	} {
		if got := unit.CPUs(Choose(c.rooms, c.mb, c.cpu)...).String(); got != c.want {
			t.Errorf("%d MB, %d CPU: nodes %s, want %s", c.mb, c.cpu, got, c.want)
		}
	}
}

// readMachine reads a line of testdata/numad.txt.
func readMachine(t *testing.T, line string) (rooms []Room, mb, cpu int, answer string) {
	t.Helper()
	parts := strings.Split(strings.TrimSpace(line), " | ")
	if len(parts) != 4 {
		t.Fatal(line)
	}
	if _, err := fmt.Sscan(parts[0], &cpu, &mb); err != nil {
		t.Fatal(line, err)
	}
	distances := strings.Fields(parts[2])
	for i, node := range strings.Fields(parts[1]) {
		r := Room{Node: i}
		if _, err := fmt.Sscanf(node, "%d/%d/%d/%d", &r.TotalMB, &r.FreeMB, &r.TotalCPU, &r.FreeCPU); err != nil {
			t.Fatal(line, err)
		}
		for d := range strings.SplitSeq(distances[i], ",") {
			var n int
			if _, err := fmt.Sscan(d, &n); err != nil {
				t.Fatal(line, err)
			}
			r.Distances = append(r.Distances, n)
		}
		rooms = append(rooms, r)
	}
	return rooms, mb, cpu, parts[3]
}

func TestRoomsOfAMachine(t *testing.T) {
	h, err := host.OpenRoot(fourNodes)
	if err != nil {
		t.Fatal(err)
	}
	// CPU 0 was idle for a quarter of the time, CPU 1 all of it; CPU 2 was not read.
	after := map[string]activity.CPUTime{"cpu0": {BusyS: 3, IdleS: 1}, "cpu1": {IdleS: 4}}
	rooms, notes, err := Rooms(h, nil, after)
	if err != nil || len(rooms) != 4 || len(notes) != 1 {
		t.Fatal(rooms, notes, err)
	}
	for i, want := range []Room{{FreeCPU: 25, TotalCPU: 100}, {FreeCPU: 100, TotalCPU: 100}, {FreeCPU: 0, TotalCPU: 100}, {FreeCPU: 0, TotalCPU: 0}} {
		r := rooms[i]
		if r.Node != i || r.FreeCPU != want.FreeCPU || r.TotalCPU != want.TotalCPU || r.FreeMB < 400 || r.FreeMB > r.TotalMB || len(r.Distances) != 4 {
			t.Errorf("%+v", r)
		}
	}
	a := advice(rooms, 300, 150)
	if a.Nodes != "0-3" || a.Fits || a.Headline.Figures["free_cpus"] != 1.25 {
		t.Errorf("%+v", a)
	}
	if a := advice(rooms, 300, 100); a.Nodes != "1" || !a.Fits || !a.Rooms[1].Chosen || a.Rooms[0].Chosen {
		t.Errorf("%+v", a)
	}
}

// An unknown number of threads per core is not taken for 1 in silence.
func TestUnknownThreads(t *testing.T) {
	files := node("0", "0-1", "1048576", "10 20")
	maps.Copy(files, node("1", "2-3", "1048576", "20 10"))
	rooms, notes, err := Rooms(machine.Copy(t, files), nil, nil)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "threads per core") || rooms[0].TotalCPU != 200 {
		t.Errorf("%+v, %q, %v", rooms, notes, err)
	}
}

func TestParseNeed(t *testing.T) {
	for word, want := range map[string][2]int{"4": {0, 400}, "1.5:8192": {8192, 150}, "2:8GiB": {8192, 200}, "0:5": {5, 0}} {
		if mb, cpu, err := ParseNeed(word); err != nil || mb != want[0] || cpu != want[1] {
			t.Errorf("%s: %d MiB, %d, %v", word, mb, cpu, err)
		}
	}
	for _, word := range []string{"", "x", "-1", "1:", "1:-5", "1:x", "NaN", "1e9", "Inf", "1:9999999999999999999", "0", "0:0", "0.001"} {
		if mb, cpu, err := ParseNeed(word); err == nil {
			t.Errorf("%q: %d MiB, %d", word, mb, cpu)
		}
	}
}
