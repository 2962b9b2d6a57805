package linux

import (
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

func TestGrown(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	here := fact.FileSystem{Mount: "/var", SizeBytes: 2000, FreeBytes: 500}
	at := func(before time.Duration, was ...fact.FileSystem) *platform.Earlier {
		return &platform.Earlier{From: "then.json", Time: now.Add(-before), FileSystems: was}
	}
	for about, c := range map[string]struct {
		then  *platform.Earlier
		grown float64
		days  float64
		why   string
	}{
		"once":                    {nil, 0, 0, "no earlier measurement"},
		"a week":                  {at(7*24*time.Hour, fact.FileSystem{Mount: "/var", SizeBytes: 2000, FreeBytes: 900}), 400, 7, ""},
		"it was made larger":      {at(7*24*time.Hour, fact.FileSystem{Mount: "/var", SizeBytes: 1000, FreeBytes: 100}), 600, 7, ""},
		"cleaned up":              {at(24*time.Hour, fact.FileSystem{Mount: "/var", SizeBytes: 2000, FreeBytes: 100}), -400, 1, ""},
		"another one":             {at(7*24*time.Hour, fact.FileSystem{Mount: "/", SizeBytes: 2000, FreeBytes: 100}), 0, 0, "does not contain the usage of this file system"},
		"an hour":                 {at(time.Hour, fact.FileSystem{Mount: "/var", SizeBytes: 2000, FreeBytes: 900}), 0, 0, "then.json is only 1.0 hours older"},
		"from the future":         {at(-48*time.Hour, fact.FileSystem{Mount: "/var", SizeBytes: 2000, FreeBytes: 900}), 0, 0, "then.json is newer than this measurement"},
		"an archive without time": {&platform.Earlier{From: "then.txt", FileSystems: []fact.FileSystem{here}}, 0, 0, "is unknown"},
	} {
		grown, days, why := grown(here, c.then, now)
		if grown != c.grown || days != c.days || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v in %v days, %q; want %v in %v, %q", about, grown, days, why, c.grown, c.days, c.why)
		}
	}
}
