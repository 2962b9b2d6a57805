package search

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/testkit/noise"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestSMAC searches the same surfaces, with the same noise and the same number of runs, as SMAC
// (PyPI smac), and compares the true gains of both winners. SMAC has no proof, so this search goes
// without one too.
func TestSMAC(t *testing.T) {
	testkitroot.Nightly(t, "SMAC takes seconds for each search")
	testkitroot.Real(t, "needs SMAC")
	top := testkitroot.Module(t)
	path, err := exec.Command(filepath.Join(top, "test/pypi"), "smac").Output()
	if err != nil {
		testkitroot.Missing(t, "cannot install smac: %v", err)
	}
	python := strings.TrimSpace(string(path))
	const searches, knobs, runs = 24, 10, 60
	for _, model := range []noise.Model{noise.Models[0], noise.Models[2], noise.Models[5]} {
		t.Run(model.Name, func(t *testing.T) {
			var here, there []float64
			worse := map[string]int{}
			for i := range searches {
				s := newSurface(rand.New(rand.NewPCG(uint64(i), 7)), knobs, false)
				f := simulate(s, model, runs, runs/3, uint64(i))
				c, _ := s.cost(bySMAC(t, python, s, model, runs, uint64(i)))
				here, there = append(here, f.gain/-s.possible()), append(there, -c/-s.possible())
				if f.gain < 0 {
					worse["here"]++
				}
				if c > 0 {
					worse["SMAC"]++
				}
			}
			t.Logf("share of the possible gain: %.2f here (%d worse than the default), %.2f by SMAC (%d)", stats.Mean(here), worse["here"], stats.Mean(there), worse["SMAC"])
			if stats.Mean(here) < stats.Mean(there) {
				t.Error("SMAC gains more with the same number of runs")
			}
		})
	}
}

// bySMAC returns the point with which SMAC ends.
func bySMAC(t *testing.T, python string, s *surface, model noise.Model, runs int, seed uint64) (best Point) {
	t.Helper()
	c := exec.Command(python, "testdata/search_smac.py")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	space := map[string]any{"runs": runs, "seed": seed, "defaults": s.Default()}
	var levels []int
	for _, k := range s.Knobs {
		levels = append(levels, len(k.Levels))
	}
	space["levels"] = levels
	if err := json.NewEncoder(in).Encode(space); err != nil {
		t.Fatal(err)
	}
	next, n := model.Begin(rand.New(rand.NewPCG(seed, 1))), 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text, last := strings.CutPrefix(lines.Text(), "best ")
		var p Point
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if last {
			best = p
			continue
		}
		cost, _ := s.cost(p)
		fmt.Fprintln(in, cost+next(n))
		n++
	}
	if err := c.Wait(); err != nil || best == nil {
		t.Fatal(err)
	}
	return best
}
