package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// With --requests each connection makes so many, and every one of them counts.
func TestLoadRequests(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%10 == 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}))
	defer server.Close()
	state := filepath.Join(t.TempDir(), "state")
	began := time.Now()
	_, x := loadHTTP(t, state, 0, "--connections", "5", "--requests", "40", "--output", "json", server.URL)
	if x == nil {
		t.Fatal("no result")
	}
	if x.RequestsAsked != 200 || x.RequestsEach != 40 || x.Whole.Starts != 200 || x.Whole.Statuses["200"] != 200 || x.Cut != nil || x.WarmUp.LeftOutS != 0 {
		t.Errorf("%d of %d requests, %+v", x.Whole.Starts, x.RequestsAsked, x.Cut)
	}
	// Mean and deviation are of all: 20 of 200 took 20 ms and more.
	if l := x.Whole.Latency; l.N != 200 || l.MeanS < 0.002 || !(l.SDS > 0 && l.SDS < l.MaxS) {
		t.Errorf("%+v", l)
	}
	// The rate is over the time that they took, not over that of --for.
	if took := 200 / x.Whole.AnswerRate; !(took > 0 && took <= time.Since(began).Seconds()) {
		t.Errorf("%g answers a second", x.Whole.AnswerRate)
	}
	out, _ := loadHTTP(t, state, 0, "--connections", "2", "--requests", "3", server.URL)
	if !strings.Contains(out, "standard deviation") {
		t.Errorf("no deviation in\n%s", out)
	}
	// Running out of time first is not a success.
	_, x = loadHTTP(t, state, 1, "--connections", "1", "--requests", "100000000", "--for", "1s", "--output", "json", server.URL)
	if x == nil || x.Cut == nil || x.Cut.Of != "requests" || x.Cut.Planned != 100000000 {
		t.Errorf("%+v", x)
	}
	for _, bad := range [][]string{{"--requests", "5"}, {"--rate", "10/s", "--requests", "5"}, {"-c", "2", "--requests", "0"}, {"-c", "2", "--requests", "5", "--warm-up", "2s"}, {"-c", "2", "--requests", "5", "--clients", "ssh:a"}} {
		loadHTTP(t, state, 2, append(bad, server.URL)...)
	}
}
