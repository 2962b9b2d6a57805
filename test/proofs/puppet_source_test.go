package proofs

// The figures of the article (Oliver Hookins, Puppetmaster Performance Tuning with mod_mem_cache,
// 2012) that stand next to those of the record.

// sourceRequests are its "Statistics by resource type" of about 60 hours before, and those
// after, of a time that it does not name: how many, and the average in milliseconds.
var sourceRequests = map[string]struct {
	count         int
	before, after float64
}{
	"GET file_metadata":  {7_129_326, 13.58, 8.4615},
	"GET file_metadatas": {285_765, 123.61, 65.971},
	"GET catalog":        {85_287, 6951.7, 7053.9},
	"PUT report":         {84_108, 2005.5, 434.32},
	"GET file_content":   {1_770, 10.106, 15.078},
}

// sourceHours is how many hours of work its log has by these averages, in all and of one
// kind.
func sourceHours(kind string) (of, all float64) {
	for name, s := range sourceRequests {
		hours := float64(s.count) * s.before / 3.6e6
		all += hours
		if name == kind {
			of = hours
		}
	}
	return of, all
}

// sourceTest is what JMeter told of 100 threads that asked for the metadata of one file
// ("Performance Testing the Solution").
var sourceTest = [2]struct {
	perMinute, meanMS, medianMS, deviationMS float64
	serverLoad                               string
}{
	{20859, 276, 100, 712, "about 55"},
	{50000, 84, 41, 735, "about 1.2"},
}
