package trend

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"fettle.dev/fettle/internal/ui"
)

// OpenMetrics writes a report as OpenMetrics 1.0, without timestamps, suitable for node_exporter's
// textfile collector.
func (r *Report) OpenMetrics(out io.Writer, now time.Time) error {
	w := bufio.NewWriter(out)
	family := func(name, help string, value func(*Series) (float64, bool)) {
		fmt.Fprintf(w, "# HELP fettle_trend_%s %s\n# TYPE fettle_trend_%s gauge\n", name, help, name)
		for i := range r.Series {
			s := &r.Series[i]
			if v, has := value(s); has {
				fmt.Fprintf(w, "fettle_trend_%s{series=%s,of=%s,machine=%s,unit=%s} %s\n", name, ui.OpenMetricsLabel(s.Name), ui.OpenMetricsLabel(s.Of), ui.OpenMetricsLabel(s.Machine), ui.OpenMetricsLabel(s.Unit), ui.OpenMetricsValue(v))
			}
		}
	}
	family("points", "Measurements of the series.", func(s *Series) (float64, bool) { return float64(len(s.Points)), true })
	family("level", "Present level, in the unit of the series.", func(s *Series) (float64, bool) { return s.last(), true })
	family("worse", "1 if the present level is worse than the earlier one.", func(s *Series) (float64, bool) {
		if s.Verdict == CannotTell {
			return 0, false
		}
		if s.Verdict == Worse {
			return 1, true
		}
		return 0, true
	})
	family("effect_ratio", "Improvement of the present level over the earlier one.", func(s *Series) (float64, bool) {
		if s.Compared != nil && s.Relative {
			return s.Compared.Effect, true
		}
		return 0, false
	})
	family("change_time_seconds", "Time of the latest change for the better or the worse, whichever the level is, in seconds since 1970.", func(s *Series) (float64, bool) {
		if t := s.latest(); !t.IsZero() {
			return float64(t.Unix()), true
		}
		return 0, false
	})
	fmt.Fprintf(w, "# HELP fettle_trend_time_seconds Time of the last fettle runs trend, in seconds since 1970.\n# TYPE fettle_trend_time_seconds gauge\nfettle_trend_time_seconds %s\n# EOF\n", ui.OpenMetricsValue(float64(now.UnixMilli())/1000))
	return w.Flush()
}
