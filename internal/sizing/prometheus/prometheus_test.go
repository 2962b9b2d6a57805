package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The answers are those of Prometheus 2.42 that had just begun to watch itself.
const (
	vector  = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1795315658.959,%q]}]}}`
	nothing = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	broken  = `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis"}`
	runtime = `{"status":"success","data":{"startTime":"2026-11-22T02:47:05.868357034Z","CWD":"/","reloadConfigSuccess":true,"lastConfigTime":"2026-11-22T02:47:06Z","corruptionCount":0,"goroutineCount":28,"GOMAXPROCS":2,"GOGC":"","GODEBUG":"","storageRetention":"15d"}}`
	metrics = `# HELP prometheus_tsdb_head_series Total number of series in the head block.
# TYPE prometheus_tsdb_head_series gauge
prometheus_tsdb_head_series 336
prometheus_tsdb_head_samples_appended_total{type="float"} 9370
prometheus_tsdb_head_samples_appended_total{type="histogram"} 630
process_resident_memory_bytes 5.4706176e+07
process_start_time_seconds %d
prometheus_tsdb_compaction_chunk_size_bytes_sum 3000
prometheus_tsdb_compaction_chunk_samples_sum 2000
broken
`
)

// server answers queries by what they contain, and /metrics and the runtime
// information with a text; "" is not found.
func server(t *testing.T, answers map[string]string, own, status string) *Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := ""
		switch r.URL.Path {
		case "/base/metrics":
			text = own
		case "/base/api/v1/status/runtimeinfo":
			text = status
		case "/base/api/v1/query":
			text = nothing
			for part, answer := range answers {
				if strings.Contains(r.URL.Query().Get("query"), part) {
					text = answer
				}
			}
		}
		if text == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	o, err := Open(s.URL+"/base/", "")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func value(v string) string { return fmt.Sprintf(vector, v) }

func TestMeasure(t *testing.T) {
	hour := fmt.Sprintf(metrics, time.Now().Add(-time.Hour).Unix())
	for _, tt := range []struct {
		name        string
		answers     map[string]string
		own, status string
		want        Usage
	}{
		{"it watches itself and a cluster", map[string]string{
			"head_series": value("1000000"), "samples_appended": value("33333.5"), "resident": value("8e9"), "chunk_size": value("1.3"), "kube_node_info": value("50"), "kube_pod_info": value("1800"),
		}, "", runtime, Usage{Series: 1e6, SamplesPerSecond: 33333.5, BytesPerSample: 1.3, BytesFrom: "measured over the blocks compacted in a day", Resident: 8e9, Retention: "15d", Nodes: 50, Pods: 1800}},
		{"no block is compacted yet", map[string]string{"head_series": value("336"), "samples_appended": value("15"), "chunk_size": value("NaN")}, "", "",
			Usage{Series: 336, SamplesPerSecond: 15, BytesPerSample: 2, BytesFrom: "not measured, as no block was compacted yet: the upper end of what its documents say"}},
		{"its start is not known", map[string]string{"head_series": value("336"), "rate(prometheus_tsdb_head_samples_appended_total": value("7"), "chunk_size": value("1.5")}, "", "",
			Usage{Series: 336, SamplesPerSecond: 7, BytesPerSample: 1.5, BytesFrom: "measured over the blocks compacted in a day"}},
		{"it does not watch itself", nil, hour, runtime, Usage{Series: 336, SamplesPerSecond: 10000. / 3600, BytesPerSample: 1.5, BytesFrom: "measured over the blocks compacted since it started", Resident: 54706176, Retention: "15d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := server(t, tt.answers, tt.own, tt.status).Measure(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			// The mean since the start falls while the test takes its time.
			if math.Abs(u.SamplesPerSecond/tt.want.SamplesPerSecond-1) > 0.1 {
				t.Errorf("%g samples/s, want about %g", u.SamplesPerSecond, tt.want.SamplesPerSecond)
			}
			u.SamplesPerSecond = tt.want.SamplesPerSecond
			if *u != tt.want {
				t.Errorf("%+v, want %+v", *u, tt.want)
			}
		})
	}
	if got := (&Usage{SamplesPerSecond: 1000, BytesPerSample: 1.5}).Disk(15 * 24 * time.Hour); got != 1.944e9 {
		t.Errorf("15 days are %g bytes", got)
	}
}

