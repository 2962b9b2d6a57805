package prometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// configTest returns an error if promtool check config rejects the files.
func configTest(ctx context.Context, h *host.Host, main string) error {
	if !host.HasProgram(h, "promtool") {
		return nil // promtool is in the package; without it the server itself rejects a bad file
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{"promtool", "check", "config", main}})
	if err != nil || res.ExitCode == 0 {
		return err
	}
	for line := range strings.Lines(string(res.Stderr) + string(res.Stdout)) {
		if _, what, ok := strings.Cut(line, "FAILED:"); ok {
			return fmt.Errorf("promtool check config: %s", strings.TrimSpace(what))
		}
	}
	return fmt.Errorf("promtool check config: %s", strings.TrimSpace(string(res.Stderr)))
}

// ready waits until the server answers queries and has applied its files.
func ready(ctx context.Context, h *host.Host, main string) error {
	in, err := of(h, main)
	if err != nil {
		return product.Final(err)
	}
	a, err := question(ctx, h, in)
	switch {
	case err != nil:
		return err
	case a.Silent != "":
		return errors.New(a.Silent)
	case a.Ready != "200 OK":
		return fmt.Errorf("/-/ready: %s", a.Ready)
	}
	for _, p := range parameters {
		t, ok, _ := in.option(p.Name)
		if v, unknown := a.value(p.Name); ok && unknown == "" && v != "" && !slices.Contains(byHand, p.Name) && !parameters.Same(p.Name, v, t.text) {
			return fmt.Errorf("the new value of %s is not in force", p.Name)
		}
	}
	return nil
}

// keepsSamples returns an error for a change that would delete samples, which undo cannot restore.
func keepsSamples(h *host.Host, key, value string) error {
	if key != "storage.tsdb.retention.time" && key != "storage.tsdb.retention.size" {
		return nil
	}
	p := parameters.Named(key)
	want, err := p.Read(value)
	if err != nil {
		return err
	}
	if key == retentionTime && want == 0.0 {
		want, _ = p.Read(p.Default) // the default applies, or no time limit if a size limit is set
	}
	all, err := instances(h)
	if err != nil {
		return err
	}
	for _, in := range all {
		t, ok, _ := in.option(key)
		now := t.text
		a, err := question(context.Background(), h, in)
		switch {
		case errors.Is(err, product.ErrStopped), host.Unknown(err):
		case err != nil:
			return err
		case key == "storage.tsdb.retention.size":
			// No size limit, or one above the present size, deletes nothing.
			blocks, known := a.Values["prometheus_tsdb_storage_blocks_bytes"]
			used := blocks + a.Values["prometheus_tsdb_wal_storage_size_bytes"]
			if want.(float64) == 0 || known && want.(float64) > used {
				continue
			}
			return fmt.Errorf("%s is less than the %.0f bytes in use; Prometheus would delete the oldest samples for good", value, used)
		default:
			if text, unknown := a.value(key); unknown == "" {
				now, ok = text, text != ""
			}
		}
		if !ok {
			now = p.Default
		}
		have, err := p.Read(now)
		if err != nil {
			continue
		}
		less := want.(float64) < have.(float64) || have.(float64) == 0 // 0 means no limit
		if key == retentionSize {
			less = want.(float64) > 0 && less
		}
		if less {
			if have.(float64) == 0 {
				now = "0, no limit,"
			}
			return fmt.Errorf("%s is shorter than the current %s; Prometheus would delete the oldest samples for good", value, now)
		}
	}
	return nil
}
