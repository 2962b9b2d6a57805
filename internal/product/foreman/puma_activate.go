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

// patience is the TimeoutSec= of Foreman's unit: it loads for minutes on a busy machine.
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

// pumaProcess returns the main process of an instance, even if it has not finished starting.
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

// starts refuses a configuration with which Puma would not start (lib/puma/dsl.rb, threads),
// including changes made by hand since its start.
func starts(ctx context.Context, h *host.Host, main string) error {
	in, err := belongs(h, main)
	if err != nil {
		return err
	}
	for _, f := range in.files {
		if !host.HasProgram(h, "ruby") {
			break
		}
		if _, err := host.Run(ctx, h, "ruby", "-c", f); err != nil { // checks the syntax only
			return fmt.Errorf("%s is not valid Ruby: %w", f, err)
		}
	}
	value := map[string]int{"threads_min": 0, "threads_max": 5}
	for name := range value {
		t := in.option(name, in.get)
		if t.unknown != "" {
			return nil // it reports that itself
		}
		if t.text != "" {
			value[name], _ = strconv.Atoi(t.text)
		}
	}
	switch least, most := value["threads_min"], value["threads_max"]; {
	case most < 1:
		return fmt.Errorf("puma does not start with a maximum of %d threads", most)
	case least > most:
		return fmt.Errorf("puma does not start with %d threads at least and %d at most", least, most)
	}
	return nil
}

// pumaReady waits until all workers accept requests, and for a response as a client gets it: an
// application that fails for every request is not healthy. It counts the workers of each main
// process, to fail if they end right after their start: Puma starts others without end.
func pumaReady() func(ctx context.Context, h *host.Host, main string) error {
	var mu sync.Mutex
	var process int           // the main one
	workers := map[int]bool{} // all its workers so far
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
			return errors.New("startup not finished")
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
			return product.Final(fmt.Errorf("%d of its workers have ended since its start", gone))
		}
		want := 1
		if o := in.option("workers", in.get); o.text != "" && o.text != "0" {
			want, _ = strconv.Atoi(o.text)
		}
		if serving := r.serving(); serving < want {
			return fmt.Errorf("only %d of %d workers accept requests", serving, want)
		}
		return answers(ctx, r.Binds)
	}
}

// answers requests a page from each address that it listens on. An address with TLS only has to
// accept the connection.
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

// start returns the command of the unit, for machines on which systemd does not run.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	in, err := belongs(h, main)
	if err != nil {
		return product.Start{}, err
	}
	s, err := product.OfUnit(h, in.unit)
	s.Dir = in.dir
	return s, err
}
