package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionreg "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slower makes the API server wait so long before it makes a config map of a namespace, as
// long as the file is there: an admission webhook that takes its time.
func (c *Cluster) slower(t *testing.T, namespace string, by time.Duration, flag string) {
	t.Helper()
	own, err := c.authority.server("slow-webhook", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, err := os.Stat(flag); err == nil {
			time.Sleep(by)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	})}
	go func() { _ = s.ServeTLS(l, own.certFile, own.keyFile) }()
	t.Cleanup(func() { _ = s.Close() })
	bundle, err := os.ReadFile(c.authority.certFile)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + l.Addr().String() + "/"
	fail, none := admissionreg.Fail, admissionreg.SideEffectClassNone
	_, err = c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionreg.ValidatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "slow"},
		Webhooks: []admissionreg.ValidatingWebhook{{
			Name: "slow.fettle.test", ClientConfig: admissionreg.WebhookClientConfig{URL: &url, CABundle: bundle},
			Rules: []admissionreg.RuleWithOperations{{
				Operations: []admissionreg.OperationType{admissionreg.Create},
				Rule:       admissionreg.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector: &meta.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			FailurePolicy:     &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLoadProve: fettle prove, with a load of the cluster as its work, finds that a change
// makes it slower, and by how much: it is a webhook that takes 40 ms more. Nothing of a
// hundred visits is left.
func TestLoadProve(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle", "./cmd/fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	l := newLoader(t, c)
	const by = 40 * time.Millisecond
	flag := filepath.Join(l.dir, "slow")
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "proved0"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.slower(t, "proved0", by, flag)
	before := c.world(ctx)
	l.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"map-${IDENTIFIER}\"}\ndata: {text: x}\n")
	file := l.write("proved.yaml", "ClusterLoader: {projects: [{num: 1, basename: proved, ifexists: reuse, objects: [{num: 40, file: map.yaml}]}]}\n")

	// A visit that was killed is taken back by the next one.
	work := []string{"kubectl-fettle", "load", "--kubeconfig=" + c.Kubeconfig, "--state-dir=" + l.state, "run", file, "--for-prove", "--beyond-maximums", "--no-brake", "--in-flight=4"}
	cut := exec.Command(work[0], append(work[1:], "--rate=20/s")...)
	cut.Dir = l.dir
	if err := cut.Start(); err != nil {
		t.Fatal(err)
	}
	c.Wait("some objects of a visit", time.Minute, func(context.Context) error {
		if n := len(c.world(ctx)) - len(before); n < 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	_ = cut.Process.Kill()
	_ = cut.Wait()

	args := []string{"--state-dir", filepath.Join(t.TempDir(), "own"), "prove", "--force", "--seed", "7", "--budget", "40m", "--margin", "10%",
		"--change-cmd", "touch " + flag, "--undo-cmd", "rm -f " + flag,
		"--metric", `create=^create-p50 ([0-9.]+) s$`, "--unit", "s", "--output", "json", "--"}
	cmd := exec.Command("fettle", append(args, work...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, &out, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &said)
	}
	var doc struct {
		Verdict string
		Body    struct {
			Verdict  string
			Effect   float64     `json:"effect_ratio"`
			Interval *[2]float64 `json:"effect_interval_ratio"`
			Visits   []struct {
				Phase, Arm string
				Dropped    bool
				Values     map[string]float64
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	sides := map[string][]float64{}
	for _, v := range doc.Body.Visits {
		if v.Phase == "blocks" && !v.Dropped {
			sides[v.Arm] = append(sides[v.Arm], v.Values["create"])
		}
	}
	if len(sides["A"]) < 14 || len(sides["B"]) < 14 {
		t.Fatalf("%d visits without and %d with the change\n%s", len(sides["A"]), len(sides["B"]), &out)
	}
	median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	without, with := median(sides["A"]), median(sides["B"])
	t.Logf("%s (%d visits in %.0f s): %.1f ms without and %.1f ms with a webhook that takes 40 ms, interval %v", doc.Verdict, len(doc.Body.Visits), time.Since(began).Seconds(), 1e3*without, 1e3*with, doc.Body.Interval)
	if doc.Body.Verdict != "worse" {
		t.Errorf("the verdict is %q", doc.Body.Verdict)
	}
	// It takes at least that long more, and on a busy machine a little longer.
	if more := with - without; more < 0.9*by.Seconds() || more > 3*by.Seconds() {
		t.Errorf("a create takes %.1f ms more, want about 40", 1e3*more)
	}
	if truth := -(with - without) / without; doc.Body.Interval == nil || doc.Body.Interval[1] > 0 || doc.Body.Interval[0] > truth+0.5*-truth {
		t.Errorf("the interval is %v, the medians say %.2f", doc.Body.Interval, truth)
	}
	if err := same(before, c.world(ctx)); err != nil {
		t.Errorf("after the experiment:\n%v", err)
	}
	if left, err := os.ReadDir(l.state); err != nil || len(left) != 0 {
		t.Errorf("%d runs are left in the state directory, %v", len(left), err)
	}
}
