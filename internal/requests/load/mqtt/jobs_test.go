package mqtt

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/testkit/root"
)

// jobs simulates the server from which hosts fetch jobs and to which they report.
type jobs struct {
	*httptest.Server
	// answer returns the status for a request; path is GET or POST and the path after the base.
	answer func(path string) int

	mu      sync.Mutex
	fetched map[string]int
	reports map[string][]update
}

func newJobs(t *testing.T, answer func(path string) int) *jobs {
	t.Helper()
	return startJobs(t, answer, (*httptest.Server).Start)
}

func startJobs(t *testing.T, answer func(path string) int, start func(*httptest.Server)) *jobs {
	t.Helper()
	j := &jobs{answer: answer, fetched: map[string]int{}, reports: map[string][]update{}}
	j.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, below := strings.CutPrefix(r.URL.Path, "/ssh/jobs/")
		text, err := io.ReadAll(r.Body)
		if !below || err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		status := http.StatusOK
		if j.answer != nil {
			status = j.answer(r.Method + " " + path)
		}
		if status == http.StatusOK {
			j.mu.Lock()
			defer j.mu.Unlock()
			if id, is := strings.CutSuffix(path, "/update"); is && r.Method == "POST" {
				var x report
				if err := json.Unmarshal(text, &x); err != nil || r.Header.Get("Content-Type") != "application/json" || x.Version != "1" {
					t.Errorf("%s: %v %s", path, err, text)
				}
				j.reports[id] = append(j.reports[id], x.Updates...)
			} else {
				j.fetched[path]++
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "#!/bin/sh\n")
	}))
	start(j.Server)
	t.Cleanup(j.Close)
	return j
}

// pull describes how hosts use the server.
func (j *jobs) pull(t *testing.T, every, jobTime time.Duration) *Pull {
	t.Helper()
	set, err := engine.Make(t.Context(), []engine.Asked{{Weight: 1, Method: "GET", URL: j.URL + "/ssh/jobs"}}, engine.Common{}, &engine.Allowed{}, net.DefaultResolver)
	if err != nil {
		t.Fatal(err)
	}
	return &Pull{Base: set.Requests[0], Sockets: set.Origins[0].Sockets, Name: set.Origins[0].Name, Every: every, JobTime: jobTime}
}

// TestRefusedJobs tests that a request that the server rejects is lost, as on a real host, which
// does not retry.
func TestRefusedJobs(t *testing.T) {
	root.Real(t, "waits ten seconds for jobs that do not end")
	t.Parallel()
	number := func(path string) string { return path[strings.LastIndex(path, "-")+1:][:12] }
	posts, mu := map[string]int{}, sync.Mutex{}
	j := newJobs(t, func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		n := number(path)
		if strings.HasPrefix(path, "POST ") {
			posts[n]++
		}
		switch {
		case n == "000000000001" && strings.HasPrefix(path, "GET "):
			return http.StatusServiceUnavailable
		case n == "000000000002" && posts[n] == 1: // its output
			return http.StatusServiceUnavailable
		case n == "000000000003" && posts[n] == 2: // its end
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 6)
	p.Pull, p.Wait = j.pull(t, 100*time.Millisecond, 200*time.Millisecond), 10*time.Second
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	q := o.Pull
	if o.Notified != 6 || q.Fetched != 5 || o.Undelivered != 1 || q.Finished != 4 || q.Unresponsive != 1 || q.OutputLost != 1 || q.Failed != 2 || q.FetchFailures["status-503"].N != 1 || q.ReportFailures["status-503"].N != 2 {
		t.Errorf("%s: %+v %+v", x.Text, o, q)
	}
	for _, want := range []string{"1 of 6 jobs were not delivered (fetching failed: status-503 1 time, as 503 Service Unavailable)", "1 job hung", "1 job lacked output"} {
		if !strings.Contains(x.Text, want) {
			t.Errorf("%q is not in %s", want, x.Text)
		}
	}
}

// TestSentAgain tests that a host whose message was lost is notified after two TTL and the resend
// interval.
func TestSentAgain(t *testing.T) {
	root.Real(t, "waits five seconds for a resend")
	t.Parallel()
	b, j := newBroker(t), newJobs(t, nil)
	lost := false
	b.deaf = func(topic string) bool {
		first := topic == jobTopic("host1") && !lost
		lost = lost || first
		return first
	}
	go b.start()
	p := planOf(t, b, 3)
	p.Pull = j.pull(t, 100*time.Millisecond, 100*time.Millisecond)
	p.Settings = []Settings{{TTL: 2 * time.Second, Resend: time.Second}}
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	// A machine that is too busy for the others within four seconds sends to them again.
	if o.Notified != 3 || o.Published != 3+o.SentAgain || o.SentAgain < 1 || o.Pull.Finished != 3 || o.Pull.PickUp.MaxS < 4.9 {
		t.Errorf("%s: %+v %+v", x.Text, o, o.Pull)
	}
}

// TestStartedTwice tests that a host that is slower than two TTL and fetches before the resend gets
// its job twice.
func TestStartedTwice(t *testing.T) {
	root.Real(t, "waits ten seconds for a resend")
	t.Parallel()
	slow := make(chan struct{})
	var once sync.Once
	first := true
	mu := sync.Mutex{}
	j := newJobs(t, func(path string) int {
		mu.Lock()
		wait := first && strings.HasPrefix(path, "GET ")
		if wait {
			first = false
		}
		mu.Unlock()
		if wait {
			<-slow
		}
		return http.StatusOK
	})
	b := newBroker(t)
	// Two seconds after the notification the job is given up, four later it is fetched, and six
	// later, long before its end, it is sent again: so long no machine stands still.
	b.deaf = func(string) bool {
		time.AfterFunc(6*time.Second, func() { once.Do(func() { close(slow) }) })
		return false
	}
	go b.start()
	p := planOf(t, b, 1)
	p.Pull = j.pull(t, 100*time.Millisecond, 14*time.Second)
	p.Settings, p.Wait = []Settings{{TTL: time.Second, Resend: 10 * time.Second}}, 2*time.Minute
	x := ran(t.Context(), t, p)
	if q := x.Rounds[0].Pull; q.StartedTwice != 1 || q.Finished != 1 || x.Rounds[0].SentAgain < 1 {
		t.Errorf("%s: %+v", x.Text, q)
	}
}
