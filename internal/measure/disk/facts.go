package disk

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/text"
)

// set names the set of data directories, one per storage.
const set = "measured.disk"

// Source describes the facts that benchmarks give to rules. For each data directory of a product it
// uses the newest benchmark of that storage in the state directory. The storage rules of Satellite
// and etcd use it.
func Source() platform.Source {
	in := func(name string, t fact.Type, unit, doc string) fact.Input {
		return fact.Input{Name: set + ".*." + name, Type: t, Unit: unit, Doc: doc}
	}
	return platform.Source{
		Prefix: "measured",
		Sets:   []string{set},
		Inputs: []fact.Input{
			in("of", fact.List, "", "The products whose data is on the storage: satellite, etcd."),
			in("class", fact.Text, "", "The class of the storage: hdd, ssd, nvme, san, virtual."),
			in("stream_read", fact.Number, "MiB/s", "Streaming read rate in the newest valid benchmark."),
			in("stream_read_run", fact.Text, "", "Run of that benchmark, and its age."),
			in("fdatasync_p99", fact.Number, "ms", "99th percentile of fdatasync in the newest valid benchmark."),
			in("fdatasync_run", fact.Text, "", "Run of that benchmark, and its age."),
			in("fsync_reported", fact.Truth, "", "The etcd on the storage reports the times of its own log."),
		},
		Open: open,
	}
}

// dataStorage is a storage with data of products.
type dataStorage struct {
	dir      string // first of its directories
	storage  fact.Storage
	of       []string
	reported bool
}

func open(_ context.Context, s *platform.Subject) platform.Answers {
	known := &platform.Known{}
	records, unread := runs(s)
	storages, why := places(s)
	if len(storages) == 0 && why != "" {
		known.Unlisted(set, why)
	}
	for _, p := range storages {
		known.Add(set, p.dir)
		item := set + "." + p.dir + "."
		known.Give(item+"of", p.of, "")
		known.Give(item+"fsync_reported", p.reported, "")
		known.Give(item+"class", string(p.storage.Class), "/sys/block")
		if p.storage.Class == fact.ClassUnknown {
			known.Unclear(item+"class", "/sys/block", "the class of the disk that holds "+p.dir+" is unknown")
		}
		for _, f := range figures {
			figure, run := item+f.name, item+strings.TrimSuffix(f.name, "_p99")+"_run"
			r, why := newest(s, records, p, f.cell)
			if r == nil {
				if unread != "" {
					why = unread
				}
				known.Put(fact.Answer{Unknown: why + "; " + f.command + " " + text.Quote(p.dir) + " measures it"}, figure, run)
				continue
			}
			known.Give(figure, f.value(&r.result), r.file)
			known.Give(run, r.text(s.Host.Clock.Now()), r.file)
		}
	}
	return known
}

// figures lists the facts taken from a benchmark.
var figures = []struct {
	name, cell, command string
	value               func(*Result) float64
}{
	{"stream_read", "stream-read", "fettle bench disk", func(r *Result) float64 { return round(r.Value * 1e6 / (1 << 20)) }},
	{"fdatasync_p99", "etcd", "fettle bench disk --role etcd", func(r *Result) float64 { return round(r.Value) }},
}

// satelliteDirs are the directories that fettle bench disk --platform satellite measures.
var satelliteDirs = []string{"/var/lib/pulp", "/var/lib/pgsql", "/var/opt/rh/rh-postgresql12/lib/pgsql", "/var/lib/qpidd", "/var/lib/candlepin"}

// places returns, once each, the storages with data. why describes data that could not be read.
func places(s *platform.Subject) (all []*dataStorage, why string) {
	add := func(of, dir string, reported bool) {
		st := fact.StorageOf(s.Host, dir)
		for _, p := range all {
			if p.dir == dir || st.Mount != "" && same(p.storage, st) {
				if !slices.Contains(p.of, of) {
					p.of = append(p.of, of)
				}
				p.reported = p.reported || reported
				return
			}
		}
		all = append(all, &dataStorage{dir, st, []string{of}, reported})
	}
	satellite := s.Answer("satellite.version")
	if satellite.Value != nil {
		for _, dir := range satelliteDirs {
			if _, err := s.Host.Files.Stat(dir); err == nil {
				add("satellite", dir, false)
			}
		}
	}
	members, unknown := s.Items("etcd")
	for _, m := range members {
		reported := s.Answer("etcd."+m+".fsync_at_most_s").Value != nil
		dir, _ := s.Answer("etcd." + m + ".wal-dir").Value.(string)
		if dir == "" {
			dir, _ = s.Answer("etcd." + m + ".data-dir").Value.(string)
		}
		if path.IsAbs(dir) {
			add("etcd", path.Clean(dir), reported)
		}
	}
	return all, cmp.Or(unknown, satellite.Unknown)
}

func round(v float64) float64 {
	if v >= 100 {
		return float64(int64(v + 0.5))
	}
	return float64(int64(v*100+0.5)) / 100
}

// days formats an age in days.
func days(n int) string {
	switch n {
	case 0:
		return "today"
	case 1:
		return "1 day ago"
	}
	return fmt.Sprintf("%s ago", text.Count(n, "day"))
}
