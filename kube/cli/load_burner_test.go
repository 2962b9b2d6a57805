package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// workloads are our own configurations with the constructs of kube-burner 2.7.3's examples
// (examples/workloads): files by name; load.yml is the configuration.
var workloads = map[string]struct {
	files map[string]string
	args  []string
	kinds map[string]int
	pods  int
	notes []string
	acts  map[string]int
	code  int
	says  string
}{
	"patch and delete": {
		files: map[string]string{
			"load.yml": `jobs:
- {name: app, jobIterations: 3, qps: 9, namespace: app, preLoadImages: false, objects: [{objectTemplate: t/d.yml, replicas: 2}, {objectTemplate: t/m.yml}]}
- name: change
  jobType: patch
  jobIterations: 2
  qps: 9
  objects:
  - {kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}, patchType: application/json-patch+json, objectTemplate: t/p.json}
  - {kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}, patchType: application/apply-patch+yaml, objectTemplate: t/p.yml}
- {name: remove, jobType: delete, qps: 9, objects: [{kind: Deployment, apiVersion: apps/v1, labelSelector: {kube-burner.io/job: app}}]}
- {name: wait, jobType: delete, qps: 9, objects: [{kind: Pod, labelSelector: {kube-burner.io/job: app}}]}
`,
			"t/d.yml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'd-{{.Replica}}'}\nspec: {replicas: 4, template: {spec: {}}}\n",
			"t/m.yml": mapTemplate, "t/p.json": `[{"op": "add", "path": "/metadata/labels/n", "value": "{{.Iteration}}"}]`,
			"t/p.yml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {a{{.Iteration}}: b}}\n",
		},
		kinds: map[string]int{"Namespace": 3, "Deployment": 6, "ConfigMap": 3}, pods: 24,
		notes: []string{"the load creates no Pod with kube-burner.io/job=app"}, acts: map[string]int{"patch": 24, "delete": 6},
	},
	"shared by iterations": {
		files: map[string]string{
			"load.yml": "global: {gc: true}\njobs:\n- {name: s, jobIterations: 4, qps: 9, namespace: s, preLoadImages: false, objects: [{objectTemplate: v.yml, repeatEveryNIterations: 2}, {objectTemplate: c.yml, inputVars: {each: 2}}]}\n",
			"v.yml":    "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: 'v-{{.Iteration}}'}\n",
			"c.yml":    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: 'c-{{.Iteration}}', labels: {of: 'v-{{div .Iteration .each}}'}}\n",
		},
		kinds: map[string]int{"Namespace": 4, "PersistentVolume": 2, "PersistentVolumeClaim": 4},
	},
	"of the cluster alone": {
		files: map[string]string{
			"load.yml": "jobs:\n- {name: c, jobIterations: 30, qps: 9, namespacedIterations: false, namespace: c, waitWhenFinished: false, preLoadImages: false, objects: [{objectTemplate: c.yml}]}\n",
			"c.yml":    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: 'things{{.Iteration}}.example.com'}\n",
		},
		kinds: map[string]int{"CustomResourceDefinition": 30},
	},
	"one of a list at random": {
		files: map[string]string{
			"load.yml": "jobs:\n- {name: r, qps: 9, namespace: r, preLoadImages: false, objects: [{objectTemplate: d.yml, replicas: 10, inputVars: {hosts: [a, b, c]}}]}\n",
			"d.yml":    "{{- $i := randInt 0 (len .hosts) -}}\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'd-{{.Replica}}'}\nspec: {template: {spec: {nodeSelector: {host: {{index .hosts $i}}}}}}\n",
		},
		kinds: map[string]int{"Namespace": 1, "Deployment": 10}, pods: 10,
	},
	"a policy before the load, in its namespace": {
		files: map[string]string{
			"load.yml": "jobs:\n- {name: deny, qps: 1, namespacedIterations: false, namespace: net, jobPause: 1m, preLoadImages: false, objects: [{objectTemplate: n.yml}]}\n- {name: net, jobIterations: 5, qps: 9, namespacedIterations: false, namespace: net, waitWhenFinished: true, podWait: false, preLoadImages: true, preLoadPeriod: 2m, objects: [{objectTemplate: p.yml, replicas: 2}]}\n",
			"n.yml":    "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\nspec: {podSelector: {}}\n",
			"p.yml":    "apiVersion: v1\nkind: Pod\nmetadata: {name: 'p-{{.Iteration}}-{{.Replica}}'}\nspec: {containers: [{name: c, image: pause}]}\n",
		},
		kinds: map[string]int{"Namespace": 1, "NetworkPolicy": 1, "Pod": 10}, pods: 10, notes: []string{"preLoadImages"},
	},
	"lists and arithmetic": {
		files: map[string]string{
			"load.yml": "{{$spaces := 3}}\njobs:\n- {name: n, jobIterations: {{$spaces}}, qps: 9, namespace: n, preLoadImages: false, objects: [{objectTemplate: n.yml, replicas: 2, inputVars: {spaces: {{$spaces}}, ports: 2}}]}\n",
			"n.yml":    "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: 'n-{{.Replica}}'}\nspec:\n  {{- $of := list }}{{- range $i, $e := until .ports }}{{- $of = append $of (toString (add 1 $i)) }}{{- end }}\n  values: {{toJson $of}}\n  next: {{mod (mul (sub .Replica 1) .ports) .spaces}}\n",
		},
		kinds: map[string]int{"Namespace": 3, "NetworkPolicy": 6},
	},
	"variables": {
		files: map[string]string{
			"load.yml": "{{if ne .N 0}}\njobs:\n- {name: v, jobIterations: {{.N}}, qps: 9, namespace: 'v-{{.UUID}}', preLoadImages: false, objects: [{objectTemplate: m.yml}]}\n{{end}}\n",
			"m.yml":    mapTemplate, "vars.yml": "N: 2\n",
		},
		args:  []string{"--user-data", "vars.yml", "--set", "jobs.0.objects.0.replicas=3", "--uuid", "0-1"},
		kinds: map[string]int{"Namespace": 2, "ConfigMap": 6},
	},
	"templates that others call": {
		files: map[string]string{
			"load.yml": "global: {functionTemplates: [e.tpl]}\njobs:\n- {name: f, qps: 9, namespace: f, preLoadImages: false, objects: [{objectTemplate: m.yml, inputVars: {n: 2}}]}\n",
			"m.yml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  {{- template \"vars\" (dict \"n\" .n \"indent\" 2) }}\n",
			"e.tpl":    "{{- define \"vars\" -}}{{- range $i := until $.n }}{{- printf \"v%d: x\" $i | nindent $.indent }}{{- end }}{{- end }}",
		},
		kinds: map[string]int{"Namespace": 1, "ConfigMap": 1},
	},
	"of version 1": {
		files: map[string]string{
			"load.yml": "global: {indexerConfig: {enabled: false}}\njobs:\n- {name: o, qps: 9, namespace: o, waitFor: [Deployment], objects: [{objectTemplate: m.yml}]}\n",
			"m.yml":    mapTemplate,
		},
		kinds: map[string]int{"Namespace": 1, "ConfigMap": 1}, notes: []string{": waitFor (kube-burner 1) ignored; as in kube-burner 2, fettle waits for all kinds that become ready", "indexerConfig"},
	},
	"hooks": {
		files: map[string]string{"load.yml": hooked, "m.yml": mapTemplate},
		code:  ui.Refused, says: "hooks is not supported: job h: its hooks are not run\n--ignore=hooks,waitOptions",
	},
	"hooks that are ignored": {
		files: map[string]string{"load.yml": hooked, "m.yml": mapTemplate}, args: []string{"--ignore", "hooks,waitOptions"},
		kinds: map[string]int{"Namespace": 1, "ConfigMap": 1}, notes: []string{"hooks is ignored", "waitOptions is ignored"},
	},
	"one of two ignored": {
		files: map[string]string{"load.yml": hooked, "m.yml": mapTemplate}, args: []string{"--ignore", "hooks"},
		code: ui.Refused, says: "--ignore=hooks,waitOptions",
	},
	"a field that is read": {
		files: map[string]string{"load.yml": hooked, "m.yml": mapTemplate}, args: []string{"--ignore", "hook"},
		code: ui.Usage, says: `--ignore "hook": want hooks, watchers, waitOptions, objectWait (did you mean "hooks"?)`,
	},
	"an option of another format": {
		files: map[string]string{"load.yml": "ClusterLoader: {projects: [{num: 1, basename: p}]}\n"}, args: []string{"--uuid", "1"},
		code: ui.Usage, says: "need a kube-burner configuration, but this load is cluster-loader",
	},
	"operations of virtual machines": {
		files: map[string]string{"load.yml": "jobs:\n- {name: k, jobType: kubevirt, qps: 9, objects: [{kubeVirtOp: stop, labelSelector: {a: b}}]}\n"},
		code:  ui.Usage, says: "jobType kubevirt is not supported",
	},
}

