package trend

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/stats"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// generated makes series with known changes by the generators of otava-test-data, and prints them
// with the changes that Otava finds. Otava's options are its defaults.
const generated = `
import json, sys
import numpy as np
from otava.analysis import compute_change_points
from otava_test_data.generators.basic import noise_normal, step_function, regression_fix
from otava_test_data.generators.advanced import multiple_changes

def ar1(length, lag1, sigma, seed):
    rng, x, last = np.random.default_rng(seed), [], 0.0
    for _ in range(length):
        last = lag1 * last + (1 - lag1 * lag1) ** 0.5 * rng.normal()
        x.append(100 + sigma * last)
    return x

def cases(seed):
    def known(s): return list(s.data), s.get_change_point_indices()
    yield ("no change, 30", list(noise_normal(30, sigma=2, seed=seed).data), [])
    yield ("no change, 100", list(noise_normal(100, sigma=2, seed=seed).data), [])
    yield ("no change, 300", list(noise_normal(300, sigma=2, seed=seed).data), [])
    yield ("no change, 100, lag1 0.5", ar1(100, 0.5, 2, seed), [])
    yield ("5 % step, 50 + 50", *known(step_function(100, 100, 105, 50, 2, seed)))
    yield ("10 % step, 45 + 5", *known(step_function(50, 100, 110, 45, 2, seed)))
    yield ("3 % step, 100 + 100", *known(step_function(200, 100, 103, 100, 2, seed)))
    yield ("2 % step, 50 + 50", *known(step_function(100, 100, 102, 50, 2, seed)))
    yield ("5 % step, 20 + 5", *known(step_function(25, 100, 105, 20, 2, seed)))
    yield ("8 % regression of 10, fixed", *known(regression_fix(100, 100, 108, regression_start=60, regression_duration=10, sigma=2, seed=seed)))
    yield ("three steps of 6 %, 160", *known(multiple_changes(160, [100, 106, 112, 118], [40, 80, 120], 2, seed)))

for seed in range(int(sys.argv[1])):
    for name, values, truth in cases(seed):
        values = [float(v) for v in values]
        found, _ = compute_change_points(values, window_len=50, max_pvalue=0.001, min_magnitude=0.0)
        print(json.dumps({"name": name, "values": values, "truth": [int(i) for i in truth], "otava": [int(c.index) for c in found]}))
`

// score counts how found changes differ from the true ones.
type score struct {
	series, truth, missed, wrong int
	alarmed                      int // series without a change in which one was found
	distance                     float64
}

// near is the largest distance at which a found change is a true one.
const near = 3

func (s *score) add(truth, found []int) {
	s.series++
	s.truth += len(truth)
	left := map[int]bool{}
	for _, f := range found {
		left[f] = true
	}
	for _, want := range truth {
		best := -1
		for f := range left {
			if d := max(f-want, want-f); d <= near && (best < 0 || d < max(best-want, want-best)) {
				best = f
			}
		}
		if best < 0 {
			s.missed++
			continue
		}
		delete(left, best)
		s.distance += float64(max(best-want, want-best))
	}
	s.wrong += len(left)
	if len(truth) == 0 && len(found) > 0 {
		s.alarmed++
	}
}

// TestOtava compares with Apache Otava 0.8 on the same series: fettle misses no more changes, and has
// fewer false ones. The figures are those of docs/runs-trend.md.
func TestOtava(t *testing.T) {
	testkitroot.Nightly(t, "2,200 series, with Apache Otava")
	path, err := exec.Command(filepath.Join(testkitroot.Module(t), "test/pypi"), "otava", "--print").Output()
	if err != nil {
		t.Fatal(err)
	}
	python := strings.TrimSpace(string(path))
	if _, err := os.Stat(python); err != nil {
		testkitroot.Missing(t, "Otava is not in the cache; run: test/pypi otava")
	}
	const seeds = "200"
	out, err := exec.Command(python, "-c", generated, seeds).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ours, theirs := map[string]*score{}, map[string]*score{}
	var all, allTheirs score
	for line := range strings.Lines(string(out)) {
		var c struct {
			Name         string
			Values       []float64
			Truth, Otava []int
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if ours[c.Name] == nil {
			names = append(names, c.Name)
			ours[c.Name], theirs[c.Name] = &score{}, &score{}
		}
		var found []int
		for _, x := range stats.Changes(c.Values, Alpha).Changes {
			found = append(found, x.At)
		}
		for s, at := range map[*score][]int{ours[c.Name]: found, &all: found, theirs[c.Name]: c.Otava, &allTheirs: c.Otava} {
			s.add(c.Truth, at)
		}
	}
	for _, name := range append(names, "all") {
		a, b := ours[name], theirs[name]
		if name == "all" {
			a, b = &all, &allTheirs
		}
		for who, s := range map[string]*score{"fettle": a, "Otava": b} {
			t.Logf("%-28s %-6s %4d series, %4d changes, missed %4d, false %4d, series with a false one %3d, mean distance %.2f", name, who, s.series, s.truth, s.missed, s.wrong, s.alarmed, s.distance/float64(max(1, s.truth-s.missed)))
		}
	}
	if all.series != 2200 || all.wrong > allTheirs.wrong || all.missed > allTheirs.missed+allTheirs.truth/20 {
		t.Errorf("fettle %+v, Otava %+v", all, allTheirs)
	}
	for _, name := range []string{"no change, 30", "no change, 100", "no change, 300"} {
		if s := ours[name]; s.alarmed > 17 { // 5 % of 200, and 2.3 standard deviations
			t.Errorf("%s: %d of %d series have a false change", name, s.alarmed, s.series)
		}
	}
}
