package experiment

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	bench "fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/product/etcd"
)

// etcdWork writes to a running etcd below the given prefix. Each visit removes its keys.
type etcdWork struct {
	member *etcd.Member
	writer *bench.Writer
}

// Writes per visit: about a second on a disk that is fast enough for etcd.
const (
	etcdWrites    = 200
	etcdValueSize = 1024
)

// etcdMetric is the median time of a write, in seconds.
const etcdMetric = "put"

// newEtcdWork returns the work for a name: put=PREFIX, or put=PREFIX@MEMBER if several run.
func newEtcdWork(ctx context.Context, h *host.Host, name string) (*etcdWork, error) {
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
	return &etcdWork{found, &bench.Writer{Prefix: prefix, Writes: etcdWrites, Value: etcdValueSize, Clock: h.Clock, Call: found.Call}}, nil
}

func (w *etcdWork) Metric() prove.Metric { return prove.Metric{Name: etcdMetric, Unit: "s"} }

// Check writes once, to test whether that is possible.
func (w *etcdWork) Check(ctx context.Context) error {
	_, err := w.write(ctx)
	return orFailed(err)
}

func (w *etcdWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	s, err := w.write(ctx)
	return prove.Measurement{Values: prove.Values{etcdMetric: s}}, err
}

// write makes the writes of a visit. It returns an error if the database is full: removed keys
// take space until it is compacted.
func (w *etcdWork) write(ctx context.Context) (float64, error) {
	page, err := bench.ReadPage(ctx, w.member)
	if err != nil {
		return 0, err
	}
	if err := w.writer.Check(page); err != nil {
		return 0, bench.Unwritable(err)
	}
	return w.writer.Work(ctx)
}

// Close ends the connections. The visits have removed their keys.
func (w *etcdWork) Close() error {
	w.member.Close()
	return nil
}
