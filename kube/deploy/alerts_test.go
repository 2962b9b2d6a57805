package deploy_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/deploy"
)

// alert is an alert of metrics/alerts.yaml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	text, err := fs.ReadFile(deploy.FS, "metrics/alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil || len(file.Groups) != 1 {
		t.Fatalf("%v, %d groups", err, len(file.Groups))
	}
	return file.Groups[0].Rules
}

// TestRunbooks tests that each alert has a severity, texts, and a section of the manual to which its
// runbook_url leads, and that the page has no other sections.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes-alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections, names []string
	for _, found := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, found[1])
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		url := "https://fettle.dev/docs/kubernetes-alerts#" + strings.ToLower(a.Alert)
		if a.Annotations["runbook_url"] != url || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v, want runbook_url %s", a.Alert, a.Annotations, url)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) || a.For == "" {
			t.Errorf("%s: for %q, labels %v", a.Alert, a.For, a.Labels)
		}
	}
	if !slices.Equal(sections, names) {
		t.Errorf("sections of the page: %v\nalerts: %v", sections, names)
	}
}

// fires is a case of an alert. The series have a value per minute.
type fires struct {
	alert   string
	series  map[string]string
	at      string // when the alert fires
	silent  string // when it does not
	labels  map[string]string
	summary string
}

const (
	anOperator = `job="fettle",instance="10.0.0.1:8443",program="fettle-operator",node="node1"`
	anAgent    = `job="fettle",instance="10.0.0.7:9543",program="fettle-agent",node="node7"`
)

var agentLabels = map[string]string{"job": "fettle", "instance": "10.0.0.7:9543", "program": "fettle-agent", "node": "node7"}

// with returns labels with further ones.
func with(labels map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for name, value := range labels {
		out[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

var firing = []fires{
	{"FettleTargetDown", map[string]string{"up{" + anAgent + "}": "1x10 0x30"}, "27m", "25m", agentLabels, "Prometheus does not reach fettle-agent at 10.0.0.7:9543"},
	{"FettleOperatorAbsent", map[string]string{"up{" + anOperator + "}": "1x10 0x30", "up{" + anAgent + "}": "1x40"}, "27m", "25m", nil, "Prometheus reaches no operator"},
	{"FettleReportOnly", map[string]string{"fettle_operator_report_only{" + anOperator + "}": "0x10 1x30"}, "27m", "25m", nil, "The operator writes nothing"},
	{"FettleTunedInvalid", map[string]string{`fettle_operator_tuned_objects{valid="false",` + anOperator + "}": "0x10 2x30"}, "17m", "15m", nil, "Invalid Tuned objects: 2"},
	{"FettleNodesHeld", map[string]string{`fettle_operator_nodes{state="held",` + anOperator + "}": "0x10 3x30", `fettle_operator_nodes{state="decided",` + anOperator + "}": "5x40"}, "27m", "25m", nil, "Nodes that keep their former profile: 3"},
	{"FettleProfileWritesFail", map[string]string{`fettle_operator_profile_write_failures_total{action="update",` + anOperator + "}": "0x10 1+1x60"}, "43m", "40m", nil, "The operator cannot write Profile objects"},
	{"FettleProfileNotApplied", map[string]string{`fettle_agent_condition{condition="applied",status="false",` + anAgent + "}": "0x10 1x30"}, "27m", "25m", with(agentLabels, "condition", "applied", "status", "false"), "Node node7 does not have the requested profile"},
	{"FettleValuesNotInForce", map[string]string{`fettle_agent_condition{condition="degraded",status="true",` + anAgent + "}": "0x10 1x90", `fettle_agent_condition{condition="applied",status="false",` + anAgent + "}": "0x100"}, "72m", "70m", with(agentLabels, "condition", "degraded", "status", "true"), "Some values of the profile are not in force on node node7"},
	{"FettleAgentStuck", map[string]string{"fettle_agent_last_look_timestamp_seconds{" + anAgent + "}": "0+60x10 600x40"}, "27m", "25m", agentLabels, "The agent of node node7 has stopped checking its node"},
	{"FettleAgentNotHeard", map[string]string{"fettle_agent_heard{" + anAgent + "}": "1x10 0x30"}, "27m", "25m", agentLabels, "The agent of node node7 does not know its profile"},
	{"FettleReportsFail", map[string]string{"fettle_agent_report_failures_total{" + anAgent + "}": "0x10 1+1x60"}, "43m", "40m", agentLabels, "The agent of node node7 cannot report"},
	{"FettleKubeletRolloutStopped", map[string]string{`fettle_operator_kubelet_pool_degraded{pool="workers",` + anOperator + "}": "0x10 1x30"}, "17m", "15m", map[string]string{"pool": "workers"}, "The rollout of kubelet settings in pool workers has stopped"},
	{"FettleRemediationShortCircuited", map[string]string{`fettle_operator_machine_check_short_circuited{check="a/b",` + anOperator + "}": "0x10 1x30"}, "27m", "25m", map[string]string{"check": "a/b"}, "More machines of check a/b are unhealthy than it allows"},
	{"FettleMachinesStuck", map[string]string{`fettle_operator_machines_stuck{check="a/b",` + anOperator + "}": "0x10 1x30"}, "17m", "15m", map[string]string{"check": "a/b"}, "Machines of check a/b that do not go away: 1"},
}

// TestPromtool tests with Prometheus' own tool that the alerts are valid, and that each fires when
// it should and not before.
func TestPromtool(t *testing.T) {
	promtool := root.ServerProgram(t, "promtool")
	dir := t.TempDir()
	text, err := fs.ReadFile(deploy.FS, "metrics/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rules := write("alerts.yaml", text)
	if out, err := exec.Command(promtool, "check", "rules", rules).CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}

	var tests []any
	cases := map[string]bool{}
	for _, a := range alerts(t) {
		for _, f := range firing {
			if f.alert != a.Alert {
				continue
			}
			cases[f.alert] = true
			var series []any
			for name, values := range f.series {
				series = append(series, map[string]any{"series": name, "values": values})
			}
			expected := map[string]any{
				"exp_labels":      with(f.labels, "severity", a.Labels["severity"]),
				"exp_annotations": with(a.Annotations, "summary", f.summary),
			}
			tests = append(tests, map[string]any{
				"name": f.alert, "interval": "1m", "input_series": series,
				"alert_rule_test": []any{
					map[string]any{"eval_time": f.silent, "alertname": f.alert},
					map[string]any{"eval_time": f.at, "alertname": f.alert, "exp_alerts": []any{expected}},
				},
			})
		}
		if !cases[a.Alert] {
			t.Errorf("no case of %s", a.Alert)
		}
	}
	if len(cases) != len(firing) {
		t.Errorf("cases %d, alerts %d", len(firing), len(cases))
	}
	out, err := yaml.Marshal(map[string]any{"rule_files": []string{"alerts.yaml"}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", write("tests.yaml", out)).CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
		t.Errorf("promtool test rules: %v\n%s", err, fmt.Sprintf("%.5000s", out))
	}
}
