package format

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/load/plan"
)

// documented is a field of tables 5.1 to 5.7 of the OpenShift guide, a file that uses it, and its
// effect on the plan of that file.
type documented struct {
	table  string
	fields string // STRUCT.FIELD of fields.go
	text   string // below ClusterLoader
	plan   []string
	// bodies is a text in the created objects.
	bodies map[string]string
}

// ours are the fields that the guide does not have: fettle's extension, fields that only the
// original's code has, and those of the older loader.
var ours = []string{
	"config.ifexists", "config.rate", "config.inflight", "config.seed", "config.wait", "config.slo", "config.quotas",
	"project.labels", "project.nodeselector", "project.objects", "item.sync", "item.total", "item.storage", "server.address",
}

// everyField is a list of all of them. Faults of the original are noted next to the fields.
var everyField = []documented{
	{"5.1", "config.cleanup config.projects", "cleanup: true\nprojects: [{num: 1, basename: a}, {num: 1, basename: b}]", []string{"cleanup", "make Namespace a0", "make Namespace b0"}, nil},
	{"5.1", "config.sync", "projects: [{num: 1, basename: p, pods: [{num: 1, basename: x, image: i}]}]\nsync: {running: true, selectors: [{a: b}], timeout: 2m}",
		[]string{"make Namespace p0", "make Pod p0/x-pod-0", "sync of 2: running a=b within 2m0s"}, nil},
	{"5.1, 5.2, 5.4", "config.tuningsets project.tuning tuningSet.name tuningSet.pods tuningSet.templates",
		"projects: [{num: 1, basename: p, tuning: one, pods: [{num: 1, basename: x, image: i}], templates: [{num: 1, file: t.json}]}, {num: 1, basename: q, tuning: two, pods: [{num: 1, basename: x, image: i}]}]\n" +
			"tuningsets: [{name: one, pods: {rate_limit: {delay: 1}}, templates: {rate_limit: {delay: 2}}}, {name: two, pods: {rate_limit: {delay: 3}}}]",
		[]string{"make Namespace p0", "make ConfigMap p0/m0 every 2ms", "make Pod p0/x-pod-0 every 1ms", "make Namespace q0", "make Pod q0/x-pod-0 every 3ms"}, nil},
	{"5.2", "project.num project.basename", "projects: [{num: 3, basename: node-affinity-}]", []string{"make Namespace node-affinity-0", "make Namespace node-affinity-1", "make Namespace node-affinity-2"}, nil},
	// There a namespace that was only reused is deleted by cleanup: plan and journal keep
	// them apart. And a project without ifexists, as the last of the source's own example,
	// ends the run.
	{"5.2", "project.ifexists", "projects: [{num: 1, basename: a, ifexists: reuse}, {num: 1, basename: b, ifexists: delete}, {num: 1, basename: c}]",
		[]string{"make Namespace a0, which may be there", "make Namespace b0, in the place of an earlier one", "make Namespace c0"}, nil},
	// There the second of a list fails.
	{"5.2", "project.configmaps project.secrets", "projects: [{num: 1, basename: p, configmaps: [{a: cm.txt}, {b: cm.txt}], secrets: [{c: cm.txt}, {d: cm.txt}]}]",
		[]string{"make Namespace p0", "make ConfigMap p0/a", "make ConfigMap p0/b", "make Secret p0/c", "make Secret p0/d"},
		map[string]string{"ConfigMap p0/b": `"data":{"b":"text"}`, "Secret p0/d": `"data":{"d":"dGV4dA=="}`}},
	// There two entries of pods with parameters share one config map.
	{"5.2, 5.3", "project.pods item.num item.basename item.image item.file item.parameters",
		"projects: [{num: 1, basename: p, pods: [{num: 2, basename: a, file: pod.json, parameters: {MODE: fast}}, {num: 1, basename: b, file: pod.json, parameters: [{MODE: y}]}, {num: 1, basename: c, image: registry/pause}]}]",
		[]string{"make Namespace p0", "make Pod p0/a-pod-0", "make Pod p0/a-pod-1", "make Pod p0/b-pod-0", "make Pod p0/c-pod-0"},
		map[string]string{"Pod p0/a-pod-1": `"env":[{"name":"MODE","value":"fast"}]`, "Pod p0/b-pod-0": `"env":[{"name":"MODE","value":"y"}]`, "Pod p0/c-pod-0": `"image":"registry/pause"`}},
	// There a template without IDENTIFIER fails, however it is used.
	{"5.2, 5.3, 5.4", "project.templates item.num item.file item.parameters", "projects: [{num: 1, basename: p, templates: [{num: 2, file: t.json, parameters: [{value: yes}]}, {num: 1, file: alone.json}]}]",
		[]string{"make Namespace p0", "make ConfigMap p0/m0", "make ConfigMap p0/m1", "make ConfigMap p0/alone"},
		map[string]string{"ConfigMap p0/m1": `"data":{"v":"yes"}`, "ConfigMap p0/alone": `"data":{"v":"own"}`}},
	// There the second entry of pods counts those of the first, and its steps pass at once;
	// a step of templates is not waited for. 10s is no pause at all.
	{"5.5, 5.6", "pace.stepping stepping.stepsize stepping.pause stepping.timeout",
		"projects: [{num: 1, basename: p, tuning: t, templates: [{num: 2, file: t.json}], pods: [{num: 3, basename: a, image: i}, {num: 2, basename: b, image: i}]}]\n" +
			"tuningsets: [{name: t, templates: {stepping: {stepsize: 2, pause: 10s}}, pods: {stepping: {stepsize: 2, pause: 10, timeout: 1 min}}}]",
		[]string{
			"make Namespace p0", "make ConfigMap p0/m0", "make ConfigMap p0/m1", "wait for m0 to m1 within 10m0s", "pause 10s",
			"make Pod p0/a-pod-0", "make Pod p0/a-pod-1", "wait for a-pod-0 to a-pod-1 within 1m0s", "pause 10s", "make Pod p0/a-pod-2",
			"make Pod p0/b-pod-0", "make Pod p0/b-pod-1", "wait for b-pod-0 to b-pod-1 within 1m0s", "pause 10s",
		}, nil},
	// There rate_limit, as it is documented, is passed over, and a time with a unit is 0.
	{"5.5, 5.6", "pace.rate_limit rateLimit.delay",
		"projects: [{num: 1, basename: p, tuning: t, pods: [{num: 2, basename: a, image: i}], templates: [{num: 1, file: t.json}]}, {num: 1, basename: q, tuning: u, pods: [{num: 1, basename: a, image: i}]}]\n" +
			"tuningsets: [{name: t, pods: {rate_limit: {delay: 250}}, templates: {ratelimit: {delay: 250 ms}}}, {name: u, pods: {stepping: {stepsize: 5, pause: 0 s}, rate_limit: {delay: 0 ms}}}]",
		[]string{"make Namespace p0", "make ConfigMap p0/m0 every 250ms", "make Pod p0/a-pod-0 every 250ms", "make Pod p0/a-pod-1 every 250ms", "make Namespace q0", "make Pod q0/a-pod-0"}, nil},
	// There the server holds no pod, and a second one ends the program.
	{"5.7", "sync.server server.enabled server.port",
		"projects: [{num: 1, basename: p, pods: [{num: 1, basename: a, image: i, sync: {server: {enabled: true, port: 9099}}}, {num: 1, basename: b, image: i, sync: {server: {enabled: false, port: 1}}}]}]\nsync: {server: {enabled: true}, timeout: 90s}",
		[]string{"listen on 9090", "make Namespace p0", "listen on 9099", "make Pod p0/a-pod-0", "sync of 1: server within 10m0s", "make Pod p0/b-pod-0", "sync of 3: server within 1m30s"}, nil},
	// There running without a timeout cannot be read.
	{"5.7", "sync.running sync.succeeded sync.selectors sync.timeout",
		"projects: [{num: 1, basename: p, pods: [{num: 1, basename: a, image: i, sync: {running: true, succeeded: true, selectors: [{purpose: test}, {app: x}], timeout: 1h5m}}, {num: 1, basename: b, image: i, sync: {succeeded: true, selectors: {purpose: test}, timeout: 0}}]}]",
		[]string{"make Namespace p0", "make Pod p0/a-pod-0", "sync of 1: running succeeded app=x purpose=test within 1h5m0s", "make Pod p0/b-pod-0", "sync of 1: succeeded purpose=test within 10m0s"}, nil},
}

