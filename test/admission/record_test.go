package admission

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"fettle.dev/fettle/test/admission/upstream"
)

var record = flag.Bool("record", false, "write what was compared into "+runsFile+", if all tests have passed")

// runsFile has the last run of each release; docs/kubernetes-releases.md is made of it.
const runsFile = "runs.json"

// run is one run of all tests against a release in which nothing differed.
type run struct {
	Release  string         `json:"release"`
	Module   string         `json:"module"`
	Date     string         `json:"date"`
	Compared map[string]int `json:"compared"`
}

var thisRun = run{Release: upstream.Release.String(), Compared: map[string]int{}}

// compared notes how many of a thing were compared, unless the test has failed.
func compared(t *testing.T, what string, n int) {
	if !t.Failed() {
		thisRun.Compared[what] = n
	}
}

// write puts the run into the file in the place of the release's last one; what was compared
// with the same module on the same day stays.
func (r run) write() error {
	mod, err := os.ReadFile(r.Release + ".mod")
	if os.IsNotExist(err) {
		mod, err = os.ReadFile("go.mod")
	}
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`k8s\.io/kubernetes v` + regexp.QuoteMeta(r.Release) + `\.\d+`).Find(mod)
	if m == nil {
		return fmt.Errorf("no module of Kubernetes %s", r.Release)
	}
	r.Module, r.Date = string(m), time.Now().UTC().Format(time.DateOnly)
	var all []run
	text, err := os.ReadFile(runsFile)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all = slices.DeleteFunc(all, func(other run) bool {
		if other.Module == r.Module && other.Date == r.Date {
			for what, n := range other.Compared {
				if _, again := r.Compared[what]; !again {
					r.Compared[what] = n
				}
			}
		}
		return other.Release == r.Release
	})
	all = append(all, r)
	slices.SortFunc(all, func(a, b run) int { return cmp.Compare(a.Release, b.Release) })
	if text, err = json.MarshalIndent(all, "", "\t"); err != nil {
		return err
	}
	return os.WriteFile(runsFile, append(text, '\n'), 0o644)
}
