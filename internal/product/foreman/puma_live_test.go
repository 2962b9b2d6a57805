package foreman

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

var (
	dropIn   = product.DropIn("foreman")
	override = product.Numbers(2, 2, 4)
)

// serve starts the application as its unit says, and waits for its threads.
func serve(t *testing.T) *product.Bench {
	t.Helper()
	product.Write(t, "foreman", override)
	product.StartPuma(t, "foreman")
	b := product.New(t, Puma)
	product.Eventually(t, "both workers serve", func() bool {
		i := b.Installed()
		return i.Answer("threads_running").Value == 4.0 && i.Answer("workers_serving").Value == 2.0
	})
	return b
}

// says is what Puma's own tool says of the running server.
func says(t *testing.T) (workers, threads int) {
	t.Helper()
	var s struct {
		Workers int `json:"workers"`
		Status  []struct {
			Last struct {
				Max int `json:"max_threads"`
			} `json:"last_status"`
		} `json:"worker_status"`
	}
	product.Eventually(t, "each worker has reported", func() bool {
		text := product.Command(t, "pumactl", "-S", product.Dir+"/tmp/puma.state", "stats")
		if err := json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &s); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		workers, threads = s.Workers, 0
		for _, w := range s.Status {
			if threads = w.Last.Max; threads == 0 {
				return false
			}
		}
		return true
	})
	return workers, threads
}

// Workers and threads of a Puma that Foreman's unit sets up, through the journal
// and back, while hosts register.
func TestForeman(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	product.Database(t, 20)
	b := serve(t)
	product.Register(t, "one.example.com")
	asked(t, b)

	b.Set([]string{"restart of puma " + dropIn}, "workers", "3", "foreman/threads_max", "5", "FOREMAN_PUMA_THREADS_MIN", "5")
	want := strings.NewReplacer("WORKERS=2", "WORKERS=3", "MIN=2", "MIN=5", "MAX=4", "MAX=5").Replace(override)
	product.Same(t, dropIn, want)
	product.Register(t, "two.example.com")
	if workers, threads := says(t); workers != 3 || threads != 5 {
		t.Errorf("Puma says %d workers of %d threads", workers, threads)
	}
	b.Running("workers", "3")
	b.Running("threads_min", "5")
	b.Running("threads_max", "5")
	b.Undo()
	product.Same(t, dropIn, override)
	product.Same(t, product.Config, product.ForemansConfig)
	b.Running("workers", "2")
	b.Running("threads_min", "2")
	b.Running("threads_max", "4")
	product.Register(t, "three.example.com")

	t.Run("refused", func(t *testing.T) {
		b := *b
		b.TB = t
		pid := b.Installed().(*pumaInstalled).Report.Process.PID
		b.Refused("a minimum of 9 threads and a maximum of 4 (neither reloaded nor restarted)", "threads_min", "9")
		b.Refused("want a whole number", "workers", "many")
		b.Refused("want a number from 0 to 1000", "workers", "1001")
		b.Refused("Puma does not read workers or threads from", "FOREMAN_ENV", "7")
		machine.Write(t, "/", map[string]string{product.Config: product.ForemansConfig + "threads (1, 2\n"})
		b.Refused(product.Config+" is not valid Ruby", "workers", "1")
		machine.Write(t, "/", map[string]string{product.Config: product.ForemansConfig})
		if got := b.Installed().(*pumaInstalled).Report.Process.PID; got != pid {
			t.Errorf("process %d, was %d", got, pid)
		}
		// The database has connections for four workers; the others end as they start.
		b.Refused("workers of Puma have ended", "workers", "6")
		product.Same(t, dropIn, override)
		b.Running("workers", "2")
		product.Register(t, "four.example.com")
	})
	if got := product.SQL(t, "register", "SELECT string_agg(name, ' ' ORDER BY id) FROM hosts"); got != "one.example.com two.example.com three.example.com four.example.com" {
		t.Errorf("registered: %s", got)
	}
}

// asked holds what is read against what Puma says.
func asked(t *testing.T, b *product.Bench) {
	t.Helper()
	workers, threads := says(t)
	i := b.Installed()
	for option, want := range map[string]string{"workers": fmt.Sprint(workers), "threads_max": fmt.Sprint(threads), "threads_min": "2"} {
		o := i.Option(option)
		if file, ok := o.File.Get(); !ok || file != want || !strings.HasPrefix(o.File.Source(), dropIn+":") {
			t.Errorf("%s is %q in %s (%s)", option, file, o.File.Source(), o.File.Unknown())
		}
		b.Running(option, want)
	}
	if i.Name() != "foreman" {
		t.Errorf("it is called %q", i.Name())
	}
	for input, want := range map[string]any{"version": "5.6.5", "workers_serving": 2.0, "threads_running": 4.0} {
		if a := i.Answer(input); a.Value != want {
			t.Errorf("%s: %+v, want %v", input, a, want)
		}
	}
	// Of the last report of each worker, in which a request that came at that moment waits.
	product.Eventually(t, "no request waits", func() bool { return b.Installed().Answer("backlog").Value == 0.0 })
	if a := i.Answer("pending_changes"); len(a.Value.([]string)) > 0 {
		t.Errorf("pending: %+v", a)
	}
	if v, ok := b.Archived().Option("workers").Running.Get(); !ok || v != "2" {
		t.Errorf("the archive says %q", v)
	}
	// A change without a reload.
	machine.Write(t, "/", map[string]string{dropIn: strings.Replace(override, "WORKERS=2", "WORKERS=4", 1)})
	if a := b.Installed().Answer("pending_changes"); fmt.Sprint(a.Value) != "[workers]" {
		t.Errorf("pending: %+v", a)
	}
	machine.Write(t, "/", map[string]string{dropIn: override})
}
