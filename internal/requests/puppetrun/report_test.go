package puppetrun

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Reports of several versions of Puppet, with the YAML of their Ruby version.
var written = map[string]string{
	"2.7, its own YAML": `--- !ruby/object:Puppet::Transaction::Report
  host: node1.test
  kind: apply
  logs: []

  metrics: 
    time: !ruby/object:Puppet::Util::Metric
      name: time
      label: Time
      values: 
        - - :config_retrieval
          - Config retrieval
          - 5.5
        - - :file
          - File
          - 0.25
        - - :total
          - Total
          - 5.75
  report_format: 2
  resource_statuses: 
    "File[/etc/motd]": !ruby/object:Puppet::Resource::Status
      changed: true
      evaluation_time: 0.25
      failed: false
      resource: "File[/etc/motd]"
  status: changed
  time: 2013-06-01 10:00:00.500000 +02:00
`,
	"3": `--- !ruby/object:Puppet::Transaction::Report
metrics:
  time: !ruby/object:Puppet::Util::Metric
    name: time
    label: Time
    values:
    - - config_retrieval
      - Config retrieval
      - 5.5
    - - file
      - File
      - 0.25
    - - total
      - Total
      - 5.75
logs:
- !ruby/object:Puppet::Util::Log
  level: !ruby/sym notice
  tags: !ruby/object:Puppet::Util::TagSet
    hash: {}
  message: ! 'content changed ''{md5}0'' to

    ''{md5}1'''
resource_statuses:
  File[/etc/motd]: !ruby/object:Puppet::Resource::Status
    title: /etc/motd
    file: &18293740 /etc/puppet/manifests/site.pp
    evaluation_time: 0.25
    failed: false
    changed: true
    events:
    - !ruby/object:Puppet::Transaction::Event
      file: *18293740
host: node1.test
time: 2013-06-01 08:00:00.500000000 Z
kind: apply
report_format: 4
status: changed
`,
	"7": `--- !ruby/object:Puppet::Transaction::Report
host: node1.test
time: '2013-06-01T08:00:00.500000000Z'
configuration_version: 1795365425
transaction_uuid: 1c79eaaf-9d1e-4937-97c2-8776d2572d75
report_format: 12
puppet_version: 7.23.0
status: changed
transaction_completed: true
noop: false
noop_pending: false
environment: production
logs: []
metrics:
  time:
    name: time
    label: Time
    values:
    - - file
      - File
      - 0.25
    - - config_retrieval
      - Config retrieval
      - 5.5
    - - total
      - Total
      - 5.75
resource_statuses:
  ? File[/etc/motd]
  : title: "/etc/motd"
    resource: File[/etc/motd]
    resource_type: File
    evaluation_time: 0.25
    failed: false
    failed_to_restart: false
    changed: true
corrective_change: false
cached_catalog_status: not_used
`,
	"8, of JSON": `{"host":"node1.test","time":"2013-06-01T08:00:00.500000000+00:00","report_format":12,"status":"changed","metrics":{"time":{"name":"time","label":"Time","values":[["file","File",0.25],["config_retrieval","Config retrieval",5.5],["total","Total",5.75]]}},"resource_statuses":{"File[/etc/motd]":{"evaluation_time":2.5e-1,"failed":false,"changed":true}},"cached_catalog_status":"not_used"}`,
	"a name that was bytes": `host: !binary |-
  bm9kZTEudGVzdA==
time: '2013-06-01T08:00:00.500000000Z'
status: changed
metrics:
  time: {values: [[config_retrieval, Config retrieval, 5.5], [file, File, 0.25], [total, Total, 5.75], [broken], [broken, Broken, .nan], [broken, Broken, -1]]}
resource_statuses:
  File[/etc/motd]: {evaluation_time: 0.25, changed: true}
  nothing: null
`,
}

