package cli

import (
	"context"
	"fmt"
	"strings"

	bench "fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/product/etcd"
)

// etcdWork is so many writes to a running etcd as the work of an experiment. They are
// beneath a prefix that was asked for, and removed after each visit.
type etcdWork struct {
	member *etcd.Member
	writer *bench.Writer
}

// Of one visit: a second or so on a disk that etcd can live with.
const (
	etcdWrites    = 200
	etcdValueSize = 1024
)

// etcdMetric is the median time of a write.
const etcdMetric = "put"

// etcdWork makes the work of a name: put=PREFIX, or put=PREFIX@MEMBER where several run.
func (m *machine) etcdWork(ctx context.Context, name string) (*etcdWork, error) {
	prefix, is := strings.CutPrefix(name, etcdMetric+"=")
	if !is {
		return nil, fmt.Errorf("no cell of the etcd bench is called %q: want put=PREFIX, beneath which keys are written and removed again, as put=bench", name)
	}
	member := ""
	if at := strings.LastIndexByte(prefix, '@'); at >= 0 {
		prefix, member = prefix[:at], prefix[at+1:]
	}
	found, err := m.etcdMember(ctx, member)
	if err != nil {
		return nil, orFailed(err)
	}
	return &etcdWork{found, &bench.Writer{Prefix: prefix, Writes: etcdWrites, Value: etcdValueSize, Clock: m.host.Clock, Call: found.Call}}, nil
}

func (w *etcdWork) Metric() prove.Metric { return prove.Metric{Name: etcdMetric, Unit: "s"} }

// Check writes once: whether that is possible shows only then.
func (w *etcdWork) Check(ctx context.Context) error {
	_, err := w.write(ctx)
	return orFailed(err)
}

func (w *etcdWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	s, err := w.write(ctx)
	return prove.Measurement{Values: prove.Values{etcdMetric: s}}, err
}

// write makes the writes of a visit, unless they must not be made: what was removed takes
// its space in the database until that is compacted.
func (w *etcdWork) write(ctx context.Context) (float64, error) {
	page, err := askEtcd(ctx, w.member)
	if err != nil {
		return 0, err
	}
	if err := w.writer.Check(page); err != nil {
		return 0, unwritable(err)
	}
	return w.writer.Work(ctx)
}

// Close ends the connections; each visit has removed its keys.
func (w *etcdWork) Close() error {
	w.member.Close()
	return nil
}
