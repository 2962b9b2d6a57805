package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/deploy"
)

const prometheusAddress = "127.0.0.1:19090"

// metrics: who may not is shown none; Prometheus collects them with the job of
// kube/deploy/metrics/prometheus.yaml, and each panel of the dashboard has something to show.
func (d *deployed) metrics() {
	d.Helper()
	for _, args := range [][]string{
		{"create", "namespace", "monitoring"},
		{"-n", "monitoring", "create", "serviceaccount", "prometheus"},
		{"-n", "monitoring", "create", "serviceaccount", "other"},
		{"create", "clusterrolebinding", "prometheus-fettle", "--clusterrole=fettle-metrics-reader", "--serviceaccount=monitoring:prometheus"},
		{"-n", operatorNamespace, "create", "rolebinding", "prometheus", "--clusterrole=view", "--serviceaccount=monitoring:prometheus"},
	} {
		d.kubectl(args...)
	}
	token := strings.TrimSpace(d.kubectl("-n", "monitoring", "create", "token", "prometheus"))
	other := strings.TrimSpace(d.kubectl("-n", "monitoring", "create", "token", "other"))
	d.guarded(token, other)

	file := filepath.Join(d.c.Dir, "prometheus.yml")
	d.c.must(os.WriteFile(file, d.prometheusConfig(token), 0o600))
	d.Log(run(d.T, "promtool", "check", "config", file))
	p := d.c.program(func() error { return d.ask("/-/ready", nil) }, "prometheus", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(d.c.Dir, "prometheus"), "--web.listen-address="+prometheusAddress, "--log.level=warn")
	d.c.must(p.Start())
	// What it would need to find the pods by itself.
	d.kubectl("-n", operatorNamespace, "auth", "can-i", "watch", "pods", "--as=system:serviceaccount:monitoring:prometheus")
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := deploy.FS.ReadFile("metrics/dashboard.json")
	if err != nil {
		d.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		d.Fatal(err)
	}
	// What Grafana puts for its variables.
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".+")
	asked := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			expr := variables.Replace(target.Expr)
			var answer string
			d.c.Wait(fmt.Sprintf("panel %q (%s) to have something to show", panel.Title, expr), 2*time.Minute, func(context.Context) (err error) {
				answer, err = d.query(expr)
				return err
			})
			d.Logf("%s: %s", panel.Title, answer)
			asked++
		}
	}
	d.Logf("%d expressions of %d panels have an answer", asked, len(board.Panels))
	d.figures()
	d.alerts()
	d.c.must(p.Stop())
}

// figures compares what some panels show with what is known of the cluster.
func (d *deployed) figures() {
	d.Helper()
	for expr, want := range map[string]string{
		`max by (state) (fettle_operator_nodes) > 0`:                      "map[state:decided] 1",
		`count by (profile) (fettle_agent_profile_info)`:                  "map[profile:openshift-node] 1",
		`count(count by (program) (up == 1))`:                             "map[] 2",
		`sum(fettle_agent_condition{condition="applied",status="false"})`: "map[] 0",
	} {
		if got, err := d.query(expr); err != nil || got != want {
			d.Errorf("%s: %v %s, want %s", expr, err, got, want)
		}
	}
}

// alerts: Prometheus evaluates each alert of kube/deploy/metrics/alerts.yaml, and on a cluster
// without a fault none is about to fire but the one about single values.
func (d *deployed) alerts() {
	d.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError, LastEvaluation string }
			}
		}
	}
	d.c.Wait("Prometheus to evaluate the alerts", time.Minute, func(context.Context) error {
		if err := d.ask("/api/v1/rules?type=alert", &answer); err != nil {
			return err
		}
		if len(answer.Data.Groups) != 1 || len(answer.Data.Groups[0].Rules) < 10 {
			return fmt.Errorf("%+v", answer)
		}
		for _, r := range answer.Data.Groups[0].Rules {
			if r.Health != "ok" || r.State != "inactive" && r.Name != "FettleValuesNotInForce" {
				return fmt.Errorf("%+v", r)
			}
		}
		return nil
	})
	d.Logf("%d alerts, none is active", len(answer.Data.Groups[0].Rules))
}

