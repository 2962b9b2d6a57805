package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// full are objects with every sort of field, of the kinds that fettle reads from files.
var full = map[string]string{
	"Tuned": `{"apiVersion":"tuned.openshift.io/v1","kind":"Tuned","metadata":{"name":"NAME","namespace":"openshift-cluster-node-tuning-operator","labels":{"a":"b"}},
"spec":{"managementState":"Managed","profile":[{"name":"p","data":"[main]\n"}],"recommend":[{"profile":"p","priority":20,"match":[{"label":"a","value":"b","type":"node","match":[{"label":"c"}]}],
"machineConfigLabels":{"role":"worker"},"operand":{"debug":true,"verbosity":1,"tunedConfig":{"reapply_sysctl":true}}}]}}`,
	"Profile": `{"apiVersion":"tuned.openshift.io/v1","kind":"Profile","metadata":{"name":"NAME","namespace":"openshift-cluster-node-tuning-operator"},
"spec":{"config":{"tunedProfile":"p","debug":true,"verbosity":1,"tunedConfig":{"reapply_sysctl":true},"providerName":"aws"},"profile":[{"name":"p","data":"[main]\n"}]}}`,
	"KubeletConfig": `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"KubeletConfig","metadata":{"name":"NAME"},
"spec":{"machineConfigPoolSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},"kubeletConfig":{"maxPods":50,"kubeReserved":{"cpu":"1"}}}}`,
	"KubeletPool": `{"apiVersion":"fettle.dev/v1alpha1","kind":"KubeletPool","metadata":{"name":"NAME","labels":{"a":"b"}},
"spec":{"nodeSelector":{"matchLabels":{"a":"b"}},"maxUnavailable":1,"paused":true}}`,
}

// places are the paths of all values below a node, as JSON has them.
func places(v any, path []any) (out [][]any) {
	add := func(key, value any) {
		p := append(append([]any{}, path...), key)
		out = append(append(out, p), places(value, p)...)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			add(k, x)
		}
	case []any:
		for i, x := range v {
			add(i, x)
		}
	}
	return out
}

// null puts null at a path of a copy of an object.
func null(text string, path []any) []byte {
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		panic(err)
	}
	at := root
	for i, key := range path {
		last := i == len(path)-1
		switch k := key.(type) {
		case string:
			if m := at.(map[string]any); last {
				m[k] = nil
			} else {
				at = m[k]
			}
		case int:
			if s := at.([]any); last {
				s[k] = nil
			} else {
				at = s[k]
			}
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return out
}

// TestNulls: null at every place of an object is taken or refused by what fettle reads files
// with as by the API server, and what is read is what that stores.
func TestNulls(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{}) {
		return
	}
	c := Start(t, Options{})
	a := c.applier(t)
	a.deploy(".")
	const plain = "kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml"
	text, err := deploy.FS.ReadFile(plain)
	c.must(err)
	a.apply(plain, text)
	c.served()
	read := func(kind string, text []byte) (spec any, err error) {
		switch kind {
		case "Tuned", "Profile":
			o, err := tuned.Read("f", text)
			if err != nil {
				return nil, err
			}
			if kind == "Tuned" {
				return o.Tuneds[0].Spec, nil
			}
			return o.Profiles[0].Spec, nil
		}
		o, err := kubelet.Read("f", text)
		if err != nil {
			return nil, err
		}
		if kind == "KubeletPool" {
			return o.Pools[0].Spec, nil
		}
		return o.Configs[0].Spec, nil
	}
	tried, refused := 0, 0
	for kind, text := range full {
		var root map[string]any
		c.must(json.Unmarshal([]byte(text), &root))
		for _, path := range append(places(map[string]any{"spec": root["spec"]}, nil), []any{}) {
			name := strings.ReplaceAll(strings.ToLower(fmt.Sprintf("%s-%d", kind, tried)), " ", "-")
			body := []byte(text)
			if len(path) > 0 {
				body = null(text, path)
			}
			body = []byte(strings.ReplaceAll(string(body), "NAME", name))
			tried++
			o := &unstructured.Unstructured{}
			c.must(json.Unmarshal(body, &o.Object))
			var in dynamic.ResourceInterface
			c.Wait(kind+" to be served", time.Minute, func(context.Context) (err error) {
				in, err = a.resource(o)
				return err
			})
			stored, serverErr := in.Create(context.Background(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
			ours, err := read(kind, body)
			if fmt.Sprint(path) == "[spec recommend 0 match 0 match 0 label]" {
				continue // the definition says nothing of the items of an inner match, and fettle wants their label
			}
			if (err == nil) != (serverErr == nil) {
				t.Errorf("%s with null at %v: fettle: %v; the API server: %v", kind, path, err, serverErr)
				continue
			}
			if err != nil {
				refused++
				continue
			}
			back, err := json.Marshal(stored.Object)
			c.must(err)
			theirs, err := read(kind, withoutServers(back))
			if err != nil {
				t.Errorf("%s with null at %v: what the API server stores is not read: %v", kind, path, err)
				continue
			}
			x, _ := json.Marshal(ours)
			y, _ := json.Marshal(theirs)
			if string(x) != string(y) {
				t.Errorf("%s with null at %v: fettle reads %s, the API server stores %s", kind, path, x, y)
			}
		}
	}
	t.Logf("%d places, of which %d are refused by both", tried, refused)
	if tried < 60 || refused < 10 {
		t.Error("that is too few to show anything")
	}
}

// withoutServers is an object without what the API server adds to it.
func withoutServers(text []byte) []byte {
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		panic(err)
	}
	name := o["metadata"].(map[string]any)["name"]
	o["metadata"] = map[string]any{"name": name}
	delete(o, "status")
	out, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return out
}
