package cli

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// source003 holds the tables of the article ("Puppetmaster Performance Tuning with mod_mem_cache",
// "Top resource types" and "Statistics by resource type"), times in ms.
var source003 = []struct {
	method, indirector              string
	count                           int
	mean, deviation, least, longest float64
}{
	{"GET", "catalog", 85287, 6951.7, 5430.7, 8.175, 2.9996e+05},
	{"GET", "certificate", 15, 10.722, 3.6854, 5.128, 17.609},
	{"GET", "certificate_request", 5, 22.437, 29.293, 5.567, 80.777},
	{"GET", "certificate_revocation_list", 5, 19.492, 29.293, 3.877, 78.062},
	{"GET", "file_content", 1770, 10.106, 56.091, 2.917, 1457},
	{"GET", "file_metadata", 7129326, 13.58, 639.82, 2.243, 2.9982e+05},
	{"GET", "file_metadatas", 285765, 123.61, 2817.5, 3.587, 2.9197e+05},
	{"PUT", "certificate_request", 5, 55.047, 3.0518, 50.834, 58.675},
	{"PUT", "report", 84108, 2005.5, 2411.3, 7.438, 2.99e+05},
}

// source003Span is how long its log is: "about 60 hours".
const source003Span = 60 * time.Hour

// TestSource003 reads a log like that of the article, with as many requests of each sort in sixty
// hours and the mean, the least and the longest time that its tables have, the first lines say what
// the source found out of it by a program of its own: how many hours went to catalogs, and that
// nearly all requests were for file_metadata, which took 27 hours.
func TestSource003(t *testing.T) {
	testkitroot.Real(t, "reads a log of a gigabyte")
	cmd := fettleCommand(t, "logs", "-", "--slowest", "1", "--wide")
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, talk strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	totals, deviations, err := writeSource003(to)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, talk.String())
	}
	said := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"66.3 % of the time, 6.86 d, went to GET catalog: 85,287 requests of 6.95 s each on average",
		"94 % of the requests, 7,129,326, were for GET file_metadata: 26.9 h of work in 2.5 d, 13.6 ms each on average",
	} {
		if said[i] != want {
			t.Errorf("line %d: %s, want %s", i+1, said[i], want)
		}
	}
	for i, k := range source003 {
		// The tables have five digits, and the time that is written is a whole number of
		// microseconds.
		if mean := totals[i] / float64(k.count) * 1000; math.Abs(mean/k.mean-1) > 1e-4 {
			t.Errorf("%s: the log has a mean of %v ms, the source of %v", k.indirector, mean, k.mean)
		}
		if k.count > 1000 && math.Abs(deviations[i]*1000/k.deviation-1) > 0.1 {
			t.Errorf("%s: the log has a standard deviation of %v ms, the source of %v", k.indirector, deviations[i]*1000, k.deviation)
		}
		row := fmt.Sprintf(`(?m)^%s %s +%s +\S+ +0 +%s +.* %% +%s +%s +%s .* %s$`, k.method, k.indirector, unit.Thousands(uint64(k.count)), unit.FormatSeconds(totals[i]),
			inMs(totals[i]/float64(k.count)), inMs(deviations[i]), unit.FormatSeconds(k.least/1000), unit.FormatSeconds(k.longest/1000))
		if !regexp.MustCompile(row).MatchString(out.String()) {
			t.Errorf("no row %s in\n%s", row, out.String())
		}
	}
}

// inMs formats a time as a column does of which all times are below 10,000 ms.
func inMs(seconds float64) string {
	text := unit.FormatSeconds(seconds)
	number, found := strings.CutSuffix(text, " s")
	n, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		return text
	}
	return unit.Digits(1000*n) + " ms"
}

// writeSource003 writes the log, and gives what the requests of each sort took in sum and their
// standard deviation, in seconds. Of each sort one takes the least time, as many the longest as
// the deviation asks for, and the others one time, so that the mean is the source's.
func writeSource003(to io.WriteCloser) (totals, deviations []float64, err error) {
	w := bufio.NewWriterSize(to, 1<<20)
	defer func() {
		if err == nil {
			err = w.Flush()
		}
		to.Close()
	}()
	type times struct{ least, usual, longest, each, rest, done int64 } // in microseconds; every each-th is the longest
	of := make([]times, len(source003))
	var order []uint8
	for i, k := range source003 {
		n := float64(k.count)
		slow := max(1, min(math.Round(n*k.deviation*k.deviation/(k.longest-k.mean)/(k.longest-k.mean)), math.Floor((n-1)/2)))
		x := times{least: int64(math.Round(1000 * k.least)), longest: int64(math.Round(1000 * k.longest)), each: int64(n / (slow + 1)), rest: int64(slow)}
		left := 1000*k.mean*n - float64(x.least) - slow*float64(x.longest)
		x.usual = int64(math.Round(left / (n - 1 - slow)))
		of[i] = x
		sum := float64(x.least) + slow*float64(x.longest) + (n-1-slow)*float64(x.usual)
		squares := float64(x.least)*float64(x.least) + slow*float64(x.longest)*float64(x.longest) + (n-1-slow)*float64(x.usual)*float64(x.usual)
		totals = append(totals, sum/1e6)
		deviations = append(deviations, math.Sqrt(squares/n-sum/n*sum/n)/1e6)
		for range k.count {
			order = append(order, uint8(i))
		}
	}
	r := rand.New(rand.NewPCG(3, 2012))
	r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	begin := time.Date(2012, 3, 18, 4, 2, 25, 0, time.UTC)
	second, stamp := int64(-1), ""
	for n, i := range order {
		if s := int64(float64(n) / float64(len(order)-1) * source003Span.Seconds()); s != second {
			second, stamp = s, begin.Add(time.Duration(s)*time.Second).Format("02/Jan/2006:15:04:05 -0700")
		}
		k, x := &source003[i], &of[i]
		took := x.usual
		switch {
		case x.done == 0:
			took = x.least
		case x.done%x.each == 0 && x.rest > 0:
			took = x.longest
			x.rest--
		}
		x.done++
		if _, err := fmt.Fprintf(w, "192.0.2.%d - - [%s] \"%s /environment%d/%s/x%d HTTP/1.1\" 200 333 %d \"-\" \"-\"\n", n%200, stamp, k.method, n%12, k.indirector, n%5000, took); err != nil {
			return nil, nil, err
		}
	}
	return totals, deviations, nil
}
