package disk

import (
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

// Role is the intended use of a directory.
type Role string

// The roles.
const (
	Pulp       Role = "pulp"
	PostgreSQL Role = "postgresql"
	Etcd       Role = "etcd"
	// Satellite stands for several of Satellite's directories on one file system.
	Satellite Role = "satellite"
)

// Roles lists the roles that the user can give.
var Roles = []Role{Pulp, PostgreSQL, Etcd}

// Word is a verdict.
type Word string

// Verdicts, best first.
const (
	Pass      Word = "pass"
	Warn      Word = "warn"
	Fail      Word = "fail"
	NoVerdict Word = "no verdict"
)

// Threshold is a published limit of a figure.
type Threshold struct {
	Name string
	Cell string
	Unit string
	// figure extracts the value to compare.
	figure func(*Result) float64
	More   bool
	// A value beyond Fail, Warn or Good means fail, warn, or pass with Note. 0 means no limit.
	Fail, Warn, Good float64
	Roles            []Role
	Classes          []fact.Class // empty: all
	Note             string       // added to a verdict below Good
	Source, Short    string       // Short names the source in a headline
}

const (
	satelliteSource = "Red Hat solution \"Impact of Disk Speed on Satellite 6 Operations\""
	benchmarkSource = "README of satellite-support's storage-benchmark"
	etcdSource      = "https://etcd.io/docs/v3.5/op-guide/hardware/"
	etcdFAQ         = "https://etcd.io/docs/v3.5/faq/"
)

// mib converts MB/s to MiB/s.
func mib(r *Result) float64 { return r.Value * 1e6 / (1 << 20) }

func syncRate(r *Result) float64 { return r.SyncsPS }

func millis(r *Result) float64 { return r.Value }

// thresholds are the published limits.
var thresholds = []Threshold{
	{Name: "stream read", Cell: "stream-read", Unit: "MiB/s", figure: mib, More: true, Fail: 60, Warn: 80, Good: 100, Roles: []Role{Pulp, PostgreSQL, Satellite}, Source: satelliteSource + "; 100: " + benchmarkSource, Short: "Red Hat, disk speed of Satellite",
		Note: "the minimum; 100 or more is recommended"},
	{Name: "stream read of its class", Cell: "stream-read", Unit: "MiB/s", figure: mib, More: true, Warn: 100, Roles: []Role{Pulp, PostgreSQL, Satellite}, Classes: []fact.Class{fact.ClassHDD}, Source: benchmarkSource, Short: "storage-benchmark",
		Note: "slower than typical hard disks"},
	{Name: "stream read of its class", Cell: "stream-read", Unit: "MiB/s", figure: mib, More: true, Warn: 600, Roles: []Role{Pulp, PostgreSQL, Satellite}, Classes: []fact.Class{fact.ClassSSD}, Source: benchmarkSource, Short: "storage-benchmark",
		Note: "slower than typical local SSDs; an SSD on SATA 2 cannot be faster"},
	{Name: "stream read of its class", Cell: "stream-read", Unit: "MiB/s", figure: mib, More: true, Warn: 1000, Roles: []Role{Pulp, PostgreSQL, Satellite}, Classes: []fact.Class{fact.ClassNVMe}, Source: "fettle: half the speed of device 5 in the Satellite solution", Short: "ours",
		Note: "slower than typical NVMe devices"},
	{Name: "fdatasync p99", Cell: "etcd", Unit: "ms", figure: millis, Fail: 10, Roles: []Role{Etcd}, Source: etcdFAQ, Short: "etcd FAQ"},
	{Name: "fdatasync p99", Cell: "etcd", Unit: "ms", figure: millis, Warn: 10, Roles: []Role{PostgreSQL, Satellite}, Source: "etcd's limit, " + etcdFAQ + "; a commit waits for the same", Short: "etcd FAQ"},
	{Name: "synced writes", Cell: "etcd", Unit: "1/s", figure: syncRate, More: true, Fail: 50, Good: 500, Roles: []Role{Etcd}, Source: etcdSource, Short: "etcd, hardware",
		Note: "the minimum; a cluster with heavy load needs 500"},
}

// Judgment is the verdict by one limit.
type Judgment struct {
	Name    string  `json:"name"`
	Cell    string  `json:"cell"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Verdict Word    `json:"verdict"`
	Text    string  `json:"text"`
	Source  string  `json:"source"`
}

// mostSpread is the spread of the repeats above which no verdict is given.
const mostSpread = 0.25

// judge compares a place's figures with the limits of its role. Without a role it uses the limits
// of all roles, each name once.
func judge(p *Place, results []Result) (out []Judgment) {
	for _, t := range thresholds {
		i := slices.IndexFunc(results, func(r Result) bool { return r.Name == t.Cell })
		switch {
		case i < 0,
			len(t.Classes) > 0 && !slices.Contains(t.Classes, p.Storage.Class),
			p.Role != "" && !slices.Contains(t.Roles, p.Role),
			p.Role == "" && slices.ContainsFunc(out, func(j Judgment) bool { return j.Name == t.Name }):
			continue
		}
		out = append(out, t.judge(&results[i]))
	}
	return out
}

func (t *Threshold) judge(r *Result) Judgment {
	j := Judgment{Name: t.Name, Cell: t.Cell, Value: t.figure(r), Unit: t.Unit, Verdict: Pass, Source: t.Source}
	beyond := func(limit float64) bool {
		return limit != 0 && (t.More && j.Value < limit || !t.More && j.Value >= limit)
	}
	switch {
	case r.Doubtful() != nil:
		j.Verdict, j.Text = NoVerdict, r.Doubtful().Text
		return j
	case beyond(t.Fail):
		j.Verdict = Fail
	case beyond(t.Warn):
		j.Verdict = Warn
	case beyond(t.Good):
		j.Text = t.Note
		return j
	}
	j.Text = "want " + t.wanted(j.Verdict)
	if j.Verdict == Warn && t.Note != "" && t.Fail == 0 {
		j.Text += ": " + t.Note
	}
	return j
}

// wanted returns the limit that decided a verdict, as text: "at least 60 MiB/s".
func (t *Threshold) wanted(v Word) string {
	side, limit := "at least", t.Fail
	if !t.More {
		side = "below"
	}
	if v == Warn || limit == 0 {
		limit = t.Warn
	}
	return fmt.Sprintf("%s %s %s", side, unit.Digits(limit), t.Unit)
}

// overall returns the worst verdict, or NoVerdict for an empty list.
func overall(all []Judgment) Word {
	order := []Word{Fail, Warn, NoVerdict, Pass}
	at := len(order)
	for _, j := range all {
		at = min(at, slices.Index(order, j.Verdict))
	}
	if at == len(order) {
		return NoVerdict
	}
	return order[at]
}

// ForemanMaintain is the result that foreman-maintain's check disk-performance would report. The
// check reads 4 KiB at a time, one request after the other, with direct I/O. It compares the
// throughput with a limit (definitions/checks/disk/performance.rb).
type ForemanMaintain struct {
	Command string  `json:"command"`
	MiBPS   float64 `json:"mib_per_s"`
	Says    string  `json:"says"` // pass, fail
}

const foremanLimit = 60 // its "MB/sec", which is MiB/s

// CompareForeman adds that result to each directory.
func (e *Evidence) CompareForeman() {
	for i := range e.Places {
		e.Places[i].Foreman = foremanMaintain(e.Places[i].Results)
	}
}

func foremanMaintain(results []Result) *ForemanMaintain {
	for _, r := range results {
		if r.Name == "block-4k" {
			f := &ForemanMaintain{"fio --rw=read --size=1g --direct=1 --unlink=1", mib(&r), "pass"}
			if f.MiBPS < foremanLimit {
				f.Says = "fail"
			}
			return f
		}
	}
	return nil
}

// Reference is a device that Red Hat's scale team measured with storage-benchmark: 4 KiB at a
// time through the page cache (satelliteSource).
type Reference struct {
	Device      string
	Read, Write float64 // MiB/s
	Note        string
}

// references are the devices in that solution.
var references = []Reference{
	{"SATA HDD, 1 TB", 115, 129, ""},
	{"PERC H710, 2.8 TB", 773, 685, ""},
	{"NFS over 1 Gbit/s", 102, 55.8, "its write ended after half of the file"},
	{"PERC H710 SAS, 1 TB", 92.3, 109, ""},
	{"NVMe", 2124, 1409, "its write ended before the end of the file"},
	{"SATA SSD", 692, 361, "impossible: SATA 3 is limited to about 550 MB/s, so the name is wrong or a cache was measured; its write ended before the end of the file"},
}
