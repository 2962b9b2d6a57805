package load

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// shape is that of a load of so many config maps.
func shape(t *testing.T, run string, count int) Shape {
	t.Helper()
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: plan.Fail, Wait: time.Minute, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: count, Text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'm{{.Replica}}'}}",
	}}}}}
	p, err := plan.Compile(t.Context(), l, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ShapeOf(p, 64, 500)
}

func kept(t *testing.T, cluster string, of Shape, hour int, samples ...float64) *evidence.Run {
	t.Helper()
	in := evidence.Store{Dir: filepath.Join(t.TempDir(), "records")}
	b := Body{Cluster: cluster, Run: "run", Shape: of, Series: []evidence.Series{{Name: "create p50", Unit: "s", Samples: samples}}, Result: json.RawMessage(`{}`)}
	b.Servers(&run.Servers{Calls: []run.Calls{{Series: run.Series{Verb: "POST", Resource: "configmaps", Scope: "resource"}, P99S: 0.1}, {Series: run.Series{Verb: "GET"}}}})
	began := time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC)
	r, err := Keep(in, &Run{Command: "kubectl fettle load run", Began: began, Ended: began.Add(time.Minute), Verdict: "done",
		Facts: Facts{Server: "https://api:6443", Cluster: cluster, Version: "v1.34.4", Settings: map[string]string{"nodes": "3"}}, Body: b})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Last(in)
	if err != nil || again.ID != r.ID {
		t.Fatalf("%v %+v", err, again)
	}
	return again
}

func TestCompare(t *testing.T) {
	a := kept(t, "uid-1", shape(t, "run-1", 100), 1, 0.010, 0.0101, 0.0099, 0.0102)
	b := kept(t, "uid-1", shape(t, "run-2", 100), 3, 0.020, 0.0201, 0.0199, 0.0202)
	c, err := Compare(a, b, 0.02, false)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Series[0]
	if s.Word != prove.FiguresWorse || s.Within == nil || s.Within[0] > -1 || s.Within[1] < -1 || s.Within[1] > -0.9 {
		t.Errorf("%+v", s)
	}
	if len(c.Series) != 2 || c.Series[1].Name != "server: POST configmaps (resource) p99" || c.Series[1].Word != prove.TooFew || !strings.Contains(c.Caution, "2h0m0s apart") || len(c.Differing) != 0 {
		t.Errorf("%+v", c)
	}
	for want, other := range map[string]*evidence.Run{
		"the runs were made on different clusters":             kept(t, "uid-2", shape(t, "run-2", 100), 3, 0.01, 0.01),
		"the loads have different shapes: 100 ConfigMap of v1": kept(t, "uid-1", shape(t, "run-2", 101), 3, 0.01, 0.01),
	} {
		var refused *RecordRefused
		if _, err := Compare(a, other, 0.02, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if c, err := Compare(a, other, 0.02, true); err != nil || len(c.Differing) != 1 {
			t.Errorf("forced: %v %+v", err, c)
		}
	}
	if _, err := Compare(a, &evidence.Run{ID: "x", Kind: "prove"}, 0.02, true); err == nil || !strings.Contains(err.Error(), ", not a cluster load; use fettle runs compare") {
		t.Error(err)
	}
	if _, err := Last(evidence.Store{Dir: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}
