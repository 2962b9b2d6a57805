package disk

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/testkit/root"
)

// byHand are job files for the same measurements as a user would write them, with fio's defaults
// except where a cell needs other values.
var byHand = map[string]string{
	"stream-read":    "rw=read\nbs=1m\niodepth=8\ndirect=1",
	"stream-write":   "rw=write\nbs=1m\niodepth=8\ndirect=1",
	"block-4k":       "rw=read\nbs=4k\ndirect=1",
	"block-16k":      "rw=read\nbs=16k\ndirect=1",
	"block-64k":      "rw=read\nbs=64k\ndirect=1",
	"block-256k":     "rw=read\nbs=256k\ndirect=1",
	"block-1m":       "rw=read\nbs=1m\ndirect=1",
	"block-4m":       "rw=read\nbs=4m\ndirect=1",
	"depth-1":        "rw=randread\nbs=4k\ndirect=1",
	"depth-2":        "rw=randread\nbs=4k\niodepth=2\ndirect=1",
	"depth-4":        "rw=randread\nbs=4k\niodepth=4\ndirect=1",
	"depth-8":        "rw=randread\nbs=4k\niodepth=8\ndirect=1",
	"depth-16":       "rw=randread\nbs=4k\niodepth=16\ndirect=1",
	"depth-32":       "rw=randread\nbs=4k\niodepth=32\ndirect=1",
	"randrw-qd1":     "rw=randrw\nrwmixread=80\nbs=4k\ndirect=1",
	"randrw-qd32":    "rw=randrw\nrwmixread=80\nbs=4k\niodepth=32\ndirect=1",
	"etcd":           "rw=write\nbs=8000\nfdatasync=1",
	"buffered-read":  "rw=read\nbs=4k",
	"buffered-write": "rw=write\nbs=4k\nend_fsync=1",
	"cached-read":    "rw=read\nbs=4k\npre_read=1",
}

// turns measures a cell with fettle or with the job file, depending on the arm.
type turns struct {
	bench *Bench
	place *Place
	cell  Cell
	time  time.Duration
	job   string // what the hand writes
	hand  string // and in which directory
	byUs  bool
	seed  uint64

	ours, all time.Duration // CPU time of fettle, and of all that it has started
}

func (w *turns) Apply(context.Context) error            { w.byUs = true; return nil }
func (w *turns) Undo(context.Context) error             { w.byUs = false; return nil }
func (w *turns) Holds(context.Context, prove.Arm) error { return nil }

func (w *turns) Measure(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	w.seed++
	value, err := 0.0, error(nil)
	if w.byUs {
		value, err = w.us(ctx)
	} else {
		value, err = w.them(ctx)
	}
	return prove.Measurement{Values: prove.Values{"value": value}}, err
}

func (w *turns) us(ctx context.Context) (float64, error) {
	began, cpu := time.Now(), used()
	v, err := w.bench.Measure(ctx, w.place, w.cell, w.time, w.seed, nil)
	w.ours, w.all = w.ours+used()-cpu, w.all+time.Since(began)
	return v.Value, err
}

