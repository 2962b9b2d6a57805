package proofs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// routerRecord is the record of the experiment: docs/proofs/router/router.json.
type routerRecord struct {
	Schema  string           `json:"schema"` // fettle-proofs/router/v1
	Began   time.Time        `json:"began"`
	Ended   time.Time        `json:"ended"`
	Machine evidence.Machine `json:"machine"`
	// Programs are their versions, by name.
	Programs map[string]string `json:"programs"`
	// Load is what /proc/loadavg said at the beginning, over one minute.
	Load    float64 `json:"load_average"`
	Routes  int     `json:"routes"`
	Rounds  int     `json:"rounds"`
	Seed    uint64  `json:"seed"` // of the order of the cells in each round
	WarmUpS float64 `json:"warm_up_s"`
	// Samples are in the order in which they were measured.
	Samples []routerSample `json:"samples"`
	// Discarded are measurements that were not what they claim to be, and were made again.
	Discarded []string `json:"discarded"`
}

const (
	routerSchema = "fettle-proofs/router/v1"
	routerRounds = 3
	// routerSeed is fixed: the order is no matter of taste.
	routerSeed = 111
	// routerSeconds is how long a cell takes, warm-up included; FETTLE_PROOFS_SECONDS has
	// another length, for a look at how it goes.
	routerSeconds = 9
)

// routerCells are all ways to use the router.
func routerCells() (all []routerCell) {
	for _, mode := range []string{"none", "edge", "passthrough", "re-encrypt"} {
		for _, closing := range []bool{false, true} {
			for _, resume := range []bool{true, false} {
				for _, size := range []int{page1k, page8k} {
					if mode != "none" || !resume {
						all = append(all, routerCell{mode, closing, resume, size})
					}
				}
			}
		}
	}
	return all
}

// TestRouter measures table 11.1 of the OpenShift 4.4 guide again: the cost of a request for
// HAProxy, with 100 routes of each sort, connections that are kept or not, TLS sessions that are
// taken up or not, and pages of two sizes.
func TestRouter(t *testing.T) {
	asked(t)
	if !inside(t, false, nil) {
		return
	}
	seconds := float64(routerSeconds)
	if text := os.Getenv("FETTLE_PROOFS_SECONDS"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil || seconds < 1 || seconds > 60 {
			t.Fatalf("FETTLE_PROOFS_SECONDS=%s: want 1 to 60", text)
		}
	}
	all := time.Duration(seconds * float64(time.Second))
	warmUp := all / 4
	b := newRouterBench(t)
	r := &routerRecord{Schema: routerSchema, Began: time.Now().UTC().Round(time.Second), Machine: evidence.Fingerprint(host.Live()), Programs: routerPrograms(t), Load: loadAverage(t),
		Routes: routes, Rounds: routerRounds, Seed: routerSeed, WarmUpS: warmUp.Seconds(), Discarded: []string{}}
	cells, order := routerCells(), rand.New(rand.NewPCG(routerSeed, 0))
	for round := 1; round <= routerRounds; round++ {
		for _, i := range order.Perm(len(cells)) {
			f := b.measure(cells[i], warmUp, all-warmUp)
			for {
				wrong := append(f.wrong(), f.unsettled()...)
				if len(wrong) == 0 {
					break
				}
				r.Discarded = append(r.Discarded, fmt.Sprintf("round %d, %s: %s", round, cells[i], strings.Join(wrong, "; ")))
				t.Log(r.Discarded[len(r.Discarded)-1])
				if len(r.Discarded) > routerRounds {
					t.Fatal("too many measurements are not what they claim to be: no record is written")
				}
				f = b.measure(cells[i], warmUp, all-warmUp)
			}
			f.Round = round
			t.Log(f)
			r.Samples = append(r.Samples, f.routerSample)
		}
	}
	r.Ended = time.Now().UTC().Round(time.Second)
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(out, "router", "router.json"), append(text, '\n'))
}

// String is one line for whoever watches.
func (f *routerFound) String() string {
	return fmt.Sprintf("%-40s %6.0f requests/s, %6.1f us of HAProxy each; HAProxy %3.0f %%, nginx %3.0f %%, generator %3.0f %%, others %3.0f %% of a processor", f.routerCell, float64(f.Requests)/f.WindowS, 1e6*f.HAProxyCPUS/float64(f.Requests),
		100*f.HAProxyCPUS/f.WindowS, 100*f.NginxCPUS/f.WindowS, 100*f.GeneratorCPUS/f.WindowS, 100*f.OthersCPUS/f.WindowS)
}

// routerPrograms asks the programs for their versions.
func routerPrograms(t *testing.T) map[string]string {
	t.Helper()
	said := func(pattern string, argv ...string) string {
		text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if err != nil || m == nil {
			t.Fatalf("%v: %v: %s", argv, err, text)
		}
		return string(m[1])
	}
	return map[string]string{
		"HAProxy": said(`HAProxy version (\S+)`, "haproxy", "-v"),
		"OpenSSL": said(`Running on OpenSSL version : OpenSSL (\S+)`, "haproxy", "-vv"),
		"nginx":   said(`nginx/(\S+)`, "nginx", "-v"),
		"Go":      strings.TrimPrefix(runtime.Version(), "go"),
	}
}

func loadAverage(t *testing.T) (minute float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &minute); err != nil {
		t.Fatal(err)
	}
	return minute
}

// TestRouterWorks: the experiment measures what it says, with the real HAProxy and one
// short cell of each sort of route.
func TestRouterWorks(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	b := newRouterBench(t)
	routerPrograms(t)
	for _, c := range []routerCell{
		{"none", false, false, page8k},
		{"edge", true, true, page1k},
		{"passthrough", true, false, page1k},
		{"re-encrypt", true, true, page8k},
	} {
		f := b.measure(c, 500*time.Millisecond, time.Second)
		t.Log(f)
		for _, w := range f.wrong() {
			t.Errorf("%s: %s", c, w)
		}
	}
}
