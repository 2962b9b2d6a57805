package experiment

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	bench "fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/prove"
)

// Writes per measurement, which removes its keys: about a second on a disk that is fast enough for etcd.
const (
	etcdWrites    = 200
	etcdValueSize = 1024
)

// etcdMetric is the median time of a write, in seconds.
const etcdMetric = "put"

// etcdWork returns the work for a name: put=PREFIX, or put=PREFIX@MEMBER if several run. It writes to
// a running etcd below the prefix.
func etcdWork(ctx context.Context, h *host.Host, name string) (*benchWork, error) {
	prefix, is := strings.CutPrefix(name, etcdMetric+"=")
	if !is {
		return nil, fmt.Errorf("bench etcd: unknown cell %q; want put=PREFIX, such as put=bench (keys below PREFIX are written and removed)", name)
	}
	member := ""
	if at := strings.LastIndexByte(prefix, '@'); at >= 0 {
		prefix, member = prefix[:at], prefix[at+1:]
	}
	found, err := bench.FindMember(ctx, h, member)
	if err != nil {
		return nil, orFailed(err)
	}
	writer := &bench.Writer{Prefix: prefix, Writes: etcdWrites, Value: etcdValueSize, Clock: h.Clock, Call: found.Call}
	once := func(ctx context.Context) (float64, error) {
		page, err := bench.ReadPage(ctx, found)
		if err != nil {
			return 0, err
		}
		// Removed keys take space until the database is compacted: it may be full.
		if err := writer.Check(page); err != nil {
			return 0, bench.Unwritable(err)
		}
		return writer.Work(ctx)
	}
	closing := func() error { found.Close(); return nil }
	return &benchWork{metric: prove.Metric{Name: etcdMetric, Unit: "s"}, once: once, close: closing}, nil
}
