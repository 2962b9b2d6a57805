package accesslog

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// puppetKinds are the requests of the log in "Puppetmaster Performance Tuning with
// mod_mem_cache" (2012), Top resource types: 7,586,256 requests of sixty hours for 300,000
// resources.
var puppetKinds = []struct {
	method, name        string
	requests, resources int
}{
	{"GET", "file_metadata", 7129326, 270_000},
	{"GET", "file_metadatas", 285765, 18_200},
	{"GET", "catalog", 85287, 5_000},
	{"PUT", "report", 84108, 5_000},
	{"GET", "file_content", 1770, 1_800},
}

// WritePuppet writes a log of Puppet's requests through Apache, of sixty hours. It returns the
// number of lines and of resources.
func WritePuppet(to io.Writer) (lines, resources int, err error) {
	w := bufio.NewWriterSize(to, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	const nodes = 5000
	seen := map[string]bool{}
	start := time.Date(2012, 3, 18, 4, 2, 25, 0, time.UTC)
	total, left := 0, make([]int, len(puppetKinds))
	for i, k := range puppetKinds {
		left[i] = k.requests
		total += k.requests
	}
	for ; lines < total; lines++ {
		at, kind := r.IntN(total-lines), 0 // each remaining request is equally likely
		for at >= left[kind] {
			at -= left[kind]
			kind++
		}
		left[kind]--
		what, node := puppetKinds[kind], r.IntN(nodes)
		when := start.Add(time.Duration(float64(lines) / float64(total) * 60 * float64(time.Hour)))
		took := int(math.Exp(r.NormFloat64()*0.9 + 8.5))
		// Most files are requested repeatedly, some by one node.
		n := int(float64(what.resources) * math.Pow(r.Float64(), 1.5))
		key := fmt.Sprintf("modules/module%d/etc/application/file%d.conf", n%400, n)
		switch what.name {
		case "catalog":
			key, took = fmt.Sprintf("host%d.example.com", node), took*300
		case "report":
			key, took = fmt.Sprintf("host%d.example.com", node), took*100
		}
		seen[what.name+"/"+key] = true
		_, err := fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"%s /environment%d/%s/%s HTTP/1.1\" 200 %d %d \"-\" \"-\"\n",
			node>>16, node>>8&255, node&255, when.Format("02/Jan/2006:15:04:05 +0000"), what.method, r.IntN(12), what.name, key, 300+r.IntN(100), took)
		if err != nil {
			return lines, len(seen), err
		}
	}
	return lines, len(seen), w.Flush()
}