func TestParse(t *testing.T) {
	for name, text := range written {
		r, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, p := range []Part{{"config_retrieval", 5.5}, {"file", 0.25}, {"total", 5.75}} {
			if got, ok := r.part(p.Name); !ok || got != p.Seconds {
				t.Errorf("%s: %s is %g, want %g", name, p.Name, got, p.Seconds)
			}
		}
		want := Report{Node: "node1.test", Began: time.Date(2013, 6, 1, 8, 0, 0, 5e8, time.UTC), Status: "changed", Resources: []Resource{{"File[/etc/motd]", 0.25, false, true}}}
		n := len(r.Parts)
		if r.Parts = nil; n != 3 || !cmp.Equal(*r, want) {
			t.Errorf("%s, %d times: %s", name, n, cmp.Diff(want, *r))
		}
	}
	for text, want := range map[string]string{
		"":           ErrNoReport.Error(),
		"just words": ErrNoReport.Error(),
		"[1, 2]":     ErrNoReport.Error(),
		"version:\n  config: 1\ntime:\n  total: 5\n": ErrNoReport.Error(), // last_run_summary.yaml
		"host: a\ntime: yesterday\n":                 `invalid time "yesterday"`,
		"host: a\n\ttime: b":                         "yaml: ",
		"host: *nothing\ntime: 1":                    "unknown anchor",
	} {
		if r, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %s", text, r, err, want)
		}
	}
	r, err := Parse([]byte("host: a\ntime: '2026-11-22T16:37:06.1+01:00'\nstatus: failed\nmetrics: {}\nlogs: []\nresource_statuses: {}\ncached_catalog_status: on_failure\n"))
	if err != nil || !r.Cached || len(r.Parts) != 0 || r.Status != "failed" {
		t.Errorf("a run without a catalog: %+v, %v", r, err)
	}
}

// TestHostile tests that reports that are built to cost memory or time cost little of either.
func TestHostile(t *testing.T) {
	const begin = "host: a\ntime: '2026-11-22T16:37:06Z'\nmetrics:\n  time:\n    values: [[total, Total, 1]]\n"
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x]\n")
	for i := range 60 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	var aliases strings.Builder
	aliases.WriteString("big: &big\n")
	for i := range 20_000 {
		fmt.Fprintf(&aliases, "  k%d: 1\n", i)
	}
	aliases.WriteString("resource_statuses:\n")
	for i := range 20_000 {
		fmt.Fprintf(&aliases, "  File[/%d]: *big\n", i)
	}
	for name, x := range map[string]struct {
		text string
		want string // of the error; empty: it is read
	}{
		"a bomb":            {begin + "resource_statuses: {}\n" + bomb.String(), ""},
		"many of one":       {begin + aliases.String(), ""},
		"within itself":     {begin + "resource_statuses: &r\n  a: *r\n", ""},
		"deep":              {begin + "x: " + strings.Repeat("[", 200_000), "yaml: "},
		"many values":       {begin + "x: [" + strings.Repeat("a,", 2_000_000) + "]", "more than about 1,000,000 values"},
		"many keys":         {begin + strings.Repeat("a: b\n", 1_000_000), "more than about 1,000,000 values"},
		"many in quotes":    {begin + "x: {" + strings.Repeat(`"a":1,`, 500_000) + "}", "more than about 1,000,000 values"},
		"nearly as many":    {begin + "x: [" + strings.Repeat("a,", 900_000) + "]", ""},
		"a long text":       {begin + "x: \"" + strings.Repeat("a", 8<<20) + "\"", ""},
		"many empty values": {begin + "x:\n" + strings.Repeat("-\n", 1_500_000), "more than about 1,000,000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			r, err := Parse([]byte(x.text))
			runtime.ReadMemStats(&after)
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
			if err == nil && r.Node != "a" {
				t.Errorf("%+v", r)
			}
			// All that was ever asked for, freed or not: what is in use at a time is less.
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 400 {
				t.Errorf("%d MB", mb)
			} else {
				t.Logf("%d MB for %d bytes", mb, len(x.text))
			}
		})
	}
}

// FuzzParse tests that times of any file are valid, and that equal texts have equal results.
func FuzzParse(f *testing.F) {
	for _, text := range written {
		f.Add([]byte(text))
	}
	f.Add([]byte("host: &a b\ntime: *a\nmetrics: &m {time: *m}\n"))
	f.Add([]byte("? a\n: - b\n- c: {d: [e, 'f', \"g\"]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		r, err := Parse(text)
		again, errAgain := Parse(text)
		if (err == nil) != (errAgain == nil) || !cmp.Equal(r, again) {
			t.Errorf("%v, then %v", err, errAgain)
		}
		if err != nil {
			if r != nil {
				t.Errorf("%+v and %v", r, err)
			}
			if errors.Is(err, ErrNoReport) != (err.Error() == ErrNoReport.Error()) {
				t.Error(err)
			}
			return
		}
		for _, p := range r.Parts {
			if !(p.Seconds >= 0 && p.Seconds < longestRun) {
				t.Errorf("%+v", p)
			}
		}
		for _, x := range r.Resources {
			if !(x.Seconds >= -1 && x.Seconds < longestRun) {
				t.Errorf("%+v", x)
			}
		}
		if r.Node == "" || r.Began.IsZero() {
			t.Errorf("%+v", r)
		}
	})
}
