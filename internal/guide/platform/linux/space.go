package linux

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// space is how full the machine's own file systems are, and how fast they fill: that
// takes two measurements.
var space = platform.Source{
	Prefix: "space",
	Sets:   []string{"space"},
	Inputs: inputs("space",
		fact.Input{Name: "*.size_bytes", Type: fact.Number, Unit: "bytes"},
		fact.Input{Name: "*.free_bytes", Type: fact.Number, Unit: "bytes", Doc: "what an ordinary user may still fill"},
		fact.Input{Name: "*.grown_bytes", Type: fact.Number, Unit: "bytes", Doc: "what is in it more than at the earlier measurement (--baseline); may be below zero"},
		fact.Input{Name: "*.days", Type: fact.Number, Doc: "days since the earlier measurement, at least one; 0 without any"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		all, err := fact.FileSystems(s.Host)
		if err != nil {
			t.Rest(host.Why("how full the file systems are", err))
			return t
		}
		for _, f := range all {
			t.Add("space", f.Mount)
			in, at := "space."+f.Mount+".", "statfs "+f.Mount
			t.Give(in+"size_bytes", float64(f.SizeBytes), at)
			t.Give(in+"free_bytes", float64(f.FreeBytes), at)
			grown, days, why := grown(f, s.Earlier, s.Host.Clock.Now())
			if why != "" {
				t.Put(fact.Answer{Value: 0.0, At: at, LowerBound: why}, in+"grown_bytes")
				t.Give(in+"days", 0.0, at)
				continue
			}
			since := s.Earlier.From + ", " + s.Earlier.Time.UTC().Format("2006-01-02 15:04 UTC")
			t.Give(in+"grown_bytes", grown, since)
			t.Give(in+"days", days, since)
		}
		return t
	},
}

// leastSpan is what lies between two measurements at least: logs are rotated and
// backups made once a day.
const leastSpan = 24 * time.Hour

// grown compares a file system with what it was; why says why that cannot be done.
func grown(now fact.FileSystem, then *platform.Earlier, at time.Time) (bytes, days float64, why string) {
	if then == nil {
		return 0, 0, "it was measured once only; --baseline with an earlier audit, fact archive or sosreport of this machine says how fast it fills"
	}
	span := at.Sub(then.Time)
	i := slices.IndexFunc(then.FileSystems, func(f fact.FileSystem) bool { return f.Mount == now.Mount })
	switch {
	case i < 0:
		return 0, 0, then.From + " does not say how full it was"
	case then.Time.IsZero() || at.IsZero():
		return 0, 0, "when " + then.From + " or this was measured is not known"
	case span < leastSpan:
		return 0, 0, fmt.Sprintf("%s is from %.1f hours before, and it takes a day at least to say how fast it fills", then.From, span.Hours())
	}
	return float64(now.UsedBytes() - then.FileSystems[i].UsedBytes()), span.Hours() / 24, ""
}
