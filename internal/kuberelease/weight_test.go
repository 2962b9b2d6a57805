package kuberelease

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestWeights compares the formulas with the functions of nine kubelets, four
// versions of opencontainers/cgroups and runc 1.2.8 (test/kubelet-releases
// TestWeights runs them).
func TestWeights(t *testing.T) {
	text, err := os.ReadFile("testdata/weights.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	head := strings.Fields(lines[0])
	curve := []string{"cgroups-0.0.4", "cgroups-0.0.7", "cgroups-0.1.0"}
	compared := 0
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		shares, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || len(words) != len(head) {
			t.Fatal(line)
		}
		for i, name := range head[1:] {
			f := Linear
			if slices.Contains(curve, name) {
				f = Curve
			} else if strings.HasPrefix(name, "kubelet-") {
				f = KubeletFormula
			}
			weight, err := strconv.ParseUint(words[i+1], 10, 64)
			if err != nil || f.Weight(shares) != weight {
				t.Errorf("%s: %d shares are %d, and not %d", name, shares, weight, f.Weight(shares))
			}
			if least, most, ok := f.SharesRange(weight); !ok || shares < least || shares > most {
				t.Errorf("%s: %d is from %d to %d shares", name, weight, least, most)
			}
			if !slices.Contains(FormulasFor(shares, weight), f) {
				t.Errorf("%s: %d of %d", name, weight, shares)
			}
			compared++
		}
	}
	if compared < 6000 {
		t.Errorf("%d were compared", compared)
	}
}

func TestShares(t *testing.T) {
	for milli, want := range map[int64]uint64{0: 2, 1: 2, 2: 2, 3: 3, 100: 102, 250: 256, 1000: 1024, 256000: 262144, 900000: 262144} {
		if got := Shares(milli); got != want {
			t.Errorf("%dm: %d", milli, got)
		}
	}
}

func TestRuntimeFormula(t *testing.T) {
	for _, tt := range []struct {
		program, version string
		want             Formula
	}{
		{"runc", "1.1.5+ds1-1+deb12u1", Linear}, {"runc", "1.3.1", Linear}, {"runc", "1.3.2", Curve}, {"runc", "1.4.0-rc.1", Curve}, {"runc", "v1.5.3", Curve},
		{"crun", "1.22", Linear}, {"crun", "1.23", Curve}, {"crun", "1.23.1", Curve}, {"crun", "1.8.1-1+deb12u1", Linear},
		{"youki", "1.0.0", ""}, {"runc", "", ""}, {"runc", "1", ""}, {"runc", "devel", ""},
	} {
		if got, ok := RuntimeFormula(tt.program, tt.version); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s %s: %q", tt.program, tt.version, got)
		}
	}
}

// TestDetectFormulas: random nodes whose pods may have larger init containers.
// The pair of formulas is found or left open, never wrong.
func TestDetectFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 5))
	found, all := map[[2]Formula]int{}, 0
	for range 500 {
		fp, fc := Formulas[r.IntN(2)], Formulas[r.IntN(2)]
		var pods []PodWeights
		for range 3 + r.IntN(20) {
			milli, p := int64(0), PodWeights{Containers: []uint64{1}} // the sandbox
			for range 1 + r.IntN(3) {
				m := []int64{0, 10, 50, 100, 200, 250, 500, 1000, 1500, 2000, 4000, int64(r.IntN(6000))}[r.IntN(12)]
				milli += m
				p.Containers = append(p.Containers, fc.Weight(Shares(m)))
			}
			if r.IntN(8) == 0 {
				milli += int64(r.IntN(4000))
			}
			p.Pod = fp.Weight(Shares(milli))
			pods = append(pods, p)
		}
		all++
		switch w := DetectFormulas(pods); {
		case w.Pods == "" && w.Same && fp != fc:
			t.Errorf("%s %s: said to be the same: %v of %v", fp, fc, w, pods)
		case w.Pods == "":
		case w.Pods != fp || w.Containers != fc:
			t.Errorf("%s %s: %+v of %v", fp, fc, w, pods)
		default:
			found[[2]Formula{fp, fc}]++
		}
	}
	t.Logf("%d nodes: %v", all, found)
	for _, n := range found {
		if n < 25 {
			t.Error("a pair is rarely found")
		}
	}
	if len(found) != 4 {
		t.Error("a pair is never found")
	}
}