func TestNotMeasured(t *testing.T) {
	for name, tt := range map[string]struct {
		answers map[string]string
		want    string
	}{
		"it says nothing":        {nil, "how many series it has"},
		"a query is refused":     {map[string]string{"head_series": broken}, "parse error"},
		"not a number":           {map[string]string{"head_series": value("many")}, `answers "many"`},
		"another program":        {map[string]string{"head_series": "<html>"}, "answers with a page for browsers: it is no Prometheus, or a login is before it"},
		"another program's text": {map[string]string{"head_series": "OK"}, "answers with what is no JSON"},
		"another program's JSON": {map[string]string{"head_series": `{"code":0}`}, "not as Prometheus does"},
		"a value of two":         {map[string]string{"head_series": `{"status":"success","data":{"result":[{"value":[1,2]}]}}`}, `answers ""`},
		"ingestion is not told":  {map[string]string{"head_series": value("1")}, "samples a second"},
	} {
		if _, err := server(t, tt.answers, "", "").Measure(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	token := ""
	answer := func(code int, header map[string]string) *Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token = r.Header.Get("Authorization")
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(code)
		}))
		t.Cleanup(s.Close)
		o, err := Open(s.URL, "secret\n")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, tt := range []struct {
		code   int
		header map[string]string
		want   string
	}{{401, nil, "does not take this token (401 Unauthorized)"}, {403, nil, "--prometheus-token"}, {404, nil, "has no /api/v1/query (404 Not Found): it is no Prometheus"}, {503, nil, "is not ready (503 Service Unavailable): wait"}, {502, nil, "look at its log"}, {418, nil, "want the address of a Prometheus"}, {302, map[string]string{"Location": "http://example.com/"}, "sends to http://example.com/: name the address"}} {
		if _, err := answer(tt.code, tt.header).Measure(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, want %q", tt.code, err, tt.want)
		}
		if token != "Bearer secret" {
			t.Errorf("the token was %q", token)
		}
	}
	ended, stop := context.WithCancel(context.Background())
	stop()
	if _, err := answer(200, nil).Measure(ended); err == nil {
		t.Error("a context that has ended is none")
	}
}

// Whoever is not there, or not what was meant, is said in words, and within a time.
func TestUnreached(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	defer strange.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "{")
	}))
	defer cut.Close()
	for address, want := range map[string]string{
		"http://" + silent.Addr().String():          "has not answered within 50ms: it is busy",
		"http://" + gone.Addr().String():            "nothing listens at " + gone.Addr().String() + ": start Prometheus, or a tunnel",
		"https://" + plain.Listener.Addr().String(): "speaks no TLS: http://",
		strange.URL: "is not trusted here: add its authority",
		cut.URL:     "ends early: unexpected EOF",
	} {
		s, err := Open(address, "")
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Minute
		if strings.HasSuffix(address, silent.Addr().String()) {
			patience = 50 * time.Millisecond
		}
		_, err = s.measure(t.Context(), patience)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Get ") || strings.Contains(err.Error(), "%28") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	// Ctrl-C is no failure of the server.
	s, err := Open("http://"+silent.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Measure(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A name that is not known, as the resolver says it.
	if err := s.unreached(t.Context(), &url.Error{Op: "Get", URL: "x", Err: &net.DNSError{Err: "no such host", Name: "prometheus.example", IsNotFound: true}}); !strings.Contains(err.Error(), "the name prometheus.example is not known here (no such host)") {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	for _, address := range []string{"", "localhost:9090", "ftp://localhost", "http://", "http://u:p@localhost", "http://localhost/?q=1", "http://localhost/#x", "http://%zz"} {
		if _, err := Open(address, ""); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
	for address, ok := range map[string]bool{"http://127.0.0.1:9090": true, "http://[::1]:9090": true, "http://localhost": true, "https://prometheus.example.com": true, "http://prometheus.example.com": false, "http://localhost.example.com": false} {
		if _, err := Open(address, "t"); (err == nil) != ok {
			t.Errorf("a token to %s: %v", address, err)
		}
	}
}

// Whatever it answers, nothing breaks and no number is below zero.
func FuzzAnswer(f *testing.F) {
	f.Add(value("1"), metrics)
	f.Add(broken, "a 1\na{x=\"y z\"} 2\n")
	f.Add(`{"status":"success","data":{"result":[{"value":[]}]}}`, " ")
	f.Fuzz(func(t *testing.T, answer, own string) {
		s, err := Open("http://127.0.0.1:1", "")
		if err != nil {
			t.Fatal(err)
		}
		s.http.Transport = canned(func(r *http.Request) string {
			if strings.HasSuffix(r.URL.Path, "/metrics") {
				return own
			}
			return answer
		})
		u, err := s.Measure(context.Background())
		if err != nil {
			return
		}
		text, err := json.Marshal(u)
		if err != nil || u.Series < 0 || u.SamplesPerSecond < 0 || u.BytesPerSample <= 0 || u.Resident < 0 {
			t.Errorf("%s, %v", text, err)
		}
	})
}

type canned func(*http.Request) string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	rec.WriteString(c(r))
	return rec.Result(), nil
}
