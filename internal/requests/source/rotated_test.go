package source

import (
	"math/rand/v2"
	"slices"
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

func TestNames(t *testing.T) {
	for file, want := range map[string][]string{
		"/l/access.log":                              nil,
		"/l/access.log.1":                            {"/l/access.log"},
		"/l/access.log.12.gz":                        {"/l/access.log.12", "/l/access.log"},
		"/l/access.log.1.xz":                         {"/l/access.log.1", "/l/access.log"},
		"/l/access.log-20261120.zst":                 {"/l/access.log-20261120", "/l/access.log"},
		"/l/access_log-20261120":                     {"/l/access_log"},
		"/l/access.log-2026-11-20.bz2":               {"/l/access.log-2026-11-20", "/l/access.log"},
		"/l/access.log-20261120-1795132800":          {"/l/access.log"},
		"/l/access-20261120.log":                     {"/l/access.log"},
		"/l/access-20261120.log.gz":                  {"/l/access-20261120.log", "/l/access.log"},
		"/l/access.1.log":                            {"/l/access.log"},
		"/l/puppetserver-access-2026-11-20.0.log.gz": {"/l/puppetserver-access-2026-11-20.0.log", "/l/puppetserver-access.log"},
		"/l/other.log.gz":                            {"/l/other.log"},
		"/l/v1.2":                                    {"/l/v1"},
		".1":                                         nil,
	} {
		if got := logformat.NamesBeforeRotation(file); got[0] != file || !slices.Equal(got[1:], want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// TestOlder tests that the parts of a log are in the order of writing, whichever program rotates
// them.
func TestOlder(t *testing.T) {
	want := []string{
		"/l/access.log.12.gz", "/l/access.log.2.zst", "/l/access.log.1", "/l/access.log-20251231.gz", "/l/access.log-20260101-1795132800", "/l/access.log-20260102", "/l/access.log",
		"/l/puppetserver-access-2026-11-20.0.log.gz", "/l/puppetserver-access-2026-11-20.10.log.gz", "/l/puppetserver-access-2026-11-21.0.log", "/l/puppetserver-access.log",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		got := slices.Clone(want)
		r.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortStableFunc(got, older)
		if !slices.Equal(got, want) {
			t.Fatalf("%q", got)
		}
	}
}
