package haproxy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// parameters are the options that rules use, with the defaults of HAProxy 2.2 to 3.2 (Configuration
// Manual, "Performance tuning" and "Proxies"). They belong to the process or to the proxies'
// defaults.
var parameters = product.Parameters{
	count("maxconn", "", "connections of the whole process; as many as its open files allow when unset"),
	count("maxsslconn", "", "connections with TLS"),
	count("maxconnrate", "0", "new connections a second; 0 means unlimited"),
	count("ulimit-n", "", "files that it may open; as many as maxconn needs when unset"),
	count("fd-hard-limit", "", "upper limit of open files that HAProxy assumes"),
	product.Count("nbthread", "", "number of threads (default one per usable CPU; since HAProxy 2.4 one per CPU of one NUMA node)"),
	size("tune.bufsize", "16384", "one buffer; a connection has two"),
	product.Count("tune.maxaccept", "", "connections that are accepted in a row"),
	product.Count("tune.ssl.cachesize", "20000", "TLS sessions that are cached for resumption"),
	product.Count("tune.h2.max-concurrent-streams", "100", "concurrent streams of one HTTP/2 connection"),
	duration("timeout-connect", "", "wait for a connection to a server"),
	duration("timeout-client", "", "wait for a silent client"),
	duration("timeout-server", "", "wait for a silent server"),
	duration("timeout-http-request", "", "wait for a whole request; timeout client when unset"),
	duration("timeout-http-keep-alive", "", "wait for the next request on a connection"),
	duration("timeout-queue", "", "wait for a free server; timeout connect when unset"),
	duration("timeout-tunnel", "", "silence on both sides of a tunnel: WebSocket, CONNECT"),
	count("retries", "3", "attempts to reach a server after the first"),
	count("backlog", "", "connections that wait to be accepted; the frontend's maxconn when unset"),
	{Name: "http-reuse", Type: fact.Text, Read: oneOf("never", "safe", "aggressive", "always"), Default: "safe", Doc: "whether connections to servers are shared by clients: never, safe, aggressive, always"},
}

// contexts maps options to their sections.
var contexts = map[string]string{
	"maxconn": "global", "maxsslconn": "global", "maxconnrate": "global", "ulimit-n": "global", "fd-hard-limit": "global", "nbthread": "global",
	"tune.bufsize": "global", "tune.maxaccept": "global", "tune.ssl.cachesize": "global", "tune.h2.max-concurrent-streams": "global",
	"timeout connect": "defaults", "timeout client": "defaults", "timeout server": "defaults", "timeout http-request": "defaults",
	"timeout http-keep-alive": "defaults", "timeout queue": "defaults", "timeout tunnel": "defaults", "retries": "defaults", "backlog": "defaults",
	"http-reuse": "defaults",
}

// fields maps options to their names in "show info".
var fields = map[string]string{
	"maxconn": "Maxconn", "maxsslconn": "MaxSslConns", "maxconnrate": "ConnRateLimit", "ulimit-n": "Ulimit-n", "nbthread": "Nbthread",
}

var (
	count    = product.Of(fact.Number, "", readAtol)
	size     = product.Of(fact.Number, "bytes", product.ReadCount)
	duration = product.Of(fact.Number, "s", readDuration)
)

// readAtol parses a number like atol, which ignores text after the digits: "maxconn 1k" is 1
// (HAProxy 2.6, src/cfgparse-global.c and src/cfgparse-listen.c).
func readAtol(text string) (any, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	switch {
	case end < 0:
		return product.ReadCount(text)
	case end == 0:
		return nil, fmt.Errorf("%q is not a number; HAProxy would read it as 0, that is, not set", text)
	}
	return product.ReadCount(text[:end])
}

// readDuration implements parse_time_err: a number in milliseconds, or with a unit.
func readDuration(text string) (any, error) {
	digits := strings.TrimRight(text, "usmhd")
	n, err := strconv.ParseUint(digits, 10, 31)
	factor, ok := map[string]float64{"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}[text[len(digits):]]
	if err != nil || !ok {
		return nil, fmt.Errorf("%q is not a HAProxy time; want one such as 5000, 30s or 1m", text)
	}
	if float64(n)*factor > math.MaxInt32/1000.0 {
		return nil, fmt.Errorf("%q is above HAProxy's maximum of 2,147,483,647 ms (24.8 days)", text)
	}
	return float64(n) * factor, nil
}

func oneOf(words ...string) func(string) (any, error) {
	return func(text string) (any, error) {
		if !slices.Contains(words, text) {
			return nil, fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
		}
		return text, nil
	}
}

func parameter(key string) *product.Parameter {
	_, option := conf.SplitKey(key)
	return parameters.Named(strings.Replace(option, "timeout ", "timeout-", 1))
}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	return parameter(key).Check("HAProxy", value)
}
