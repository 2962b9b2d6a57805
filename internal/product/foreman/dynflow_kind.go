package foreman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// dynflowMains returns the files of the units that start at boot. If broken is set, it includes
// unreadable files.
func dynflowMains(h *host.Host, broken bool) ([]conf.Instance, error) {
	all, err := dynflowInstances(h)
	var out []conf.Instance
	for _, in := range all {
		if in.err == nil || broken {
			out = append(out, conf.Instance{Name: in.name, Main: in.file})
		}
	}
	return out, err
}

// byFile returns the instance whose file is main.
func byFile(h *host.Host, main string) (*dynflowInstance, error) {
	all, err := dynflowInstances(h)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(in *dynflowInstance) bool { return in.file == main }); i >= 0 {
		return all[i], nil
	}
	return nil, fmt.Errorf("%s: no unit that starts at boot reads this file", main)
}

// dynflowMost is the maximum number of threads that fettle accepts.
const dynflowMost = 100

func checkDynflow(key, value string) error {
	if key != ":concurrency" && key != "concurrency" {
		return fmt.Errorf("%w: fettle can set only concurrency in this file", setting.ErrNotSettable)
	}
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > dynflowMost {
		return fmt.Errorf("%q: want a number of threads from 1 to %d", value, dynflowMost)
	}
	return nil
}

func unitOf(h *host.Host, main string) string {
	if in, err := byFile(h, main); err == nil {
		return in.unit
	}
	return ""
}

func dynflowProcess(ctx context.Context, h *host.Host, main string) (product.Process, error) {
	in, err := byFile(h, main)
	if err != nil {
		return product.Process{}, err
	}
	r, err := sidekiq(ctx, h, in)
	if err != nil {
		return product.Process{}, err
	}
	return r.Process, nil
}

// ready waits until Sidekiq's title shows that it accepts jobs, with the number of threads in its
// file.
func ready(ctx context.Context, h *host.Host, main string) error {
	in, err := byFile(h, main)
	if err != nil {
		return err
	}
	r, err := sidekiq(ctx, h, in)
	switch {
	case err != nil:
		return err
	case r.Threads == 0:
		return errors.New("the process has not finished starting")
	}
	if a, ok := in.setting(); ok && (conf.YAML{}).Unquote(a.Literal) != strconv.Itoa(r.Threads) {
		return product.Final(fmt.Errorf("the process runs with %d threads instead of the %s in %s", r.Threads, a.Literal, in.file))
	}
	return nil
}
