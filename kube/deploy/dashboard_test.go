package deploy_test

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/operator"
)

// ours matches the metrics of operator and agents.
func ours() []cluster.Metric {
	return slices.Concat(operator.Metrics, operator.KubeletMetrics, operator.HealthMetrics, agent.Metrics)
}

// exported are the metrics of the programs, each with its labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil} // Prometheus makes it
	for _, m := range ours() {
		if _, twice := all[m.Name]; twice {
			t.Errorf("%s is given twice", m.Name)
		}
		if m.Type != "histogram" {
			all[m.Name] = m.Labels
			continue
		}
		all[m.Name+"_bucket"] = append(slices.Clone(m.Labels), "le")
		all[m.Name+"_sum"], all[m.Name+"_count"] = m.Labels, m.Labels
	}
	// What controller-runtime and client-go have, seen or not yet seen.
	descriptions := make(chan *prometheus.Desc, 1000)
	metrics.Registry.(prometheus.Collector).Describe(descriptions)
	close(descriptions)
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for d := range descriptions {
		found := form.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("no name in %s", d)
		}
		all[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
	}
	return all
}

// TestDashboard tests that each metric of the dashboard and the alerts is exported with the name and
// labels that they use, including those of prometheus.yaml. test/cluster tests the expressions with
// Prometheus.
func TestDashboard(t *testing.T) {
	known := exported(t)
	for _, name := range []string{"rest_client_requests_total", "process_cpu_seconds_total", "fettle_operator_nodes", "fettle_agent_look_duration_seconds_bucket"} {
		if _, ok := known[name]; !ok {
			t.Fatalf("%s is not exported: this test sees too little", name)
		}
	}
	targets := targetLabels(t)
	asked := map[string]bool{}
	look := func(where, expr string) {
		t.Helper()
		u := usesOf(expr)
		if len(u.metrics) == 0 {
			t.Errorf("%s: %s asks for nothing", where, expr)
		}
		for _, name := range u.metrics {
			labels, ok := known[name]
			if !ok {
				t.Errorf("%s: nobody exports %s", where, name)
			}
			asked[name] = true
			for _, l := range u.labels {
				if !slices.Contains(labels, l) && !slices.Contains(targets, l) {
					t.Errorf("%s: %s has no label %s, only %v and %v", where, name, l, labels, targets)
				}
			}
		}
	}
	ids := map[int]bool{}
	for _, p := range dashboard(t).Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %d %q: an id that is given twice, or no title, description or expression", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			look("panel "+p.Title, target.Expr)
		}
	}
	// A metric that is never shown is not worth its cost.
	for _, m := range ours() {
		if !asked[m.Name] && !asked[m.Name+"_bucket"] {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
	for _, v := range dashboard(t).Templating.List {
		if v.Type == "query" {
			inside, _ := strings.CutPrefix(v.Definition, "label_values(")
			name, label, _ := strings.Cut(strings.TrimSuffix(inside, ")"), ", ")
			look("variable "+v.Name, name+"{"+label+`="x"}`)
		}
	}
	for _, a := range alerts(t) {
		look("alert "+a.Alert, a.Expr)
	}
}

// targetLabels are the labels that Prometheus adds.
func targetLabels(t *testing.T) []string {
	t.Helper()
	targets := []string{"job", "instance"}
	text, err := fs.ReadFile(deploy.FS, "metrics/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Jobs []struct {
			Relabel []struct {
				Target string `json:"target_label"`
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, r := range config.Jobs[0].Relabel {
		if r.Target != "" {
			targets = append(targets, r.Target)
		}
	}
	return targets
}

// grafana is the part of a dashboard that the test reads.
type grafana struct {
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Targets                  []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func dashboard(t *testing.T) (d grafana) {
	t.Helper()
	text, err := fs.ReadFile(deploy.FS, "metrics/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMetricNames tests that units and suffixes follow Prometheus (practices/naming).
func TestMetricNames(t *testing.T) {
	name := regexp.MustCompile(`^fettle_(operator|agent)(_[a-z]+)+$`)
	label := regexp.MustCompile(`^[a-z]+$`)
	units := regexp.MustCompile(`_(seconds|bytes|ratio|info|total|timestamp_seconds)$`)
	for _, m := range ours() {
		if !name.MatchString(m.Name) || m.Doc == "" {
			t.Errorf("%s: %q", m.Name, m.Doc)
		}
		if (m.Type == "counter") != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Type)
		}
		if m.Type == "histogram" && !units.MatchString(m.Name) {
			t.Errorf("%s has no unit", m.Name)
		}
		for _, l := range m.Labels {
			if !label.MatchString(l) || slices.Contains([]string{"job", "instance", "node", "le"}, l) {
				t.Errorf("%s: label %s", m.Name, l)
			}
		}
	}
}
