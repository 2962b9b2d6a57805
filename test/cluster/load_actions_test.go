package cluster

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// actingFile has kube-burner's four sorts of jobs that there are here, with each type of
// patch, and Deployments, sets and Jobs whose pods controllers make.
const actingFile = `global:
  functionTemplates: [labels.tpl]
  measurements:
  - {name: podLatency, thresholds: [{conditionType: Ready, metric: P50, threshold: 300s}, {conditionType: PodScheduled, metric: Max, threshold: 300s}]}
jobs:
- name: first
  namespace: acting
  namespacedIterations: false
  qps: 100
  burst: 100
  preLoadImages: false
  objects:
  - {objectTemplate: map.yml}
- name: app
  namespace: acting
  namespacedIterations: false
  jobIterations: 2
  qps: 100
  burst: 100
  preLoadImages: false
  objects:
  - {objectTemplate: map.yml, replicas: 5}
  - {objectTemplate: owner.yml, replicas: 2, inputVars: {kind: Deployment}}
  - {objectTemplate: owner.yml, replicas: 1, inputVars: {kind: StatefulSet}}
  - {objectTemplate: owner.yml, replicas: 1, inputVars: {kind: ReplicaSet}}
  - {objectTemplate: owner.yml, replicas: 1, inputVars: {kind: DaemonSet}, runOnce: true}
  - {objectTemplate: job.yml, replicas: 1}
- {name: json, jobType: patch, jobIterations: 2, qps: 200, burst: 200, objects: [{kind: ConfigMap, labelSelector: {kube-burner.io/job: app}, patchType: application/json-patch+json, objectTemplate: add.json}]}
- {name: merge, jobType: patch, executionMode: sequential, jobIterations: 3, qps: 200, burst: 200, objects: [{kind: ConfigMap, labelSelector: {kube-burner.io/job: app}, patchType: application/merge-patch+json, objectTemplate: merge.yml}]}
- name: rollout
  jobType: patch
  qps: 200
  burst: 200
  objects:
  - {kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}, patchType: application/strategic-merge-patch+json, objectTemplate: rollout.yml}
  - {kind: StatefulSet, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}, patchType: application/apply-patch+yaml, objectTemplate: apply.yml}
- {name: look, jobType: read, jobIterations: 2, qps: 200, burst: 200, objects: [{kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}}]}
- name: remove
  jobType: delete
  qps: 200
  burst: 200
  objects:
  - {kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}}
  - {kind: ReplicaSet, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}}
  - {kind: ConfigMap, labelSelector: {kube-burner.io/job: app}}
`

