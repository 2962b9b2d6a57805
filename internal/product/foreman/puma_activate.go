package foreman

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// patience is the TimeoutSec= of Foreman's unit: Foreman takes minutes to load on a busy machine.
var patience = 5 * time.Minute

func newControl() *product.Control {
	return &product.Control{
		Unit: func(h *host.Host, main string) string {
			if in, err := belongs(h, main); err == nil {
				return in.unit.Name
			}
			return ""
		},
		Reads: func(h *host.Host, main string) []string {
			if in, err := belongs(h, main); err == nil {
				return in.files
			}
			return nil
		},
		UnitFiles: true,
		Running:   pumaProcess,
		Check:     starts,
		Ready:     pumaReady(),
		Start:     start,
		Patience:  patience,
	}
}

// pumaProcess returns an instance's main process, even while it is starting.
func pumaProcess(ctx context.Context, h *host.Host, main string) (product.Process, error) {
	in, err := belongs(h, main)
	if err != nil {
		return product.Process{}, err
	}
	r, err := runningOf(ctx, h, in)
	if err != nil {
		return product.Process{}, err
	}
	return r.Process, nil
}

// starts returns an error for a configuration with which Puma would not start (lib/puma/dsl.rb,
// threads). It also covers changes that an administrator made since the last start.
func starts(ctx context.Context, h *host.Host, main string) error {
	in, err := belongs(h, main)
	if err != nil {
		return err
	}
	for _, f := range in.files {
		if !host.HasProgram(h, "ruby") {
			break
		}
		if _, err := host.Run(ctx, h, "ruby", "-c", f); err != nil { // only the syntax
			return fmt.Errorf("%s is not valid Ruby: %w", f, err)
		}
	}
	value := map[string]int{"threads_min": 0, "threads_max": 5}
	for name := range value {
		t := in.option(name, in.get)
		if t.unknown != "" {
			return nil // Puma reports that itself
		}
		if t.text != "" {
			value[name], _ = strconv.Atoi(t.text)
		}
	}
	switch least, most := value["threads_min"], value["threads_max"]; {
	case most < 1:
		return fmt.Errorf("puma does not start with a maximum of %d threads", most)
	case least > most:
		return fmt.Errorf("puma does not start with a minimum of %d threads and a maximum of %d", least, most)
	}
	return nil
}

// pumaReady returns a function that waits until all workers accept requests and a client's request
// succeeds. It fails if workers keep ending right after their start, which Puma would repeat
// forever.
func pumaReady() func(ctx context.Context, h *host.Host, main string) error {
	var mu sync.Mutex
	var process int           // the main process
	workers := map[int]bool{} // all of its workers so far
	return func(ctx context.Context, h *host.Host, main string) error {
		in, err := belongs(h, main)
		if err != nil {
			return product.Final(err)
		}
		r, err := runningOf(ctx, h, in)
		if err != nil {
			return err
		}
		if r.Version == "" {
			return errors.New("Puma has not finished starting")
		}
		mu.Lock()
		if process != r.Process.PID {
			process = r.Process.PID
			clear(workers)
		}
		for _, w := range r.Workers {
			workers[w.PID] = true
		}
		gone := len(workers) - len(r.Workers)
		mu.Unlock()
		if gone > 5 {
			return product.Final(fmt.Errorf("%d workers of Puma have ended since its start", gone))
		}
		want := 1
		if o := in.option("workers", in.get); o.text != "" && o.text != "0" {
			want, _ = strconv.Atoi(o.text)
		}
		if serving := r.serving(); serving < want {
			return fmt.Errorf("only %d of %d Puma workers accept requests", serving, want)
		}
		return answers(ctx, r.Binds)
	}
}

// answers requests a page from each address on which Puma listens. For an address with TLS, an
// accepted connection is enough.
func answers(ctx context.Context, binds []string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, b := range binds {
		if strings.HasPrefix(b, "ssl:") {
			c, err := dial(ctx, b)
			if err != nil {
				return err
			}
			c.Close()
			continue
		}
		head, _, err := request(ctx, b, "GET /")
		if err != nil {
			return err
		}
		if f := strings.Fields(head); len(f) > 1 && strings.HasPrefix(f[1], "5") {
			return fmt.Errorf("%s answers %s", b, head)
		}
	}
	return nil
}

// start returns the unit's command, for machines without a running systemd.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	in, err := belongs(h, main)
	if err != nil {
		return product.Start{}, err
	}
	s, err := product.OfUnit(h, in.unit)
	s.Dir = in.dir
	return s, err
}
