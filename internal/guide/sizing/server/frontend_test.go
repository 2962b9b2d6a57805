package server

import (
	"strings"
	"testing"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
)

func log(change func(*Traffic)) *Traffic {
	l := &Traffic{Logs: "access.log", SpanSeconds: 100_000, Count: 1_000_000, Timed: true, Most: 40, StepSeconds: 1, Rate: 300, RateSeconds: 60, Longest: 12, Slow: 3, Timeouts: map[string]uint64{}}
	if change != nil {
		change(l)
	}
	return l
}

func TestHTTPD(t *testing.T) {
	f := sizing.Figures(t)
	for name, tt := range map[string]struct {
		log     *Traffic
		workers int
		said    string
		want    map[string]string
		file    string // its name, and a part of its content
		part    string
		note    string
	}{
		"the default does": {log(nil), 0, "", map[string]string{"httpd/MaxRequestWorkers": "400", "httpd/ServerLimit": "16"}, RedHatFile, "ServerLimit 16\nThreadsPerChild 25\nMaxRequestWorkers 400\nMaxConnectionsPerChild 4000\n", ""},
		"a busy one":       {log(func(l *Traffic) { l.Most = 500.5 }), 0, "threads=16", map[string]string{"httpd/MaxRequestWorkers": "1008", "httpd/ServerLimit": "63"}, RedHatFile, "MaxRequestWorkers 1008\n", ""},
		// 150 registrations at once were 582 requests (000, 5.3.1).
		"registrations on prefork": {log(func(l *Traffic) { l.Most = 582 }), 256, "mpm=prefork headroom=1", map[string]string{"httpd/MaxRequestWorkers": "582", "httpd/ServerLimit": "582"}, RedHatFile, "ServerLimit 582\nMaxRequestWorkers 582\n", "prefork keeps a process"},
		"Debian":                   {log(nil), 0, "for=debian", map[string]string{"httpd/MaxRequestWorkers": "400"}, DebianFile, "MaxRequestWorkers 400\n", ""},
		"Satellite":                {log(func(l *Traffic) { l.Most = 512 }), 0, "for=satellite threads=16", map[string]string{"httpd/MaxRequestWorkers": "1024", "httpd/ServerLimit": "64"}, HieraFile, "apache::mod::event::serverlimit: 64\napache::mod::event::maxrequestworkers: 1024\n", "override --tuning"},
		"it has more":              {log(nil), 1000, "", map[string]string{"httpd/MaxRequestWorkers": "1000"}, RedHatFile, "MaxRequestWorkers 1000\n", ""},
		"at its limit":             {log(func(l *Traffic) { l.Most = 149 }), 150, "", map[string]string{"httpd/MaxRequestWorkers": "400"}, RedHatFile, "400", "the log reaches httpd's present limit"},
		"many threads":             {log(func(l *Traffic) { l.Most = 3000 }), 0, "threads=400", map[string]string{"httpd/ServerLimit": "15", "httpd/ThreadLimit": "400", "unit/LimitNOFILE": "1300"}, "etc/systemd/system/httpd.service.d/limits.conf", "LimitNOFILE=1300\n", ""},
		"many threads on Debian":   {log(func(l *Traffic) { l.Most = 3000 }), 0, "for=debian threads=400", map[string]string{"httpd/ThreadLimit": "400"}, DebianFile, "ThreadLimit 400\n", ""},
		"more than Debian lets":    {log(func(l *Traffic) { l.Most = 3000 }), 0, "for=debian threads=3000", map[string]string{"httpd/APACHE_ULIMIT_MAX_FILES": "ulimit -n 9100"}, DebianFile, "ThreadLimit 3000\n", ""},
		"a short log":              {log(func(l *Traffic) { l.SpanSeconds = 3600 }), 0, "", map[string]string{"log/at_work": "40"}, RedHatFile, "400", "less than a day"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewHTTPD()
			w.Traffic, w.Workers = tt.log, tt.workers
			r := sizing.Sized(t, f, w, sizing.Words(tt.said)...)
			sizing.Want(t, r, tt.want)
			if a := r.Artefact(tt.file); a == nil || !strings.Contains(a.Content, tt.part) {
				t.Errorf("%s: %+v", tt.file, a)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("no note has %q: %q", tt.note, r.Notes)
			}
		})
	}
}

