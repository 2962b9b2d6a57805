package qpid

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

// parameters are the options that rules use, with the defaults of qpid-cpp 1.39
// (src/qpid/broker/Broker.cpp, src/qpid/acl/AclPlugin.cpp,
// src/qpid/linearstore/MessageStoreImpl.cpp).
var parameters = product.Parameters{
	product.Count("max-connections", "500", "maximum connections, enforced by the access control plug-in; 0 means unlimited"),
	product.Count("connection-backlog", "10", "length of the listen queue"),
	product.Count("worker-threads", "", "threads; default one more than CPUs"),
	{Name: "mgmt-pub-interval", Type: fact.Number, Unit: "s", Read: readSeconds, Default: "10", Doc: "interval at which management objects are published, and those of deleted objects purged"},
	{Name: "queue-purge-interval", Type: fact.Number, Unit: "s", Read: readSeconds, Default: "600", Doc: "interval at which expired messages are purged"},
	{Name: "wcache-page-size", Type: fact.Number, Unit: "KiB", Read: readPage, Default: "32", Doc: "page of the write cache of a durable queue's journal: 4 to 128, a power of two"},
	{Name: "wcache-num-pages", Type: fact.Number, Read: readPages, Default: "16", Doc: "pages of the write cache of a durable queue's journal, 4 or more"},
	{Name: "tpl-wcache-page-size", Type: fact.Number, Unit: "KiB", Read: readPage, Default: "4", Doc: "page of the write cache of the journal of prepared transactions"},
	product.Count("port", "5672", "TCP port"),
	product.Count("ssl-port", "5671", "TCP port for TLS"),
	{Name: "data-dir", Type: fact.Text, Doc: "directory of the durable queues"},
	product.Switch("yes", "no")("auth", "yes", "whether clients must authenticate"),
}

// byHand are the options that only an administrator sets: client access, and the data directory.
var byHand = []string{"port", "ssl-port", "data-dir", "auth"}

// readSeconds parses a time like sys::Duration: seconds, or a number followed by s, ms, us or ns.
func readSeconds(text string) (any, error) {
	for _, u := range []struct {
		name string
		s    float64
	}{{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"s", 1}, {"", 1}} {
		if number, ok := strings.CutSuffix(strings.ToLower(text), u.name); ok {
			n, err := strconv.ParseFloat(number, 64)
			if err != nil || !(n >= 0 && n <= 1e9) {
				break
			}
			return n * u.s, nil
		}
	}
	return nil, fmt.Errorf("%q is not a number of seconds", text)
}

// readPage parses a size that qpidd uses unchanged. qpidd replaces other sizes with the nearest one
// and warns.
func readPage(text string) (any, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n < 4 || n > 128 || n&(n-1) != 0 {
		return nil, fmt.Errorf("%q: want 4, 8, 16, 32, 64 or 128 (KiB)", text)
	}
	return float64(n), nil
}

func readPages(text string) (any, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < 4 {
		return nil, fmt.Errorf("%q is not a whole number from 4 to 65535", text)
	}
	return float64(n), nil
}

// check returns an error for options that only an administrator sets, and for values that qpidd
// rejects.
func check(key, value string) error {
	return parameters.Settable(key, byHand).Check("qpidd", value)
}
