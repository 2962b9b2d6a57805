package prometheus

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
)

// parameters are the options that rules use: flags, and the keys below "global:" of prometheus.yml,
// which contain no dot. The defaults are those of Prometheus 2 and 3 (config and cmd/prometheus of
// 2.42.0 and 3.16.0).
var parameters = product.Parameters{
	seconds("scrape_interval", "1m", "interval between two scrapes of a target"),
	seconds("scrape_timeout", "10s", "timeout of a scrape"),
	seconds("evaluation_interval", "1m", "interval between two evaluations of the rules"),
	seconds(retentionTime, "15d", "how long samples are kept, even if retention.size is not reached; 0 means unlimited"),
	{Name: retentionPercentage, Type: fact.Number, Unit: "%", Read: readPercentage, Default: "0", Doc: "share of the disk at which the oldest samples are deleted, by the configuration file of Prometheus 3; 0 means unlimited"},
	{Name: retentionSize, Type: fact.Number, Unit: "bytes", Read: readSize, Default: "0B", Doc: "size at which the oldest samples are deleted; 0 means unlimited"},
	seconds("query.timeout", "2m", "time after which a query is ended"),
	seconds("query.lookback-delta", "5m", "age up to which a sample counts as the current value"),
	product.Count("query.max-concurrency", "20", "maximum concurrent queries"),
	product.Count("query.max-samples", "50000000", "maximum samples of a query in memory"),
	product.Count("web.max-connections", "512", "maximum concurrent connections"),
	seconds("web.read-timeout", "5m", "time after which an idle connection is closed"),
	{Name: "config.file", Type: fact.Text, Doc: "configuration file"},
	{Name: "storage.tsdb.path", Type: fact.Text, Doc: "directory of the samples"},
	{Name: "web.listen-address", Type: fact.Text, Default: "0.0.0.0:9090", Doc: "address and port to listen on"},
}

// byHand are the options that only an administrator writes.
var byHand = []string{retentionPercentage, "config.file", "storage.tsdb.path", "web.listen-address"}

// isFlag reports whether a key is a flag; only flags contain a dot.
func isFlag(key string) bool { return strings.Contains(key, ".") }

var seconds = product.Of(fact.Number, "s", readTime)

var (
	timeForm = text.LazyRegexp(`^(?:(\d{1,9})y)?(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?$`)
	sizeForm = text.LazyRegexp(`^(?:(\d{1,9})([KMGTPE]?)i?B)+$`)
	sizePart = text.LazyRegexp(`(\d{1,9})([KMGTPE]?)i?B`)
)

// readTime parses a duration of Prometheus to seconds: 15d, 1h30m, or 0 without a unit.
func readTime(text string) (any, error) {
	m := timeForm().FindStringSubmatch(text)
	if text == "0" {
		return 0.0, nil
	}
	if m == nil || text == "" {
		return nil, fmt.Errorf("%q is not a time such as 15d or 1h30m", text)
	}
	sum := 0.0
	for i, unit := range []float64{365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 1e-3} {
		n, _ := strconv.ParseFloat("0"+m[i+1], 64)
		sum += n * unit
	}
	return sum, nil
}

// readSize parses a size to bytes: 512MB, which means 512MiB, or 1GiB512MiB as a running server
// reports it.
func readSize(text string) (any, error) {
	if text == "0" {
		return 0.0, nil
	}
	if !sizeForm().MatchString(text) {
		return nil, fmt.Errorf("%q is not a size such as 512MB", text)
	}
	sum := 0.0
	for _, m := range sizePart().FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		if m[2] != "" {
			n *= math.Pow(1024, float64(1+strings.Index("KMGTPE", m[2])))
		}
		sum += n
	}
	return sum, nil
}

// canonical returns one spelling for equivalent values.
func canonical(value string) string {
	for _, read := range []func(string) (any, error){product.ReadCount, readTime, readSize} {
		if v, err := read(value); err == nil {
			return fmt.Sprint(v)
		}
	}
	return value
}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	return parameters.Settable(key, byHand).Check("Prometheus", value)
}
