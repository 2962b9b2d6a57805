package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// sampleOptions holds how long the kernel's counters are sampled.
type sampleOptions struct {
	lasting time.Duration
	given   bool // --sample was specified
}

// maxSample limits --sample.
const maxSample = 10 * time.Minute

func (o *sampleOptions) flag(f *pflag.FlagSet) {
	f.DurationVar(&o.lasting, "sample", 2*time.Second, "how long to measure why this machine is slow; 0 skips this measurement (for timers and fleets); with --sample, a cause that it finds counts as a warning for --fail-on")
	cliutil.Reads(f, "sample", "2s", func(word string) error {
		d, err := time.ParseDuration(word)
		if err == nil && (d < 0 || d > maxSample || d > 0 && d < 100*time.Millisecond) {
			err = fmt.Errorf("want 0 (off), or 100ms to %s", maxSample)
		}
		return err
	})
}

// diagnose measures why the machine is slow. It does so if the whole machine is audited in a
// format with room for it, or with --sample. A copy has only averages since boot. The result
// may be nil.
func (a *app) diagnose(ctx context.Context, h *host.Host, asked []string, o checkOptions) (*slow.Diagnosis, error) {
	s := o.sample
	f := a.screen.Format
	whole := len(asked) == 0 && o.release == "" && slices.Contains(ui.Formats, f)
	switch {
	case a.root != "" && s.given && s.lasting > 0:
		return nil, ui.Without(errors.New("--sample measures this machine; leave out --sample or --root"), "--sample")
	case s.lasting == 0 || !whole && !s.given:
		return nil, nil
	case a.root != "":
		return slow.Diagnose(activity.SinceBoot(h)), nil
	}
	a.screen.Status("measuring for %s why this machine is slow (--sample 0 turns this off)", s.lasting)
	defer a.screen.Status("")
	sample, err := activity.Measure(ctx, h, s.lasting)
	if err != nil {
		return nil, err
	}
	return slow.Diagnose(sample), nil
}

// gateSample returns the error of --fail-on for a measured cause. Without --sample, measured
// causes never change the exit code.
func (o *checkOptions) gateSample(d *slow.Diagnosis) error {
	if !o.sample.given || d == nil || d.Reason == "" || o.failOn != "warn" && o.failOn != "unknown" {
		return nil
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("this machine is slow (%s), which counts as a warning; --fail-on is %s", d.Reason, o.failOn))
}
