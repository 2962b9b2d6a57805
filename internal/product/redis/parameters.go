package redis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

// parameters are the options that rules use, with the defaults of Redis 5 to 8 (src/config.c).
// The default of save has changed with version 7.
var parameters = product.Parameters{
	memory("maxmemory", "0", "memory use above which keys are evicted or writes refused; 0 means unlimited"),
	word("maxmemory-policy", "noeviction", "which keys are evicted at maxmemory"),
	count("maxmemory-samples", "5", "keys compared to choose one for eviction"),
	truth("appendonly", "no", "whether each write goes to a log that survives a crash"),
	word("appendfsync", "everysec", "when the log is forced to the disk: always, everysec, no"),
	truth("no-appendfsync-on-rewrite", "no", "whether the log is not forced to the disk while the log or a snapshot is rewritten"),
	count("auto-aof-rewrite-percentage", "100", "growth in percent after which the log is rewritten"),
	memory("auto-aof-rewrite-min-size", "64mb", "minimum size for a rewrite of the log"),
	{Name: "save", Type: fact.Text, Read: func(t string) (any, error) { return t, nil }, Doc: "seconds and changes after which a snapshot is written, in pairs; empty for none"},
	truth("stop-writes-on-bgsave-error", "yes", "whether writes are refused after a failed snapshot"),
	truth("rdbcompression", "yes", "whether snapshots are compressed"),
	truth("disable-thp", "yes", "whether Redis turns transparent huge pages off for itself"),
	count("maxclients", "10000", "maximum connections; Redis lowers it to its limit of open files"),
	count("timeout", "0", "seconds after which an idle client is disconnected; 0 means never"),
	count("tcp-keepalive", "300", "seconds between probes of a silent connection"),
	count("tcp-backlog", "511", "connections that wait to be accepted; net.core.somaxconn limits it"),
	count("databases", "16", "numbered databases"),
	count("io-threads", "1", "threads that write to connections"),
	count("hz", "10", "background tasks per second"),
	truth("activedefrag", "no", "whether memory is defragmented while it runs"),
	truth("lazyfree-lazy-eviction", "no", "whether evicted keys are freed by another thread"),
	truth("lazyfree-lazy-expire", "no", "whether expired keys are freed by another thread"),
	memory("repl-backlog-size", "1mb", "changes kept for a disconnected replica"),
	count("slowlog-log-slower-than", "10000", "duration in microseconds above which a command is logged; -1 logs no command"),
	count("latency-monitor-threshold", "0", "delay in milliseconds above which it is recorded; 0 records no delay"),
	count("port", "6379", "TCP port; 0 listens on no port"),
	{Name: "unixsocket", Type: fact.Text, Doc: "path of the unix socket"},
	{Name: "bind", Type: fact.List, Doc: "addresses on which the server listens"},
	{Name: "dir", Type: fact.Text, Doc: "directory of snapshots and logs"},
}

var (
	count  = product.Of(fact.Number, "", readNumber)
	memory = product.Of(fact.Number, "bytes", readMemory)
	truth  = product.Switch("yes", "no")
	word   = product.Of(fact.Text, "", func(t string) (any, error) { return strings.ToLower(t), nil })
)

func readNumber(text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return float64(n), nil
}

// units are the case-insensitive size units of src/util.c, memtoull.
var units = map[string]float64{"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}

func readMemory(text string) (any, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bkmg")
	n, err := strconv.ParseUint(digits, 10, 63)
	unit, ok := units[strings.ToLower(text)[len(digits):]]
	if err != nil || !ok || float64(n)*unit > math.MaxInt64 {
		return nil, fmt.Errorf("%q is not a Redis size; want one such as 100mb", text)
	}
	return float64(n) * unit, nil
}

// canonical returns one spelling for equal values.
func canonical(value string) string {
	if n, err := readMemory(value); err == nil {
		return strconv.FormatFloat(n.(float64), 'f', -1, 64)
	}
	return strings.Join(strings.Fields(value), " ")
}

// atStart are the tuning parameters that Redis does not change while it runs (src/config.c,
// IMMUTABLE_CONFIG).
var atStart = []string{"tcp-backlog", "databases", "io-threads", "disable-thp"}

// byHand are the options that only an administrator sets: addresses, and the data directory.
var byHand = []string{"port", "unixsocket", "bind", "dir"}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	return parameters.Settable(key, byHand).Check("Redis", value)
}