func TestRouter(t *testing.T) {
	f := sizing.Figures(t)
	for name, tt := range map[string]struct {
		log  *Traffic
		said string
		want map[string]string
		part string // of its only file
		note string
	}{
		"the default does": {log(nil), "cpus=4 ram=16GiB", map[string]string{"router/maxconn": "50000", "router/threads": "4", "router/routers": "2", "router/timeout_server": "30"}, "tuningOptions:\n    threadCount: 4\n    maxConnections: 50000\n    clientTimeout: 30s\n    serverTimeout: 30s\n", "threadCount exists"},
		// Edge routes: 16743 requests/s by one (002, 11.1).
		"many requests":  {log(func(l *Traffic) { l.Rate = 40_000 }), "cpus=4 ram=16GiB", map[string]string{"router/routers": "5"}, "replicas: 5\n", ""},
		"of passthrough": {log(func(l *Traffic) { l.Rate = 40_000 }), "cpus=4 ram=16GiB route=passthrough", map[string]string{"router/routers": "3"}, "replicas: 3\n", ""},
		// 2729 where each has its own connection; with two for each, 1/(1/16743 + (1/2729 - 1/16743)/2) is 4693.
		"none is kept":     {log(func(l *Traffic) { l.Rate, l.PerConnection = 40_000, 1 }), "cpus=4 ram=16GiB", map[string]string{"router/routers": "30", "log/per_connection": "1"}, "replicas: 30\n", ""},
		"two requests":     {log(func(l *Traffic) { l.Rate, l.PerConnection = 40_000, 2 }), "cpus=4 ram=16GiB", map[string]string{"router/routers": "18"}, "replicas: 18\n", ""},
		"all are kept":     {log(func(l *Traffic) { l.Rate, l.PerConnection = 40_000, 1e6 }), "cpus=4 ram=16GiB", map[string]string{"router/routers": "5"}, "replicas: 5\n", ""},
		"no answer":        {log(nil), "cpus=4 ram=16GiB", map[string]string{"router/routers": "2"}, "", "give 6.1 times as many routers"},
		"many connections": {log(func(l *Traffic) { l.Connections = 41_300 }), "cpus=4 ram=16GiB", map[string]string{"router/maxconn": "83000"}, "maxConnections: 83000\n", ""},
		"slow answers":     {log(func(l *Traffic) { l.Longest = 100 }), "cpus=4 ram=16GiB", map[string]string{"router/timeout_server": "125"}, "serverTimeout: 125s\n", ""},
		"cut off":          {log(func(l *Traffic) { l.Longest, l.Timeouts = 30, map[string]uint64{"server": 7} }), "cpus=4 ram=16GiB", map[string]string{"router/timeout_server": "60", "log/timeouts_server": "7"}, "serverTimeout: 60s\n", ""},
		"hours":            {log(func(l *Traffic) { l.Longest = 9000 }), "cpus=4 ram=16GiB", map[string]string{"router/timeout_server": "600"}, "serverTimeout: 600s\n", "need a longer timeout for their route"},
		"HAProxy":          {log(func(l *Traffic) { l.Connections = 5200 }), "cpus=2 ram=4GiB for=haproxy", map[string]string{"router/maxconn": "11000", "router/threads": "2", "router/timeout_connect": "5"}, "global\n    # connections of clients; each has two sockets and two buffers\n    maxconn 11000\n", ""},
		"the queue":        {log(func(l *Traffic) { l.Timeouts["queue"], l.Timeouts["client"] = 3, 9 }), "cpus=4 ram=16GiB", map[string]string{"log/timeouts_client": "9"}, "clientTimeout: 30s\n", "timed out in the queue"},
		"less memory":      {log(nil), "cpus=4 ram=1GiB", map[string]string{"router/maxconn": "15000"}, "maxConnections: 15000\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewRouter()
			w.Traffic = tt.log
			r := sizing.Sized(t, f, w, sizing.Words(tt.said)...)
			sizing.Want(t, r, tt.want)
			if len(r.Files) != 1 || !strings.Contains(r.Files[0].Content, tt.part) {
				t.Errorf("%+v", r.Files)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("no note has %q: %q", tt.note, r.Notes)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	f := sizing.Figures(t)
	for name, tt := range map[string]struct {
		log  *Traffic
		said string
		want string
	}{
		"no log":               {nil, "cpus=4 ram=1GiB", "--log: not given"},
		"an empty one":         {log(func(l *Traffic) { l.Count = 0 }), "cpus=4 ram=1GiB", "has no request"},
		"no times":             {log(func(l *Traffic) { l.Timed = false }), "cpus=4 ram=1GiB", "has no durations"},
		"no CPUs":              {log(nil), "", "--cpus: not given"},
		"more than the memory": {log(func(l *Traffic) { l.Connections = 90_000 }), "cpus=4 ram=4GiB", "--ram: 180,000 connections take"},
	} {
		w := NewRouter()
		w.Traffic = tt.log
		if _, err := sizing.Ask(f, w, sizing.Words(tt.said)...); err == nil || !strings.Contains(err.Error(), tt.want) || !sizing.BadInput(err) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	w := NewHTTPD()
	w.Traffic = log(func(l *Traffic) { l.Most = 1e6 })
	if _, err := sizing.Ask(f, w); err == nil || !strings.Contains(err.Error(), "use several servers") {
		t.Error(err)
	}
}

func FuzzHTTPD(f *testing.F) {
	sizing.Fuzz(f, func() *HTTPD {
		w := NewHTTPD()
		w.Traffic = log(nil)
		return w
	}, []string{"", "mpm=prefork headroom=3", "for=satellite threads=20000 headroom=100"}, func(t *testing.T, r *guidesizing.Result) {
		workers, ok := r.Value("httpd", "MaxRequestWorkers").Value.(int)
		if processes := r.Value("httpd", "ServerLimit").Value.(int); !ok || workers%processes != 0 || float64(workers) < 40 {
			t.Fatalf("%d workers in %d processes", workers, processes)
		}
	})
}
