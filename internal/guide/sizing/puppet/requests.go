package puppet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Requests are what a log says of a server's requests. Of Puppet's are those by
// indirector: "catalog", "file_metadata".
type Requests struct {
	Logs        []string // as they were named
	SpanSeconds float64  // from the first request to the last
	Count       uint64
	Seconds     float64 // of work; 0 where the log has no duration
	Longest     float64 // request, in seconds
	Of          map[string]Share
	Nodes       int // that asked for a catalog
	// Same are, by indirector, how often each thing of each environment was asked for.
	Same map[string][]uint64
	// Busiest is how many were at work at a time in the busiest minute, or in all that the
	// log spans where that is less, and BusiestRest how
	// many of what is about no file were in theirs.
	Busiest, BusiestRest float64
}

// Share is the part of an indirector.
type Share struct {
	Count   uint64
	Seconds float64
}

// AboutFiles are the indirectors of files: what static catalogs and a cache may answer.
var AboutFiles = []string{"file_metadata", "file_metadatas", "file_content"}

func (l *Requests) names() string { return strings.Join(l.Logs, ", ") }

// byTime are the indirectors, the one that took most time first.
func (l *Requests) byTime() []string {
	return slices.SortedFunc(maps.Keys(l.Of), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Of[b].Seconds, l.Of[a].Seconds), cmp.Compare(a, b))
	})
}

// share is the part of the time that went to some indirectors, 0 to 1.
func (l *Requests) share(names ...string) float64 {
	sum := 0.0
	for _, n := range names {
		sum += l.Of[n].Seconds
	}
	return sum / l.Seconds
}

// count is how many requests were for some indirectors.
func (l *Requests) count(names ...string) (n uint64) {
	for _, name := range names {
		n += l.Of[name].Count
	}
	return n
}

// hits is the least number of requests for some indirectors that a cache would have
// answered which keeps an answer for so long: each thing misses at most once in each
// stretch of that length, and once more.
func (l *Requests) hits(seconds float64, names ...string) (n uint64) {
	stretches := uint64(math.Ceil(l.SpanSeconds/seconds)) + 1
	for _, name := range names {
		for _, asked := range l.Same[name] {
			n += asked - min(asked, stretches)
		}
	}
	return n
}
