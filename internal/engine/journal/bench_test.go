package journal

import (
	"fmt"
	"testing"
	"time"

	"fettle.dev/fettle/internal/setting"
)

// BenchmarkParse reads the journal of 20 switches of 40 values each: every
// command does that at its start.
func BenchmarkParse(b *testing.B) {
	j, err := Lock(b.TempDir()+"/state", Options{BootID: "boot"})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for range 20 {
		tx, err := j.Begin(Begin{Kind: Tune, BootID: "boot", User: "root", Time: time.Now(), Selection: []byte(`{"profiles":["throughput-performance"]}`)})
		if err != nil {
			b.Fatal(err)
		}
		var entries []Before
		var outcomes []Outcome
		for i := range 40 {
			entries = append(entries, Before{
				Setting: setting.Setting{Kind: "sysfs", Name: fmt.Sprintf("/sys/devices/system/cpu/cpufreq/policy%d/scaling_governor", i)},
				Before:  setting.Text("powersave"), Want: setting.Text("performance"), Lifetime: setting.Runtime,
				Reason: setting.Reason{File: "/usr/lib/tuned/throughput-performance/tuned.conf", Line: 13, Text: "governor=performance"},
			})
			outcomes = append(outcomes, Outcome{N: i + 1, After: setting.Text("performance")})
		}
		if err := j.Stage(tx, entries); err != nil {
			b.Fatal(err)
		}
		if err := j.Commit(Commit{ID: tx.ID, Result: ResultDone, Outcomes: outcomes}); err != nil {
			b.Fatal(err)
		}
	}
	text, err := readFile(j)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := parse(text, "boot"); err != nil {
			b.Fatal(err)
		}
	}
}
