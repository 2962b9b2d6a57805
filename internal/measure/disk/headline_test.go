package disk

import (
	"slices"
	"testing"

	"fettle.dev/fettle/internal/evidence"
)

// TestHeadline tests that a headline names the uses of each directory, the figure and limit that
// decide, the spread of the repeats, and, without a verdict, the next measurement.
func TestHeadline(t *testing.T) {
	cell := func(name, unit string, value, spread float64, doubts ...Doubt) Result {
		return Result{Cell: Cell{Name: name, Unit: unit}, Value: value, SyncsPS: 700, Spread: spread, Samples: make([]Sample, 3), Doubts: doubts}
	}
	read, noise := cell("stream-read", "MB/s", 894, 0.04), Doubt{Noisy, "the 3 repeats differ by 88 %"}
	of := func(role Role, results ...Result) Measured {
		p := Place{Directory: "/srv", Role: role}
		return Measured{Place: p, Results: results, Verdict: judge(&p, results)}
	}
	for name, c := range map[string]struct {
		e    Evidence
		want []string
		next []string
	}{
		"fast": {Evidence{Places: []Measured{of("", read, cell("etcd", "ms", 2.1, 0.09))}}, []string{
			"/srv: fast enough for Pulp, PostgreSQL and etcd",
			"stream read 853 MiB/s, limit at least 60 MiB/s (Red Hat, disk speed of Satellite); fdatasync p99 2.1 ms, limit below 10 ms (etcd FAQ); synced writes 700 1/s, limit at least 50 1/s (etcd, hardware)",
			"each figure is the median of 3 repeats; the repeats of etcd differ most, by 9 %"}, nil},
		"slow": {Evidence{Plan: Plan{Mode: Quick}, Places: []Measured{of("", read, cell("etcd", "ms", 14.2, 0.09))}}, []string{
			"/srv: too slow for etcd, slow for PostgreSQL, fast enough for Pulp",
			"fdatasync p99 14.2 ms, limit below 10 ms (etcd FAQ); stream read 853 MiB/s, limit at least 60 MiB/s (Red Hat, disk speed of Satellite); synced writes 700 1/s, limit at least 50 1/s (etcd, hardware)",
			"each figure is the median of 3 repeats; the repeats of etcd differ most, by 9 %"}, []string{"bench", "disk", "--sustained", "/srv"}},
		"noisy": {Evidence{Plan: Plan{Mode: Quick}, Places: []Measured{of(Etcd, read, cell("etcd", "ms", 14.2, 0.88, noise))}}, []string{
			"/srv: no verdict for etcd",
			"fdatasync p99 and synced writes: the 3 repeats differ by 88 %",
			"each figure is the median of 3 repeats; the repeats of etcd differ most, by 88 %"}, []string{"bench", "disk", "--full", "/srv"}},
		"two, cut": {Evidence{Cut: &evidence.Interruption{Done: 5, Planned: 60, Of: "measurements"}, Places: []Measured{of(Pulp, read), of(Etcd, cell("etcd", "ms", 14.2, 0.09))}}, []string{
			"interrupted after 5 of 60 measurements: /srv: fast enough for Pulp; /srv: too slow for etcd",
			"/srv fdatasync p99 14.2 ms, limit below 10 ms (etcd FAQ)",
			"each figure is the median of 3 repeats; the repeats of etcd differ most, by 9 %"}, []string{"bench", "disk", "/srv", "/srv"}},
		"classic": {Evidence{Places: []Measured{of("", cell("classic-read", "MB/s", 512, 0.04))}}, []string{
			"/srv: no published limit applies to these tests", "classic-read 512 MB/s", "each figure is the median of 3 repeats; the repeats of classic-read differ most, by 4 %"}, nil},
	} {
		c.e.Sum("")
		if got := c.e.Headline().Lines; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if _, next := c.e.Next(); !slices.Equal(next, c.next) {
			t.Errorf("%s: next %q, want %q", name, next, c.next)
		}
	}
}
