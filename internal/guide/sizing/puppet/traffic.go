package puppet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Traffic summarizes a request log. Puppet's own requests are counted by indirector, such as
// "catalog" or "file_metadata".
type Traffic struct {
	Logs        []string // as the user named them
	SpanSeconds float64  // from the first request to the last
	Count       uint64
	Seconds     float64 // total duration of requests; 0 if the log has no durations
	Longest     float64 // duration of the longest request in seconds
	Of          map[string]Share
	Nodes       int // number that requested a catalog
	// Same has, by indirector, the number of requests for each object of each environment.
	Same map[string][]uint64
	// Busiest is the mean number of requests in progress in the busiest minute, or in the whole
	// log if it is shorter. BusiestRest is the same for requests other than for files.
	Busiest, BusiestRest float64
}

// Share is the number and the total time of an indirector's requests.
type Share struct {
	Count   uint64
	Seconds float64
}

// AboutFiles are the indirectors for files. Static catalogs and a cache may make these requests
// unnecessary.
var AboutFiles = []string{"file_metadata", "file_metadatas", "file_content"}

func (l *Traffic) names() string { return strings.Join(l.Logs, ", ") }

// byTime returns the indirectors by total time, longest first.
func (l *Traffic) byTime() []string {
	return slices.SortedFunc(maps.Keys(l.Of), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Of[b].Seconds, l.Of[a].Seconds), cmp.Compare(a, b))
	})
}

// share returns the named indirectors' share of the time, from 0 to 1.
func (l *Traffic) share(names ...string) float64 {
	sum := 0.0
	for _, n := range names {
		sum += l.Of[n].Seconds
	}
	return sum / l.Seconds
}

// count returns the number of requests for the named indirectors.
func (l *Traffic) count(names ...string) (n uint64) {
	for _, name := range names {
		n += l.Of[name].Count
	}
	return n
}

// hits returns the minimum number of requests for the named indirectors that a cache would have
// answered. seconds is the cache's lifetime. An object misses at most once per lifetime, plus
// once.
func (l *Traffic) hits(seconds float64, names ...string) (n uint64) {
	stretches := uint64(math.Ceil(l.SpanSeconds/seconds)) + 1
	for _, name := range names {
		for _, asked := range l.Same[name] {
			n += asked - min(asked, stretches)
		}
	}
	return n
}
