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
	"fettle.dev/fettle/internal/product/conf"
)

// teller restarts a Puma: its workers and threads are fixed when it starts.
type teller struct {
	*product.Control
	mu sync.Mutex
	// seen are the workers that were seen of a main process.
	seen map[int]map[int]bool
}

// patience is the TimeoutSec= of Foreman's unit: it loads for minutes on a busy
// machine.
var patience = 5 * time.Minute

func newTeller() *teller {
	t := &teller{seen: map[int]map[int]bool{}}
	t.Control = &product.Control{
		Name: "puma",
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
		Mains:     func(h *host.Host) ([]string, error) { return conf.Mains(pumaMains(h)) },
		Running:   pumaProcess,
		Check:     starts,
		Ready:     t.ready,
		Start:     start,
		Patience:  patience,
	}
	return t
}

// pumaProcess is the main one of an instance, also one that has not finished
// starting.
func pumaProcess(ctx context.Context, h *host.Host, main string) (product.Process, error) {
	in, err := belongs(h, main)
	if err != nil {
		return product.Process{}, err
	}
	i, err := pumaLookAt(ctx, h, in)
	if err != nil {
		return product.Process{}, err
	}
	return i.run.Process, nil
}

// starts refuses what Puma would not start with (lib/puma/dsl.rb, threads), also
// what somebody has done to its configuration since it was started.
func starts(ctx context.Context, h *host.Host, main string) error {
	in, err := belongs(h, main)
	if err != nil {
		return err
	}
	for _, f := range in.files {
		if !host.HasProgram(h, "ruby") {
			break
		}
		if _, err := host.Run(ctx, h, "ruby", "-c", f); err != nil { // runs nothing of it
			return fmt.Errorf("%s is not what Ruby can read: %w", f, err)
		}
	}
	value := map[string]int{"threads_min": 0, "threads_max": 5}
	for name := range value {
		t := in.option(name, in.get)
		if t.unknown != "" {
			return nil // it will say so itself
		}
		if t.text != "" {
			value[name], _ = strconv.Atoi(t.text)
		}
	}
	switch least, most := value["threads_min"], value["threads_max"]; {
	case most < 1:
		return fmt.Errorf("puma does not start with %d threads at most", most)
	case least > most:
		return fmt.Errorf("puma does not start with %d threads at least and %d at most", least, most)
	}
	return nil
}

// ready waits for all workers to take requests, and for an answer as a client gets
// it. An application that fails for every request is not healthy.
func (t *teller) ready(ctx context.Context, h *host.Host, main string) error {
	in, err := belongs(h, main)
	if err != nil {
		return product.Final(err)
	}
	i, err := pumaLookAt(ctx, h, in)
	if err != nil {
		return err
	}
	if i.run.Version == "" {
		return errors.New("it has not finished starting")
	}
	if err := t.stays(i); err != nil {
		return err
	}
	want := 1
	if o := in.option("workers", in.get); o.text != "" && o.text != "0" {
		want, _ = strconv.Atoi(o.text)
	}
	serving := 0
	for _, w := range i.run.Workers {
		if w.Serving {
			serving++
		}
	}
	if serving < want {
		return fmt.Errorf("%d of %d workers take requests", serving, want)
	}
	return answers(ctx, i.run.Binds)
}

// stays notes the workers of a main process, and fails where they end as soon as
// they are started: Puma starts them again without end.
func (t *teller) stays(i *pumaInstalled) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	pids := t.seen[i.run.Process.PID]
	if pids == nil {
		pids = map[int]bool{}
		t.seen = map[int]map[int]bool{i.run.Process.PID: pids}
	}
	for _, w := range i.run.Workers {
		pids[w.PID] = true
	}
	if gone := len(pids) - len(i.run.Workers); gone > 5 {
		return product.Final(fmt.Errorf("its workers do not stay: %d have ended since it was started", gone))
	}
	return nil
}

// answers asks each address that it listens on; an encrypted one only has to take
// the connection.
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

// start is what the unit does, where no systemd runs that could.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	in, err := belongs(h, main)
	if err != nil {
		return product.Start{}, err
	}
	s, err := product.OfUnit(h, in.unit)
	s.Dir = in.dir
	return s, err
}