func (l *loader) writeActing() string {
	l.write("map.yml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'map-{{.JobName}}-{{.Iteration}}-{{.Replica}}'}\ndata: {random: '{{randAlphaNum 20}}', uuid: '{{.UUID}}'}\n")
	l.write("labels.tpl", `{{define "labels"}}{app: "{{.kind | lower}}-{{.Iteration}}-{{.Replica}}"}{{end}}`)
	l.write("owner.yml", `apiVersion: apps/v1
kind: {{.kind}}
metadata: {name: '{{.kind | lower}}-{{.Iteration}}-{{.Replica}}'}
spec:
  {{if ne .kind "DaemonSet"}}replicas: 3{{end}}
  {{if eq .kind "StatefulSet"}}serviceName: none{{end}}
  selector: {matchLabels: {{template "labels" .}}}
  template:
    metadata: {labels: {{template "labels" .}}}
    spec: {containers: [{name: c, image: nothing}], terminationGracePeriodSeconds: 1}
`)
	l.write("job.yml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: 'job-{{.Iteration}}-{{.Replica}}'}\nspec: {completions: 2, parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: nothing}]}}}\n")
	l.write("add.json", `[{"op": "add", "path": "/data/json-{{.Iteration}}", "value": "{{.JobName}}"}]`)
	l.write("merge.yml", "apiVersion: v1\nkind: ConfigMap\ndata: {merged: '{{.Iteration}}'}\n")
	l.write("rollout.yml", "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {metadata: {labels: {rolled: out}}}}\n")
	l.write("apply.yml", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {labels: {applied: '{{.Iteration}}'}}\n")
	return l.write("acting.yml", actingFile)
}

// TestLoadActions: kube-burner's patch, delete and read jobs act on what the run has made and
// on nothing else, on a real API server and with real controllers; pods of controllers have
// times; whenever it is killed, resume finishes it, and undo leaves what was there before.
func TestLoadActions(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{Kwok: 3, KwokNode: func(_ int, n *core.Node) { n.Spec.Taints = nil }})
	l := newLoader(t, c)
	file := l.writeActing()

	// Another user's, with the labels that the jobs ask for.
	labels := map[string]string{"kube-burner.io/job": "app"}
	foreign := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "foreign", Labels: labels}, Data: map[string]string{"a": "b"}}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(ctx, foreign, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	none := int32(0)
	deployment := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "foreign", Labels: labels}, Spec: apps.DeploymentSpec{
		Replicas: &none, Selector: &meta.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "nothing"}}}},
	}}
	if _, err := c.Client.AppsV1().Deployments("default").Create(ctx, deployment, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	untouched := func() {
		t.Helper()
		m, err := c.Client.CoreV1().ConfigMaps("default").Get(ctx, "foreign", meta.GetOptions{})
		if err != nil || len(m.Data) != 1 {
			t.Errorf("another user's config map: %v %v", m.Data, err)
		}
		d, err := c.Client.AppsV1().Deployments("default").Get(ctx, "foreign", meta.GetOptions{})
		if err != nil || len(d.Spec.Template.Labels) != 1 {
			t.Errorf("another user's deployment: %v %v", d.Spec.Template.Labels, err)
		}
	}
	before := c.world(ctx)

	// 10 config maps patched 2 + 3 times, 4 deployments and 2 stateful sets once; 4
	// deployments read twice; 4 deployments, 2 replica sets and 10 config maps deleted.
	const patched, read, deleted = 50 + 4 + 2, 8, 16
	// 3 of each of 4 deployments, twice as they are rolled out, which is waited for; 2 stateful and 2 replica sets,
	// a daemon set on 3 nodes. Pods of Jobs may have ended before they were ready.
	const pods = 2*12 + 6 + 6 + 3

	t.Run("whole", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		x, said := l.run(0, "run", "--keep", file)
		a := x.Actions
		if x.created != 1+1+10+4+2+2+1+2 || a.Patched != patched || a.Read != read || a.Deleted != deleted || a.Failed+a.Skipped+a.Before != 0 || len(a.Others) < 4 {
			t.Errorf("done: %+v, %+v\n%s", x, a, said)
		}
		if n := x.Times.WholeSeconds; n.Ready < pods || n.Ready != x.Times.Ready.N || n.Scheduled < pods || len(x.Gates) != 3 {
			t.Errorf("times: %+v", x.Times)
		}
		untouched()
		maps, err := c.Client.CoreV1().ConfigMaps("acting").List(ctx, meta.ListOptions{LabelSelector: "kube-burner.io/job"})
		if err != nil || len(maps.Items) != 1 || maps.Items[0].Name != "map-first-0-1" {
			t.Errorf("left: %d, %v", len(maps.Items), err)
		}
		sets, err := c.Client.AppsV1().StatefulSets("acting").List(ctx, meta.ListOptions{LabelSelector: "applied=0"})
		if err != nil || len(sets.Items) != 2 {
			t.Errorf("applied: %d, %v", len(sets.Items), err)
		}
		l.run(0, "undo")
		c.gone(t, ctx, before)
		untouched()
	})

	for round := range 4 {
		r := rand.New(rand.NewPCG(3, uint64(round)))
		wait := func() time.Duration { return 300*time.Millisecond + time.Duration(r.Int64N(int64(4*time.Second))) }
		killed := l.kill(wait(), "run", "--keep", file)
		for n := 0; killed && n < 5; n++ {
			if l.runs() <= round+1 {
				killed = l.kill(wait(), "run", "--keep", file)
				continue
			}
			killed = l.kill(wait(), "resume")
		}
		if l.runs() > round+1 {
			x, said := l.resume()
			if x.Actions.Failed != 0 || x.unmakeable != 0 || x.Actions.Planned != patched+read+deleted || x.Actions.Before+x.Actions.Patched+x.Actions.Read+x.Actions.Deleted != x.Actions.Planned {
				t.Errorf("round %d: %+v\n%s", round, x, said)
			}
		} else {
			l.run(0, "run", "--keep", file)
		}
		untouched()
		// Cut off as well.
		for n := 0; n < 3 && l.kill(wait()/4, "undo"); n++ {
		}
		if _, said := l.run(0, "undo"); strings.Contains(said, "kept") {
			t.Errorf("round %d: %s", round, said)
		}
		c.gone(t, ctx, before)
	}
}