// TestDocumentedFields tests that each field of the guide's tables has its meaning in the plan, and
// that no field is missing.
func TestDocumentedFields(t *testing.T) {
	files := from(map[string]string{
		"cm.txt": "text", "pod.json": aPod,
		"t.json":     `{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"},{"name":"VALUE","value":"own"}],"objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m${IDENTIFIER}"},"data":{"v":"${VALUE}"}}]}`,
		"alone.json": `{"kind":"Template","apiVersion":"v1","parameters":[{"name":"VALUE","value":"own"}],"objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"alone"},"data":{"v":"${VALUE}"}}]}`,
	})
	seen := map[string]bool{}
	for _, name := range ours {
		seen[name] = true
	}
	for _, d := range everyField {
		for _, name := range strings.Fields(d.fields) {
			seen[name] = true
		}
		l, err := ReadClusterLoader("test.yaml", []byte("ClusterLoader:\n  "+strings.ReplaceAll(d.text, "\n", "\n  ")), files)
		if err != nil {
			t.Errorf("%s %s: %v", d.table, d.fields, err)
			continue
		}
		p, err := plan.Compile(t.Context(), l, "run", nil)
		if err != nil {
			t.Errorf("%s %s: %v", d.table, d.fields, err)
			continue
		}
		if diff := cmp.Diff(d.plan, inWords(p)); diff != "" {
			t.Errorf("%s %s:\n%s", d.table, d.fields, diff)
		}
		for i := range p.Len() {
			if body := string(p.Body(i)); !strings.Contains(body, d.bodies[p.Describe(i)]) {
				t.Errorf("%s %s: %s", d.table, d.fields, body)
			}
		}
	}
	for _, s := range []any{clusterloaderConfig{}, project{}, clusterloaderItem{}, tuningSet{}, pace{}, stepping{}, rateLimit{}, sync{}, server{}} {
		kind := reflect.TypeOf(s)
		of := strings.TrimPrefix(kind.Name(), "clusterloader")
		of = strings.ToLower(of[:1]) + of[1:]
		for i := range kind.NumField() {
			name := kind.Field(i).Tag.Get("yaml")
			if name != "" && !seen[of+"."+name] {
				t.Errorf("no line of the table has %s.%s", of, name)
			}
		}
	}
}