// used returns the CPU time of this process, without its child processes.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (w *turns) them(ctx context.Context) (float64, error) {
	engine, size, runtime := "psync", w.place.SizeBytes, fmt.Sprintf("time_based\nruntime=%dms\n", w.time.Milliseconds())
	switch {
	case w.cell.Depth > 1:
		engine = w.bench.Queue
	case w.cell.Name == "etcd":
		engine = "sync"
		if err := os.RemoveAll(filepath.Join(w.hand, "etcd.0.0")); err != nil {
			return 0, err
		}
	case w.cell.Once:
		runtime = ""
	}
	job := filepath.Join(w.hand, "job.fio")
	// One file for both: of two files one may lie where the device, or the host that it is
	// on, reads it sooner, and that is no difference of the jobs. An etcd of its own lays
	// out its file anew.
	where := "filename=" + procPath(w.place.data)
	if w.cell.Name == "etcd" {
		where = "directory=" + w.hand
	}
	text := fmt.Sprintf("[%s]\n%s\nsize=%d\nioengine=%s\n%s%s\n", w.cell.Name, where, size, engine, runtime, w.job)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, w.bench.Engine.Path, "--output-format=json", "--eta=never", job).Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	var doc struct {
		Jobs []map[string]json.RawMessage `json:"jobs"`
	}
	_, body, _ := strings.Cut(string(out), "{")
	if err := json.Unmarshal([]byte("{"+body), &doc); err != nil {
		return 0, err
	}
	value := 0.0
	for _, side := range []string{"read", "write"} {
		var s struct {
			Bytes float64 `json:"bw_bytes"`
			IOPS  float64 `json:"iops"`
		}
		if err := json.Unmarshal(doc.Jobs[0][side], &s); err != nil {
			return 0, err
		}
		if w.cell.Unit == "1/s" {
			value += s.IOPS
		} else {
			value += s.Bytes / 1e6
		}
	}
	if w.cell.Unit != "ms" {
		return value, nil
	}
	var s struct {
		Lat struct {
			Percentile map[string]float64 `json:"percentile"`
		} `json:"lat_ns"`
	}
	err = json.Unmarshal(doc.Jobs[0]["sync"], &s)
	return s.Lat.Percentile["99.000000"] / 1e6, err
}

// against measures a cell alternately with fettle and with a job file, by the method of fettle
// prove, and reports whether the results differ by more than 5 %.
func against(t *testing.T, c Cell, job string) (differ bool, cpu float64) {
	b, p := realBench(t, t.TempDir())
	if c.Once {
		p.SizeBytes = coldWrite // as much as in a run
	}
	prepare(t, b, p)
	w := &turns{bench: b, place: p, cell: c, job: job, time: 250 * time.Millisecond, hand: t.TempDir()}
	switch {
	case c.Cache == Log:
		w.time = 2 * time.Second
	case c.Once:
		w.time = 0 // once over the file, as in a run
	}
	d := prove.Defaults(prove.Metric{Name: "value", Unit: c.Unit, More: c.More()})
	// All cells together find a difference that is not there in one night of twenty; and
	// all blocks are measured, because the first verdict is of any difference at all.
	d.Margin, d.Alpha, d.Least, d.Most, d.Washout, d.Seed = 0.05, 0.05/float64(len(cells())), 24, 24, 0, uint64(time.Now().UnixNano())>>11
	course, ending, err := (&prove.Experiment{Design: d, Change: w, Workload: w, Clock: host.Live().Clock, Record: func(prove.Sample) error { return nil }}).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, share := course.Verdict(), w.ours.Seconds()/w.all.Seconds()
	t.Logf("%s: %s; seed %d; fettle's own CPU %.2f %%", ending, v.Text, d.Seed, 100*share)
	i := v.Interval
	return i != nil && i[0]*i[1] > 0 && math.Min(math.Abs(i[0]), math.Abs(i[1])) > d.Margin, share
}

// TestOracle compares every cell with a job file: with a margin of 5 % it is neither faster nor
// slower, and fettle itself takes less than 1 % of a CPU. A job with other block sizes is detected
// as different.
func TestOracle(t *testing.T) {
	root.Nightly(t, "takes half an hour")
	for _, c := range cells() {
		t.Run(c.Name, func(t *testing.T) {
			differ, cpu := against(t, c, byHand[c.Name])
			if differ {
				t.Error("not what a job by hand measures")
			}
			if cpu > 0.01 {
				t.Errorf("fettle itself takes %.1f %% of a CPU", 100*cpu)
			}
		})
	}
	t.Run("another job", func(t *testing.T) {
		c, _ := Find("block-4k")
		if differ, _ := against(t, c, byHand["block-256k"]); !differ {
			t.Error("blocks of 256 KiB are taken for such of 4 KiB")
		}
	})
	if len(byHand) != len(cells()) {
		t.Errorf("%d jobs by hand for %d cells", len(byHand), len(cells()))
	}
}
