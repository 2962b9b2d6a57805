package nginx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

// parameters are the options that rules use, with the defaults of nginx 1.10 to 1.28
// (nginx.org, core and http core modules). keepalive_requests was 100 before 1.19.10.
var parameters = product.Parameters{
	{Name: "worker_processes", Type: fact.Text, Read: readWorkers, Default: "1", Doc: "processes that serve; auto is one for each CPU"},
	product.Count("worker_rlimit_nofile", "", "files that a worker may open (default the limit with which nginx was started)"),
	product.Count("worker_connections", "512", "connections of one worker, including those to back ends"),
	truth("multi_accept", "off", "whether a worker accepts all new connections at once"),
	duration("keepalive_timeout", "75s", "wait for the next request on a connection; 0 means no wait"),
	product.Count("keepalive_requests", "1000", "requests on one connection"),
	truth("sendfile", "off", "whether the kernel sends files"),
	truth("tcp_nopush", "off", "whether sendfile waits for full packets"),
	duration("proxy_read_timeout", "60s", "wait for a proxied back end"),
	duration("proxy_connect_timeout", "60s", "wait for a connection to a back end"),
	size("client_max_body_size", "1m", "largest body of a request; 0 means unlimited"),
	truth("gzip", "off", "whether answers are compressed"),
}

// contexts maps directives to their blocks; "" is the top level of the file.
var contexts = map[string]string{
	"worker_processes": "", "worker_rlimit_nofile": "", "worker_connections": "events", "multi_accept": "events", "keepalive_timeout": "http",
	"keepalive_requests": "http", "sendfile": "http", "tcp_nopush": "http", "proxy_read_timeout": "http", "proxy_connect_timeout": "http",
	"client_max_body_size": "http", "gzip": "http",
}

var (
	size     = product.Of(fact.Number, "bytes", readSize)
	duration = product.Of(fact.Number, "s", readDuration)
	truth    = product.Switch("on", "off")
)

func readWorkers(text string) (any, error) {
	if text == "auto" {
		return text, nil
	}
	if n, err := product.ReadCount(text); err != nil || n == 0.0 || n.(float64) > 1024 { // NGX_MAX_PROCESSES
		return nil, fmt.Errorf("%q: want auto, or 1 to 1024 processes", text)
	}
	return text, nil
}

// readSize implements ngx_parse_offset: bytes, or a number with k, m or g.
func readSize(text string) (any, error) {
	digits := strings.TrimRight(text, "kKmMgG")
	n, err := strconv.ParseUint(digits, 10, 40)
	factor, ok := map[string]float64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[strings.ToLower(text[len(digits):])]
	if err != nil || !ok {
		return nil, fmt.Errorf("%q is not an nginx size; want one such as 8k or 10m", text)
	}
	return float64(n) * factor, nil
}

// readDuration implements ngx_parse_time: seconds, or numbers with units from the largest to the
// smallest, "1h 30m". It reads only the first word: the second one of keepalive_timeout is for a
// header.
func readDuration(text string) (any, error) {
	bad := fmt.Errorf("%q is not an nginx time; want one such as 60s, 1h30m or 500ms", text)
	first, _, _ := strings.Cut(text, " ")
	total, rest, last := 0.0, first, len(timeUnits)
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(rest)
		}
		n, err := strconv.ParseUint(rest[:end], 10, 31)
		if err != nil {
			return nil, bad
		}
		if rest = rest[end:]; rest == "" {
			return total + float64(n), nil // in seconds
		}
		unit := slices.IndexFunc(timeUnits, func(u timeUnit) bool { return strings.HasPrefix(rest, u.name) })
		if unit < 0 || unit >= last {
			return nil, bad
		}
		last = unit
		total += float64(n) * timeUnits[unit].s
		rest = rest[len(timeUnits[unit].name):]
	}
	if first == "" {
		return nil, bad
	}
	return total, nil
}

type timeUnit struct {
	name string
	s    float64
}

// timeUnits are ordered from the smallest unit; "ms" stands before "m".
var timeUnits = []timeUnit{{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}, {"M", 30 * 86400}, {"y", 365 * 86400}}

// bare returns a directive's name without its blocks.
func bare(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	return parameters.Named(bare(key)).Check("nginx", value)
}