// prometheusConfig is kube/deploy/metrics/prometheus.yaml for a Prometheus that is in a hurry.
// Debian builds it without the discovery of Kubernetes: what that would find, an address
// for each port of each pod with its labels (Prometheus, configuration,
// kubernetes_sd_config, role pod), the test has found.
func (d *deployed) prometheusConfig(token string) []byte {
	d.Helper()
	text, err := deploy.FS.ReadFile("metrics/prometheus.yaml")
	if err != nil {
		d.Fatal(err)
	}
	var config map[string]any
	if err := sigsyaml.Unmarshal(text, &config); err != nil {
		d.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
	config["rule_files"] = []any{filepath.Join(d.dir, "metrics/alerts.yaml")}
	job := config["scrape_configs"].([]any)[0].(map[string]any)
	secret := filepath.Join(d.c.Dir, "prometheus.token")
	d.c.must(os.WriteFile(secret, []byte(token), 0o600))
	job["authorization"].(map[string]any)["credentials_file"] = secret
	if found := fmt.Sprint(job["kubernetes_sd_configs"]); found != "[map[namespaces:map[names:["+operatorNamespace+"]] role:pod]]" {
		d.Errorf("it looks for %s", found)
	}
	delete(job, "kubernetes_sd_configs")
	pods, err := d.c.Client.CoreV1().Pods(operatorNamespace).List(d.Context(), metav1.ListOptions{})
	if err != nil {
		d.Fatal(err)
	}
	var targets []any
	for _, p := range pods.Items {
		for _, port := range p.Spec.Containers[0].Ports {
			labels := map[string]any{"__meta_kubernetes_pod_node_name": p.Spec.NodeName, "__meta_kubernetes_pod_container_port_name": port.Name}
			for name, value := range p.Labels {
				labels["__meta_kubernetes_pod_label_"+strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(name)] = value
			}
			targets = append(targets, map[string]any{"targets": []any{fmt.Sprintf("%s:%d", p.Status.PodIP, port.ContainerPort)}, "labels": labels})
		}
	}
	if len(targets) != 3 { // two of metrics, and the operator's health
		d.Errorf("%d ports: %v", len(targets), targets)
	}
	job["static_configs"] = targets
	out, err := sigsyaml.Marshal(config)
	if err != nil {
		d.Fatal(err)
	}
	return out
}

// ask asks Prometheus.
func (d *deployed) ask(path string, into any) error {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + prometheusAddress + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// query evaluates an expression; no answer is an error.
func (d *deployed) query(expr string) (string, error) {
	var answer struct {
		Status   string
		Warnings []string
		Data     struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := d.ask("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return "", err
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 || len(answer.Data.Result) == 0 {
		return "", fmt.Errorf("%+v", answer)
	}
	var all []string
	for _, r := range answer.Data.Result {
		all = append(all, fmt.Sprint(r.Metric, " ", r.Value[1]))
	}
	return strings.Join(all[:min(len(all), 4)], "; "), nil
}

// guarded asks operator and agent themselves, as three who may and may not.
func (d *deployed) guarded(may, mayNot string) {
	d.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	pods, err := d.c.Client.CoreV1().Pods(operatorNamespace).List(d.Context(), metav1.ListOptions{})
	if err != nil {
		d.Fatal(err)
	}
	for _, p := range pods.Items {
		address := fmt.Sprintf("https://%s:%d/metrics", p.Status.PodIP, p.Spec.Containers[0].Ports[0].ContainerPort)
		for token, want := range map[string]int{"": http.StatusUnauthorized, "nobody": http.StatusUnauthorized, mayNot: http.StatusForbidden, may: http.StatusOK} {
			r, err := http.NewRequestWithContext(d.Context(), http.MethodGet, address, nil)
			if err != nil {
				d.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := client.Do(r)
			if err != nil {
				d.Fatalf("%s: %v", p.Name, err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want || strings.Contains(string(text), "fettle_") != (want == http.StatusOK) {
				d.Errorf("%s: %s, want %d: %.200s", p.Name, resp.Status, want, text)
			}
			if want == http.StatusOK {
				d.lint(p.Name, string(text))
			}
		}
	}
}

// lint has Prometheus' own tool look at our metrics.
func (d *deployed) lint(pod, text string) {
	d.Helper()
	var ours strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "fettle_") {
			ours.WriteString(line)
		}
	}
	c := exec.Command("promtool", "check", "metrics")
	c.Stdin = strings.NewReader(ours.String())
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		d.Errorf("promtool of %s: %v %s", pod, err, out)
	}
	d.Logf("%s exports %d lines, %d of them ours", pod, strings.Count(text, "\n"), strings.Count(ours.String(), "\n"))
}
