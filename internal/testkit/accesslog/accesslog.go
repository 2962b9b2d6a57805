// Package accesslog generates access logs in the formats of common servers. Tests and
// benchmarks use it; test/peers/writelog writes a log to a file.
package accesslog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Seed is the seed of the logs that benchmarks read.
const Seed = 1

// Format is a format of generated logs.
type Format struct {
	Name string
	Doc  string
	line func(b []byte, r *request) []byte
	// distinct is the share of requests for a URL that no other request has.
	distinct float64
}

// Formats lists the formats. All except the last have the same requests.
var Formats = []Format{
	{Name: "combined", Doc: "Apache httpd's combined log with %D", line: combined},
	{Name: "caddy", Doc: "Caddy's JSON; the order of the headers is random, as in Caddy", line: caddy},
	{Name: "nginx-json", Doc: "nginx with log_format escape=json", line: nginx},
	{Name: "nginx-json-escapes", Doc: "the same with escaped quotes in every line", line: nginxEscapes},
	{Name: "traefik-json", Doc: "Traefik's JSON", line: traefik},
	{Name: "envoy-json", Doc: "Envoy's JSON as Istio configures it", line: envoy},
	{Name: "haproxy", Doc: "HAProxy's option httplog", line: haproxy},
	{Name: "distinct", Doc: "Apache httpd's combined log with %D; a third of the URLs is distinct", line: combined, distinct: 1.0 / 3},
}

// Find returns the format with a name.
func Find(name string) (Format, error) {
	var names []string
	for _, f := range Formats {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("unknown format %q; want %s", name, strings.Join(names, ", "))
}

// Write writes a log of a number of requests. The same seed writes the same log.
func (f Format) Write(to io.Writer, lines int, seed uint64) error {
	w := bufio.NewWriterSize(to, 1<<20)
	t := newTraffic(seed, f.distinct)
	var line []byte
	for range lines {
		line = append(f.line(line[:0], t.next()), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}

// request is a generated request.
type request struct {
	rand              *rand.Rand
	number            int
	end               time.Time // of the response
	took              time.Duration
	client            string
	port              int
	method, url, host string
	status, size      int
	agent, referer    int // indices into agents and referers
}

// traffic generates the requests of a web shop.
type traffic struct {
	request
	distinct float64
}

// Numbers of the web shop. A few clients and products have most of the requests.
const (
	numClients  = 50_000
	numProducts = 20_000
	meanGap     = 20 * time.Millisecond // between two requests
)

func newTraffic(seed uint64, distinct float64) *traffic {
	return &traffic{request{rand: rand.New(rand.NewPCG(seed, 28)), end: time.Date(2026, 3, 18, 4, 2, 25, 0, time.UTC)}, distinct}
}

// next returns the next request, valid until the next call.
func (t *traffic) next() *request {
	r := &t.request
	r.number++
	r.end = r.end.Add(time.Duration(r.rand.ExpFloat64() * float64(meanGap)))
	r.took = time.Duration(math.Exp(r.rand.NormFloat64()*1.2+8.5)) * time.Microsecond
	client := r.skewed(numClients)
	r.client, r.port = fmt.Sprintf("198.%d.%d.%d", 18+client>>16, client>>8&255, client&255), 1024+r.rand.IntN(60_000)
	r.method, r.status, r.size, r.host = "GET", 200, 200+r.rand.IntN(40_000), "www.example.com"
	r.agent, r.referer = r.skewed(len(agents)), r.skewed(len(referers))
	switch n := r.rand.IntN(100); {
	case r.rand.Float64() < t.distinct:
		r.url = fmt.Sprintf("/orders/%08x-%06x/status", r.rand.Uint32(), r.number)
	case n < 30:
		r.url = fmt.Sprintf("/static/js/app.%08x.js", uint32(r.skewed(400))*2654435761)
	case n < 60:
		r.url = fmt.Sprintf("/products/%d", r.skewed(numProducts))
	case n < 80:
		r.url, r.host = fmt.Sprintf("/api/v1/items/%d?fields=name,price&page=%d", r.skewed(numProducts), r.skewed(20)), "api.example.com"
	case n < 90:
		r.url = fmt.Sprintf("/search?q=shoe+%d&sort=price", r.skewed(1000))
	default:
		r.url, r.method = "/cart", "POST"
	}
	switch n := r.rand.IntN(1000); {
	case n < 5:
		r.status = 503
	case n < 25:
		r.status = 404
	case n < 100:
		r.status, r.size = 304, 0
	}
	return r
}

// skewed returns a number below n; small numbers are more frequent.
func (r *request) skewed(n int) int { return int(float64(n) * math.Pow(r.rand.Float64(), 3)) }

var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Safari/605.1.15",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"python-requests/2.32.3",
	"curl/8.5.0",
}

var referers = []string{"", "https://www.example.com/", "https://www.example.com/search?q=shoe&sort=price", "https://news.example.org/2026/03/shoes-compared.html"}

// dash returns a text, or - for an empty one.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// quoted returns a text as encoding/json writes it.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text has a JSON form
	}
	return string(out)
}
