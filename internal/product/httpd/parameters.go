package httpd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// parameters are the server-wide options that rules use (httpd 2.4, mpm_common, event, worker,
// prefork, core). Defaults that depend on the multi-processing module are inputs instead.
var parameters = product.Parameters{
	product.Count("ServerLimit", "", "maximum number of processes; a change needs a restart (default 16, prefork 256)"),
	product.Count("ThreadLimit", "64", "maximum of ThreadsPerChild; a change needs a restart"),
	product.Count("ThreadsPerChild", "25", "threads of one process"),
	product.Count("MaxRequestWorkers", "", "concurrent requests, at most ServerLimit x ThreadsPerChild (default 400, prefork 256)"),
	product.Count("StartServers", "", "processes at the start (default 3, prefork 5)"),
	product.Count("MinSpareThreads", "", "a process is started if fewer threads are idle"),
	product.Count("MaxSpareThreads", "", "a process is ended if more threads are idle"),
	product.Count("MinSpareServers", "5", "a process is started if fewer are idle (prefork)"),
	product.Count("MaxSpareServers", "10", "a process is ended if more are idle (prefork)"),
	product.Count("MaxConnectionsPerChild", "0", "a process is replaced after this number of connections; 0 means never"),
	product.Count("AsyncRequestWorkerFactor", "2", "idle connections per idle thread (only with event)"),
	truth("KeepAlive", "On", "whether a connection stays open for further requests"),
	product.Count("MaxKeepAliveRequests", "100", "requests on one connection; 0 means unlimited"),
	duration("KeepAliveTimeout", "5", "wait for the next request on a connection"),
	{Name: "Timeout", Type: fact.Number, Unit: "s", Read: readSeconds, Default: "60", Doc: "wait for a client or a back end in the middle of a request"},
	duration("ProxyTimeout", "", "wait for a proxied back end; Timeout when unset"),
	product.Count("ListenBacklog", "511", "connections that wait to be accepted; net.core.somaxconn limits it"),
	truth("HostnameLookups", "Off", "whether each client's name is looked up for the log"),
	truth("EnableSendfile", "Off", "whether the kernel sends files"),
	truth("ExtendedStatus", "On", "whether details of each request are kept for mod_status"),
}

var (
	duration = product.Of(fact.Number, "s", readDuration)
	truth    = product.Switch("on", "off")
)

// readSeconds implements atoi, with which httpd reads Timeout. It ignores units: "500ms" is 500 s
// (httpd 2.4.71, server/core.c, set_timeout; server-info shows the same).
func readSeconds(text string) (any, error) {
	n, ok := leading(text)
	if !ok {
		return nil, fmt.Errorf("%q is not a number of seconds", text)
	}
	return float64(n), nil
}

// readDuration implements ap_timeout_parameter_parse: a number in seconds, or with a unit. Only the
// unit's first letters matter: h, mi, ms, s.
func readDuration(text string) (any, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	n, err := strconv.ParseUint(digits, 10, 31)
	unit := strings.ToLower(text[len(digits):])
	factor := 0.0
	for _, u := range []struct {
		begin string
		s     float64
	}{{"h", 3600}, {"mi", 60}, {"ms", 1e-3}, {"s", 1}} {
		if strings.HasPrefix(unit, u.begin) {
			factor = u.s
		}
	}
	if unit == "" {
		factor = 1
	}
	if err != nil || factor == 0 {
		return nil, fmt.Errorf("%q is not an httpd time; want one such as 60 or 500ms", text)
	}
	return float64(n) * factor, nil
}

// canonical returns one spelling for equal values.
func canonical(value string) string {
	if v := strings.ToLower(value); v == "on" || v == "off" {
		return v
	}
	return conf.WholeNumber(value)
}

// atStart are directives that a graceful restart does not change, because they fix the size of the
// main process's scoreboard.
var atStart = []string{"serverlimit", "threadlimit"}

func parameter(key string) *product.Parameter {
	key = key[strings.LastIndexByte(key, '/')+1:]
	if a, ok := aliases[strings.ToLower(key)]; ok {
		key = a
	}
	if i := slices.IndexFunc(parameters, func(p product.Parameter) bool { return strings.EqualFold(p.Name, key) }); i >= 0 {
		return &parameters[i]
	}
	return nil
}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	if key == ulimitVariable {
		return checkUlimit(value)
	}
	return parameter(key).Check("httpd", value)
}
