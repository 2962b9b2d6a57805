package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLoadMirror: what namespaces have is mirrored by a user who may only list; nothing
// of their content comes out, nothing in the cluster changes, and the load that was written
// makes as many of each kind. Two runs of it are compared, and others are refused.
func TestLoadMirror(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	const planted = "Hush-17"
	none := int32(0)
	for _, space := range []string{"team-a", "team-b"} {
		_, err := c.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: space}}, meta.CreateOptions{})
		c.must(err)
		for i := range 4 {
			_, err = c.Client.CoreV1().ConfigMaps(space).Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("site-", i)}, Data: map[string]string{"setting": strings.Repeat(planted, 30)}}, meta.CreateOptions{})
			c.must(err)
		}
		for i := range 3 {
			_, err = c.Client.CoreV1().Secrets(space).Create(ctx, &core.Secret{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("key-", i)}, StringData: map[string]string{"user": planted, "password": planted}}, meta.CreateOptions{})
			c.must(err)
		}
		labels := map[string]string{"app": "web"}
		_, err = c.Client.AppsV1().Deployments(space).Create(ctx, &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "web"}, Spec: apps.DeploymentSpec{
			Replicas: &none, Selector: &meta.LabelSelector{MatchLabels: labels}, Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: core.PodSpec{
				Containers: []core.Container{{Name: "web", Image: "registry/" + strings.ToLower(planted), Command: []string{planted}, Env: []core.EnvVar{{Name: "TOKEN", Value: planted}}}},
			}},
		}}, meta.CreateOptions{})
		c.must(err)
		_, err = c.Client.CoreV1().Services(space).Create(ctx, &core.Service{ObjectMeta: meta.ObjectMeta{Name: "web"}, Spec: core.ServiceSpec{Selector: labels, Ports: []core.ServicePort{{Port: 80}}}}, meta.CreateOptions{})
		c.must(err)
	}
	_, err := c.Client.RbacV1().ClusterRoles().Create(ctx, &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: "reader"}, Rules: []rbac.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}}, meta.CreateOptions{})
	c.must(err)
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{ObjectMeta: meta.ObjectMeta{Name: "reader"}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "reader"}, Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: "reader"}}}, meta.CreateOptions{})
	c.must(err)
	reader, err := c.KubeconfigOf("reader", "readers")
	c.must(err)

	c.Wait("a controller to have made the deployments' ReplicaSets", time.Minute, func(ctx context.Context) error {
		sets, err := c.Client.AppsV1().ReplicaSets("").List(ctx, meta.ListOptions{})
		if err == nil && len(sets.Items) != 2 {
			err = fmt.Errorf("there are %d", len(sets.Items))
		}
		return err
	})
	l := newLoader(t, c)
	before := c.world(ctx)
	dir := filepath.Join(l.dir, "mirror")
	admin := c.Kubeconfig
	c.Kubeconfig = reader
	var doc struct {
		File                string
		Namespaces, Objects int
		Spaces              []struct{ Namespaces int }
	}
	l.document(0, &doc, "mirror", "--write", dir)
	c.Kubeconfig = admin
	if doc.Namespaces != 2 || doc.Objects != 2*9 || len(doc.Spaces) != 1 || doc.Spaces[0].Namespaces != 2 {
		t.Errorf("%+v", doc)
	}
	c.must(same(before, c.world(ctx)))
	files, err := os.ReadDir(dir)
	c.must(err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		c.must(err)
		for _, hidden := range []string{"hush", "web", "team", "token", "password", "SHVzaC0xN"} {
			if strings.Contains(strings.ToLower(string(text)), strings.ToLower(hidden)) {
				t.Errorf("%s has %q of the cluster in it:\n%s", f.Name(), hidden, text)
			}
		}
	}

	first, _ := l.run(0, "run", doc.File)
	if first.created != 2+18 {
		t.Errorf("made: %+v", first)
	}
	made := map[string]int{}
	for name := range c.world(ctx) {
		if before[name] == "" {
			kind, _, _ := strings.Cut(name, " ")
			made[kind]++
		}
	}
	want := map[string]int{"Namespace": 2, "ConfigMap": 8, "Secret": 6, "Deployment": 2, "Service": 2}
	for kind, n := range want {
		if made[kind] != n {
			t.Errorf("%d %s were made, want %d", made[kind], kind, n)
		}
	}
	l.run(0, "undo", first.Run)
	c.gone(t, ctx, before)

	l.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"map-${IDENTIFIER}\"}\ndata: {text: x}\n")
	file := l.write("compared.yaml", "ClusterLoader: {projects: [{num: 1, basename: compared, objects: [{num: 600, file: map.yaml}]}]}\n")
	var runs []string
	for range 2 {
		// etcd tells itself how it is.
		x, _ := l.run(0, "run", file, "--etcd-quota=8GiB", "--etcd-metrics=http://127.0.0.1:2379")
		if m := x.Servers.Members; len(m) != 1 || m[0].DatabaseBytes < 100<<10 || m[0].QuotaBytes != 2<<30 {
			t.Errorf("etcd says: %+v", m)
		}
		l.run(0, "undo")
		runs = append(runs, x.Run)
	}
	var found struct {
		Series []struct {
			Name     string
			Samples  int         `json:"samples_a"`
			Interval *[2]float64 `json:"interval_within_runs_ratio"`
			Verdict  string
		}
		Caution string
	}
	l.document(0, &found, "compare", runs[0], runs[1])
	by := map[string]int{}
	for _, s := range found.Series {
		by[s.Name] = s.Samples
		if s.Name == "create p50" && s.Interval == nil {
			t.Errorf("there is no interval: %+v", s)
		}
	}
	if by["create p50"] < 10 || by["made"] < 10 || by["server: POST configmaps (resource) p99"] != 1 || !strings.Contains(found.Caution, "not a proof") {
		t.Errorf("%+v", found)
	}
	if _, said := l.run(4, "compare", runs[0], first.Run); !strings.Contains(said, "the loads have different shapes") {
		t.Errorf("another load: %s", said)
	}
	l.document(0, &found, "compare", "--force", runs[0], first.Run)
}

// document runs it to its end, expects an exit code, and reads what it prints.
func (l *loader) document(want int, into any, args ...string) {
	l.t.Helper()
	cmd, out, errs := l.command(args...)
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		l.t.Fatalf("load %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), got, want, out, errs)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
}