// TestFieldsThatDoNothing tests that unsupported content of a file is an error or a note.
func TestFieldsThatDoNothing(t *testing.T) {
	files := from(map[string]string{"t.json": aTemplate, "pod.json": aPod})
	project := func(more string) []byte {
		return []byte("ClusterLoader:\n  projects:\n  - {num: 1, basename: p, " + more + "\n")
	}
	for want, text := range map[string][]byte{
		"test.yaml:3: sync.server.port: want 1 to 65535, or 0 for 9090, found 65536":  project("pods: [{num: 1, basename: a, image: i, sync: {server: {enabled: true, port: 65536}}}]}"),
		"test.yaml:3: sync.server.port: 9090 is also used by the sync at test.yaml:4": project("pods: [{num: 1, basename: a, image: i, sync: {server: {enabled: true}}}]}\n  sync: {server: {enabled: true, port: 9090}}"),
	} {
		if _, err := ReadClusterLoader("test.yaml", text, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	l, err := ReadClusterLoader("test.yaml", project("pods: [{num: 1, basename: a, file: pod.json, image: i}], templates: [{num: 1, basename: b, image: i, file: t.json}]}"), files)
	want := []string{
		"test.yaml:3: basename of a template is ignored; names and images come from t.json", "test.yaml:3: image of a template is ignored; names and images come from t.json",
		"test.yaml:3: image is ignored; the images come from pod.json",
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, l.Notes); d != "" {
		t.Error(d)
	}
}

// inWords returns the steps of a plan, except the wait at its end.
func inWords(p *plan.Plan) (out []string) {
	if p.Load.Cleanup {
		out = append(out, "cleanup")
	}
	for i, op := range p.Ops {
		switch op.Do {
		case plan.Create:
			for object := op.From; object < op.To; object++ {
				line := "make " + p.Describe(object)
				if op.Every > 0 {
					line += " every " + op.Every.String()
				}
				if ifExists, space := p.StageSpace(object); space {
					line += map[string]string{"reuse": ", which may be there", "delete": ", in the place of an earlier one", "fail": ""}[ifExists]
				}
				out = append(out, line)
			}
		case plan.Settle:
			if i < len(p.Ops)-1 || op.Timeout != 5*time.Minute {
				out = append(out, fmt.Sprintf("wait for %s to %s within %s", p.Name(op.From), p.Name(op.To-1), op.Timeout))
			}
		case plan.Pause:
			out = append(out, "pause "+op.Timeout.String())
		case plan.Listen:
			out = append(out, fmt.Sprint("listen on ", op.Sync.Port))
		case plan.Sync:
			line := fmt.Sprintf("sync of %d:", op.To-op.From)
			for _, x := range []struct {
				is   bool
				word string
			}{{op.Sync.Server, "server"}, {op.Sync.Running, "running"}, {op.Sync.Succeeded, "succeeded"}} {
				if x.is {
					line += " " + x.word
				}
			}
			for _, name := range slices.Sorted(maps.Keys(op.Sync.Selectors)) {
				line += " " + name + "=" + op.Sync.Selectors[name]
			}
			out = append(out, line+" within "+op.Timeout.String())
		}
	}
	return out
}

// TestNothingMade tests that content that creates nothing, or waits for nothing, is reported.
func TestNothingMade(t *testing.T) {
	l, err := ReadClusterLoader("f.yaml", []byte("ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    pods:\n    - {basename: a, image: i}\n    - {num: 1, basename: b, image: i, sync: {selectors: {app: x}}}\n  - basename: q\n"), Here)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"f.yaml:6: pods: num is 0 or missing; nothing created",
		"f.yaml:7: sync waits for nothing; give selectors, and running: true or succeeded: true",
		"f.yaml:8: projects: num is 0 or missing; nothing created",
	}
	if d := cmp.Diff(want, l.Notes); d != "" {
		t.Error(d)
	}
	for _, enabled := range []string{"true", "false"} {
		text := "ClusterLoader:\n  projects:\n  - {num: 1, basename: m, pods: [{num: 1, basename: p, image: x, sync: {server: {enabled: " + enabled + ", port: 99999}, running: true}}]}\n"
		if _, err := ReadClusterLoader("f.yaml", []byte(text), Here); err == nil || !strings.Contains(err.Error(), "f.yaml:3: sync.server.port: want 1 to 65535, or 0 for 9090, found 99999") {
			t.Errorf("enabled %s: %v", enabled, err)
		}
	}
}
