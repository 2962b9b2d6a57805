package format

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// given reports whether a field is there and is neither false nor 0.
func given(n *yaml.Node, field string) bool {
	if n == nil {
		return false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	v := strict.Get(n, field)
	return v != nil && v.Value != "false" && v.Value != "0" && v.Value != "" && v.Value != "0s"
}

// readGlobal reads what of the global part is about what is made and how it is judged.
func readGlobal(r *strict.Reader, l *plan.Load, global *yaml.Node, o Options) {
	if global == nil {
		return
	}
	if global.Kind != yaml.MappingNode {
		r.Fault(global, "global: want fields, found %s", strict.Found(global))
		return
	}
	for i := 0; i+1 < len(global.Content); i += 2 {
		key, value := global.Content[i], global.Content[i+1]
		switch key.Value {
		case "gc":
			l.Cleanup = l.Cleanup || given(global, "gc")
		case "waitWhenFinished":
			if !given(global, "waitWhenFinished") {
				continue
			}
			for i := range l.Stages {
				if s := &l.Stages[i]; !s.Parallel { // a patch job that is parallel waits always
					s.Wait, s.WaitEach = 0, 0
				}
			}
			l.Wait = burnerDefaultWait
		case "measurements":
			readMeasurements(r, l, value)
		case "functionTemplates":
			readHelpers(r, l, value, o)
		default:
			unused(r, l, "global: ", value, key.Value)
		}
	}
}

// readHelpers reads the files of templates that all others may call, each by the names that
// it defines.
func readHelpers(r *strict.Reader, l *plan.Load, list *yaml.Node, o Options) {
	if list.Kind != yaml.SequenceNode {
		if list.ShortTag() != "!!null" {
			r.Fault(list, "global: functionTemplates: want a list of files, found %s", strict.Found(list))
		}
		return
	}
	for _, n := range list.Content {
		name, text, err := open(r.File, n.Value, o.Read)
		if err != nil {
			r.Fault(n, "%w", err)
			continue
		}
		l.Helpers = append(l.Helpers, plan.Helper{Name: filepath.Base(name), Text: string(text)})
	}
}

// conditions are kube-burner's names of what fettle measures of pods.
var conditions = map[string]string{"PodScheduled": "scheduled", "Ready": "ready"}

// readMeasurements makes gates of the thresholds of pod latencies. What is measured is
// fettle's own: the time from the call until the watch has it.
func readMeasurements(r *strict.Reader, l *plan.Load, n *yaml.Node) {
	for _, m := range n.Content {
		name := strict.Get(m, "name")
		if name == nil {
			r.Fault(m, "global: a measurement has no name")
			continue
		}
		thresholds := strict.Get(m, "thresholds")
		if name.Value == "podLatency" && thresholds == nil {
			continue // it is measured anyway
		}
		if name.Value != "podLatency" {
			unused(r, l, "global: the measurement ", m, name.Value)
			continue
		}
		for _, t := range thresholds.Content {
			readThreshold(r, l, t)
		}
	}
}

func readThreshold(r *strict.Reader, l *plan.Load, t *yaml.Node) {
	text := func(field string) string {
		if v := strict.Get(t, field); v != nil {
			return v.Value
		}
		return ""
	}
	of, known := conditions[text("conditionType")]
	if !known {
		unused(r, l, "global: the threshold of the condition ", t, text("conditionType"))
		return
	}
	metric := strings.ToLower(text("metric"))
	switch metric {
	case "p50", "p95", "p99", "max":
	case "avg":
		metric = "mean"
	default:
		r.Fault(t, "global: a threshold's metric: want P50, P95, P99, Max or Avg, found %q", text("metric"))
		return
	}
	limit, ok := strict.ParseDuration(text("threshold"), 0)
	if !ok || limit < time.Millisecond {
		r.Fault(t, "global: a threshold: want a time with its unit, as 2s, found %q", text("threshold"))
		return
	}
	l.Gates = append(l.Gates, plan.Gate{At: r.At(t), Text: fmt.Sprintf("%s %s <= %s", of, metric, limit)})
}
