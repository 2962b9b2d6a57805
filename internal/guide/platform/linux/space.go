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

// space provides the usage of the machine's file systems, and their growth since an earlier
// measurement.
var space = platform.Source{
	Prefix: "space",
	Sets:   []string{"space"},
	Inputs: inputs("space",
		fact.Input{Name: "*.size_bytes", Type: fact.Number, Unit: "bytes"},
		fact.Input{Name: "*.free_bytes", Type: fact.Number, Unit: "bytes", Doc: "available to ordinary users"},
		fact.Input{Name: "*.grown_bytes", Type: fact.Number, Unit: "bytes", Doc: "growth since the earlier measurement (--baseline); may be negative"},
		fact.Input{Name: "*.days", Type: fact.Number, Doc: "days since the earlier measurement, at least one; 0 without one"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		all, err := fact.FileSystems(s.Host)
		if err != nil {
			t.Rest(host.Why("the usage of the file systems", err))
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

// leastSpan is the minimum time between two measurements: logs are rotated and backups made once a day.
const leastSpan = 24 * time.Hour

// grown returns the growth since an earlier measurement, or the reason why it is unknown.
func grown(now fact.FileSystem, then *platform.Earlier, at time.Time) (bytes, days float64, why string) {
	if then == nil {
		return 0, 0, "no earlier measurement; to see growth, use --baseline with an earlier audit, fact archive or sosreport of this machine"
	}
	span := at.Sub(then.Time)
	i := slices.IndexFunc(then.FileSystems, func(f fact.FileSystem) bool { return f.Mount == now.Mount })
	switch {
	case i < 0:
		return 0, 0, then.From + " does not contain the usage of this file system"
	case then.Time.IsZero() || at.IsZero():
		return 0, 0, "the time of " + then.From + " or of this measurement is unknown"
	case span < 0:
		return 0, 0, then.From + " is newer than this measurement"
	case span < leastSpan:
		return 0, 0, fmt.Sprintf("%s is only %.1f hours older; at least a day is needed to measure growth", then.From, span.Hours())
	}
	return float64(now.UsedBytes() - then.FileSystems[i].UsedBytes()), span.Hours() / 24, ""
}
