package openshift

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/prometheus"
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

// ingestionServer answers queries by what they contain, and /metrics and the runtime
// information with a text; "" is not found.
func ingestionServer(t *testing.T, answers map[string]string, own, status string) *prometheus.Server {
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
	o, err := prometheus.Open(s.URL+"/base/", "")
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
		}, "", runtime, Usage{Series: 1e6, SamplesPerSecond: 33333.5, BytesPerSample: 1.3, BytesFrom: "measured over the blocks compacted in one day", Resident: 8e9, Retention: "15d", Nodes: 50, Pods: 1800}},
		{"no block is compacted yet", map[string]string{"head_series": value("336"), "samples_appended": value("15"), "chunk_size": value("NaN")}, "", "",
			Usage{Series: 336, SamplesPerSecond: 15, BytesPerSample: 2, BytesFrom: "not measured, because no block was compacted yet: upper end of the documented range"}},
		{"its start is not known", map[string]string{"head_series": value("336"), "rate(prometheus_tsdb_head_samples_appended_total": value("7"), "chunk_size": value("1.5")}, "", "",
			Usage{Series: 336, SamplesPerSecond: 7, BytesPerSample: 1.5, BytesFrom: "measured over the blocks compacted in one day"}},
		{"it does not watch itself", nil, hour, runtime, Usage{Series: 336, SamplesPerSecond: 10000. / 3600, BytesPerSample: 1.5, BytesFrom: "measured over the blocks compacted since it started", Resident: 54706176, Retention: "15d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := Measure(t.Context(), ingestionServer(t, tt.answers, tt.own, tt.status))
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
		"it says nothing":        {nil, "its number of series"},
		"a query is refused":     {map[string]string{"head_series": broken}, "parse error"},
		"not a number":           {map[string]string{"head_series": value("many")}, `answers "many"`},
		"another program":        {map[string]string{"head_series": "<html>"}, "answers with an HTML page: not a Prometheus, or a login page in front"},
		"another program's text": {map[string]string{"head_series": "OK"}, "answers with something other than JSON"},
		"another program's JSON": {map[string]string{"head_series": `{"code":0}`}, "with JSON that Prometheus does not write"},
		"a value of two":         {map[string]string{"head_series": `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,2]}]}}`}, `answers ""`},
		"ingestion is not told":  {map[string]string{"head_series": value("1")}, "samples per second"},
	} {
		if _, err := Measure(t.Context(), ingestionServer(t, tt.answers, "", "")); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Whatever it answers, nothing breaks and no number is below zero.
func FuzzAnswer(f *testing.F) {
	f.Add(value("1"), metrics)
	f.Add(broken, "a 1\na{x=\"y z\"} 2\n")
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"value":[]}]}}`, " ")
	f.Fuzz(func(t *testing.T, answer, own string) {
		u, err := Measure(t.Context(), ingestionServer(t, map[string]string{"": answer}, own, ""))
		if err != nil {
			return
		}
		text, err := json.Marshal(u)
		if err != nil || u.Series < 0 || u.SamplesPerSecond < 0 || u.BytesPerSample <= 0 || u.Resident < 0 {
			t.Errorf("%s, %v", text, err)
		}
	})
}