const (
	mapTemplate = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'm-{{.Iteration}}-{{.Replica}}'}\ndata: {uuid: '{{.UUID}}', text: '{{randAlphaNum 8 | b64enc}}'}\n"
	hooked      = "jobs:\n- {name: h, qps: 9, namespace: h, preLoadImages: false, hooks: [{cmd: [\"true\"], when: beforeCleanup}], objects: [{objectTemplate: m.yml, waitOptions: {kind: Pod}}]}\n"
)

// TestBurnerWorkloads tests the plan of each of them, or the reason for its refusal.
func TestBurnerWorkloads(t *testing.T) {
	for name, x := range workloads {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, text := range x.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code, out, errs := run(t, append([]string{"load", "plan", "--offline", "load.yml", "--output", "json"}, x.args...)...)
			if x.code != 0 {
				flat := strings.Join(strings.Fields(out+errs), " ")
				for _, want := range strings.Split(x.says, "\n") {
					if !strings.Contains(flat, want) {
						t.Errorf("%q is not in: %s", want, flat)
					}
				}
				if code != x.code {
					t.Errorf("exit code %d, want %d", code, x.code)
				}
				return
			}
			var doc struct {
				Pods    int
				Notes   []string
				Actions map[string]int
				Kinds   []struct {
					Kind  string
					Count int
				}
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
				t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
			}
			kinds := map[string]int{}
			for _, k := range doc.Kinds {
				kinds[k.Kind] = k.Count
			}
			if !maps.Equal(kinds, x.kinds) || !maps.Equal(doc.Actions, x.acts) || doc.Pods != x.pods {
				t.Errorf("%v, %v and %d pods, want %v, %v and %d", kinds, doc.Actions, doc.Pods, x.kinds, x.acts, x.pods)
			}
			for _, want := range x.notes {
				if !slices.ContainsFunc(doc.Notes, func(n string) bool { return strings.Contains(n, want) }) {
					t.Errorf("%q is not in the notes: %q", want, doc.Notes)
				}
			}
			if len(x.notes) == 0 && len(doc.Notes) > 0 {
				t.Errorf("noted: %q", doc.Notes)
			}
		})
	}
}
