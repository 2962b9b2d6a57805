package etcd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

// parameters are the options that rules use, with the newest release's defaults. releases.txt has
// the defaults of each release.
var parameters = product.Parameters{
	{Name: "quota-backend-bytes", Type: fact.Number, Unit: "bytes", Read: readQuota, Default: "0", Doc: "size of the database at which the cluster refuses writes; 0 means 2 GiB, a negative value unlimited"},
	milliseconds("heartbeat-interval", "100", "time between two heartbeats of the leader"),
	milliseconds("election-timeout", "1000", "time without a heartbeat after which a member calls an election"),
	{Name: "snapshot-count", Type: fact.Number, Read: readInteger, Default: "10000", Doc: "changes after which a snapshot is written; 100000 before 3.6"},
	{Name: "auto-compaction-mode", Type: fact.Text, Read: readMode, Default: "periodic", Doc: "periodic or revision"},
	{Name: "auto-compaction-retention", Type: fact.Text, Read: readRetention, Default: "0", Doc: "history that compaction keeps: hours or a time, or a number of revisions; 0 never compacts"},
	{Name: "max-request-bytes", Type: fact.Number, Unit: "bytes", Read: readInteger, Default: "1572864", Doc: "largest request"},
	count("max-txn-ops", "128", "maximum operations in a transaction"),
	count("max-snapshots", "5", "maximum snapshot files to keep; 0 keeps all"),
	count("max-wals", "5", "maximum files of the write-ahead log to keep; 0 keeps all"),
	count("backend-batch-limit", "0", "number of changes after which the backend writes to the disk; 0 means 10000"),
	{Name: "backend-batch-interval", Type: fact.Text, Read: readTime, Default: "0s", Doc: "time after which the backend writes changes to the disk; 0 means 100ms"},
	{Name: "pre-vote", Type: fact.Truth, Read: readTruth, Default: "true", Doc: "whether a returning member checks that it could win before it calls an election; false before 3.5"},
	{Name: "name", Type: fact.Text, Default: "default", Doc: "name of the member"},
	{Name: "data-dir", Type: fact.Text, Doc: "directory of the data"},
	{Name: "wal-dir", Type: fact.Text, Doc: "separate directory of the write-ahead log, if set"},
	{Name: "initial-cluster", Type: fact.Text, Doc: "members with which the cluster began"},
	{Name: "listen-client-urls", Type: fact.Text, Default: "http://localhost:2379", Doc: "URLs for clients"},
	{Name: "listen-metrics-urls", Type: fact.Text, Doc: "further URLs for metrics and health"},
}

// byHand are the options that only an administrator sets: the identity of the member, its data,
// and its addresses.
var byHand = []string{"name", "data-dir", "wal-dir", "initial-cluster", "listen-client-urls", "listen-metrics-urls"}

var (
	milliseconds = product.Of(fact.Number, "ms", readInteger)
	count        = product.Of(fact.Number, "", readInteger)
)

// readInteger parses a whole number of at least 0 like Go's flags: 0x10 and 020 are 16, and 1_000
// is 1000.
func readInteger(text string) (any, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return nil, fmt.Errorf("%q is not a whole number of 0 or more", text)
	}
	return float64(n), nil
}

// defaultQuota is the quota in bytes for quota-backend-bytes=0 (server/storage/quota.go).
const defaultQuota = float64(2 << 30)

// readQuota parses a quota in bytes; negative numbers mean no limit (server/storage/quota.go).
func readQuota(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && n < 0 {
		return -1.0, nil
	}
	return readInteger(text)
}

// readTruth parses true and false like Go's flags.
func readTruth(text string) (any, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return nil, fmt.Errorf("%q: want true or false", text)
	}
	return on, nil
}

func readMode(text string) (any, error) {
	if text != "periodic" && text != "revision" {
		return nil, fmt.Errorf("%q: want periodic or revision", text)
	}
	return text, nil
}

// readRetention parses a number or a Go duration.
func readRetention(text string) (any, error) {
	if _, err := strconv.ParseUint(text, 10, 62); err == nil {
		return text, nil
	}
	return readTime(text)
}

func readTime(text string) (any, error) {
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return nil, fmt.Errorf("%q is not a time such as 100ms or 5m", text)
	}
	return text, nil
}

// canonical returns one spelling for equal values.
func canonical(value string) string {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseInt(value, 0, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return d.String()
	}
	return value
}

// check returns an error for options that only an administrator sets, and for values out of range.
func check(key, value string) error {
	p := parameters.Settable(key, byHand)
	if err := p.Check("etcd", value); err != nil {
		return err
	}
	if v, err := p.Read(value); err == nil && v == -1.0 {
		return fmt.Errorf("%s = %s: refused; without a quota the database can fill the disk", key, value)
	}
	return nil
}

// compactionHours returns the hours of history that compaction keeps: 0 if it is off, NaN if the
// limit is a number of revisions.
func compactionHours(mode, retention string) float64 {
	if retention == "" || canonical(retention) == "0" || canonical(retention) == "0s" {
		return 0
	}
	if mode == "revision" {
		return math.NaN()
	}
	if n, err := strconv.ParseFloat(retention, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(retention)
	return d.Hours()
}
