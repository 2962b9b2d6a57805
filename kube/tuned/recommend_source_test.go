package tuned

import (
	"os"
	"strings"
	"testing"
)

// The examples of the OpenShift 4.4 guide, on the nodes that it names and on those where two of
// them meet.
func TestSourceExamples(t *testing.T) {
	const (
		dir     = "testdata/source002/"
		master  = "node-role.kubernetes.io/master "
		infra   = "node-role.kubernetes.io/infra "
		ingress = "tuned.openshift.io/ingress-node-label "
		es      = "tuned.openshift.io/elasticsearch"
	)
	for _, c := range []struct {
		name  string
		files []string
		pods  bool
		cases [][2]string
	}{
		// 4.3, 4.4: nodes of the control plane have openshift-control-plane, the
		// others openshift-node.
		{"the default resource", []string{"default.yaml"}, false, [][2]string{
			{master, "openshift-control-plane default[0] match match[0]="},
			{infra, "openshift-control-plane default[0] match match[1]="},
			{"node-role.kubernetes.io/worker", "openshift-node default[1] catch-all"},
			{"", "openshift-node default[1] catch-all"},
		}},
		// 4.5: the pod decides, but only on nodes of the two roles; else the next.
		{"elasticsearch, with pods", []string{"default.yaml", "elasticsearch.yaml"}, true, [][2]string{
			{master + "|" + es, "openshift-control-plane-es elasticsearch[0] match match[0].match[0]= on ns/pod0"},
			{infra + "|x|" + es, "openshift-control-plane-es elasticsearch[0] match match[0].match[1]= on ns/pod1"},
			{"worker|" + es, "openshift-node elasticsearch[2] catch-all"},
			{master + "|x", "openshift-control-plane elasticsearch[1] match match[0]="},
			{infra, "openshift-control-plane elasticsearch[1] match match[1]="},
			{"", "openshift-node elasticsearch[2] catch-all"},
		}},
		{"elasticsearch, pods not looked at", []string{"default.yaml", "elasticsearch.yaml"}, false, [][2]string{
			{master + "|" + es, "openshift-control-plane elasticsearch[1] match match[0]= !PodLabelsIgnored"},
			{"|" + es, "openshift-node elasticsearch[2] catch-all !PodLabelsIgnored"},
		}},
		// 4.6: the label set to any value.
		{"ingress", []string{"default.yaml", "ingress.yaml"}, false, [][2]string{
			{ingress, "openshift-ingress ingress[0] match match[0]="},
			{"tuned.openshift.io/ingress-node-label=yes " + master, "openshift-ingress ingress[0] match match[0]=yes"},
			{master, "openshift-control-plane default[0] match match[0]="},
			{"", "openshift-node default[1] catch-all"},
		}},
		// 13.3: oc label node NODE hugepages=true. Its priority is that of the
		// control plane's rule, which the document does not speak of.
		{"huge pages", []string{"default.yaml", "hugepages.yaml"}, false, [][2]string{
			{"hugepages=true", "node-hugepages hugepages[0] match match[0]=true"},
			{"hugepages=false", "node-hugepages hugepages[0] match match[0]=false"},
			{master + "hugepages=true", "openshift-control-plane default[0] match match[0]= !Tie"},
			{"", "openshift-node default[1] catch-all"},
		}},
		{"all of them", []string{"hugepages.yaml", "ingress.yaml", "elasticsearch.yaml", "default.yaml"}, true, [][2]string{
			{master + ingress + "|" + es, "openshift-control-plane-es elasticsearch[0] match match[0].match[0]= on ns/pod0 !Tie"},
			{ingress, "openshift-ingress ingress[0] match match[0]="},
			{"hugepages=true", "openshift-node elasticsearch[2] catch-all !Tie"}, // both have priority 30
			{master, "openshift-control-plane elasticsearch[1] match match[0]="},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var names []string
			for _, f := range c.files {
				names = append(names, dir+f)
			}
			o := options()
			o.PodLabels = c.pods
			rules := New(files(t, names...), nil, o)
			for _, nw := range c.cases {
				if got := outline(rules.Decide(node(nw[0]))); got != nw[1] {
					t.Errorf("%q:\n got %s\nwant %s", nw[0], got, nw[1])
				}
			}
			for _, object := range rules.Objects() {
				if object.Valid == (object.Name == "elasticsearch" && !c.pods) {
					t.Errorf("%s", outlineObject(object))
				}
			}
		})
	}
}

// Our own default object on the nodes of today.
func TestDefaultObject(t *testing.T) {
	rules := New(files(t, "../deploy/default-tuned.yaml"), nil, options())
	for text, want := range map[string]string{
		"node-role.kubernetes.io/control-plane": "openshift-control-plane default[0] match match[0]=",
		"node-role.kubernetes.io/master":        "openshift-control-plane default[0] match match[1]=",
		"node-role.kubernetes.io/infra":         "openshift-control-plane default[0] match match[2]=",
		"kubernetes.io/os=linux":                "openshift-node default[1] catch-all",
		"kubernetes.io/os=windows":              "not-linux",
	} {
		if got := outline(rules.Decide(node(text))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for _, o := range rules.Objects() {
		if outlineObject(o) != "+default" {
			t.Errorf("%s: %+v", outlineObject(o), o)
		}
	}
}

// The example of the manual, on the nodes that the manual speaks of.
func TestManualExample(t *testing.T) {
	const page = "../../docs/kubernetes-tuned.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	objects, err := Read(page, []byte(example))
	if err != nil || len(objects.Tuneds) != 1 {
		t.Fatalf("%d objects, %v", len(objects.Tuneds), err)
	}
	rules := New(append(files(t, "../deploy/default-tuned.yaml"), &objects.Tuneds[0]), nil, options())
	for text, want := range map[string]string{
		"hugepages zone=a":      "node-hugepages hugepages[0] match match[0].match[0]=a",
		"hugepages=yes zone=b":  "node-hugepages hugepages[0] match match[0].match[1]=b",
		"hugepages zone=c":      "openshift-node default[1] catch-all",
		"hugepages":             "openshift-node default[1] catch-all",
		"zone=a":                "openshift-node default[1] catch-all",
		"hugepages zone=a | hu": "node-hugepages hugepages[0] match match[0].match[0]=a",
	} {
		d := rules.Decide(node(text))
		if got := outline(d); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if d.Profile == "node-hugepages" && d.Deferred != DeferUpdate {
			t.Errorf("%q: deferred %s", text, d.Deferred)
		}
	}
}
