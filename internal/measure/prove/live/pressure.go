package live

import (
	"context"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
)

// stalled is a metric from the kernel's pressure stall information (Documentation/accounting/psi.rst).
type stalled struct {
	host    *host.Host
	name    string // of the metric
	counter string
	begun   float64
}

// least is the smallest share in percent. Values are compared by ratio, and smaller ones do not
// differ from nothing.
const least = 0.01

func (s *Set) pressure(text, rest string) (prove.Metric, error) {
	var counter string
	switch rest {
	case "cpu", "cpu:some", "memory:some", "io:some", "memory:full", "io:full":
		counter = rest
	case "memory", "io":
		counter = rest + ":some"
	default:
		return prove.Metric{}, fmt.Errorf("%q: want pressure:cpu, pressure:memory or pressure:io, the last two also with :full", text)
	}
	if counter == "cpu" {
		counter = "cpu:some"
	}
	what, share := counter[:len(counter)-len(":some")], counter[len(counter)-len("some"):]
	s.sources = append(s.sources, &stalled{host: s.Host, name: text, counter: "pressure." + what + "." + share + "_s"})
	return prove.Metric{Name: text, Unit: "%"}, nil
}

func (s *stalled) now() (float64, error) {
	v, known := prove.Counters(s.host)[s.counter]
	if !known {
		return 0, fmt.Errorf("%s: this kernel does not report pressure (/proc/pressure); it needs CONFIG_PSI, or psi=1 on the kernel command line", s.name)
	}
	return v, nil
}

func (s *stalled) Check(context.Context) error { _, err := s.now(); return err }

func (s *stalled) Begin() (err error) {
	s.begun, err = s.now()
	return err
}

func (s *stalled) Read(_ context.Context, lasted time.Duration) (prove.Measurement, error) {
	v, err := s.now()
	return prove.Measurement{Values: prove.Values{s.name: max(least, 100*(v-s.begun)/lasted.Seconds())}}, err
}
