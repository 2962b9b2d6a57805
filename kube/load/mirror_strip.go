package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// name is a placeholder for an object's name, which Write replaces.
const name = "NAME"

func named(more map[string]any) map[string]any {
	more["metadata"] = map[string]any{"name": name}
	return more
}

// about rounds a length up by at most an eighth, which makes similar objects equal.
func about(n int) int {
	step := 1 << max(0, bits.Len(uint(n))-4)
	return (n + step - 1) / step * step
}

// filler returns a text of about n bytes.
func filler(n int) string { return strings.Repeat("x", about(n)) }

func account(_ *reading, _ json.RawMessage) (map[string]any, error) {
	return named(map[string]any{}), nil
}

// configMap keeps the number of keys and the sizes of their values.
func configMap(_ *reading, item json.RawMessage) (map[string]any, error) {
	var o struct{ Data, BinaryData map[string]string }
	if err := json.Unmarshal(item, &o); err != nil {
		return nil, err
	}
	kept := named(map[string]any{})
	if d := fillers(o.Data); d != nil {
		kept["data"] = d
	}
	if d := fillers(o.BinaryData); d != nil {
		for key, value := range d {
			// A multiple of four letters A is valid base64.
			d[key] = strings.Repeat("A", (len(value.(string))+3)/4*4)
		}
		kept["binaryData"] = prefixed("binary-", d)
	}
	return kept, nil
}

// fillers returns values of about the same sizes under new keys.
func fillers(data map[string]string) map[string]any {
	if len(data) == 0 {
		return nil
	}
	var lengths []int
	for _, v := range data {
		lengths = append(lengths, len(v))
	}
	slices.Sort(lengths)
	out := map[string]any{}
	for i, n := range lengths {
		out[fmt.Sprintf("key-%d", i)] = filler(n)
	}
	return out
}

func prefixed(with string, data map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range data {
		out[with+key] = value
	}
	return out
}

// secretBytes is the assumed length of a secret's value, which is not read.
const secretBytes = 48

// secret keeps the number of keys in the managed fields.
func secret(_ *reading, item json.RawMessage) (map[string]any, error) {
	var o struct {
		Metadata struct {
			ManagedFields []struct{ FieldsV1 map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(item, &o); err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, m := range o.Metadata.ManagedFields {
		var fields map[string]json.RawMessage
		if text := m.FieldsV1["f:data"]; text == nil || json.Unmarshal(text, &fields) != nil {
			continue
		}
		for key := range fields {
			if strings.HasPrefix(key, "f:") {
				keys[key] = true
			}
		}
	}
	data := map[string]any{}
	for i := range max(1, len(keys)) {
		data[fmt.Sprintf("key-%d", i)] = strings.Repeat("A", secretBytes/3*4)
	}
	return named(map[string]any{"type": "Opaque", "data": data}), nil
}

// service keeps the number of ports, and whether the service has an address.
func service(r *reading, item json.RawMessage) (map[string]any, error) {
	var o struct {
		Spec struct {
			Type, ClusterIP string
			Ports           []struct{ Protocol string }
		}
	}
	if err := json.Unmarshal(item, &o); err != nil {
		return nil, err
	}
	if t := o.Spec.Type; t != "ClusterIP" && t != "" {
		r.notes["a Service of the type "+t+" is mirrored as ClusterIP"]++
	}
	if len(o.Spec.Ports) == 0 {
		o.Spec.Ports = append(o.Spec.Ports, struct{ Protocol string }{"TCP"})
	}
	var ports []any
	for i, p := range o.Spec.Ports {
		ports = append(ports, map[string]any{"name": fmt.Sprintf("port-%d", i), "port": 8000 + i, "protocol": p.Protocol})
	}
	spec := map[string]any{"ports": ports, "selector": map[string]any{"app": name}}
	if o.Spec.ClusterIP == "None" {
		spec["clusterIP"] = "None"
	}
	return named(map[string]any{"spec": spec}), nil
}

// podSpec is the part of a pod's spec that is read.
type podSpec struct {
	Containers []struct {
		Resources struct{ Requests, Limits map[string]any }
		Ports     []struct{}
		Env       []struct{ Value string }
	}
	InitContainers []struct{}
	Volumes        []struct{ Name string }
	NodeSelector   map[string]string
	Affinity       *struct{}
	HostNetwork    bool
}

// kept returns the spec of a waiting pod with the same number of containers and the same requests.
func (s *podSpec) kept(r *reading) map[string]any {
	var containers []any
	for i, c := range s.Containers {
		k := map[string]any{"name": fmt.Sprintf("container-%d", i), "image": r.Image}
		resources := map[string]any{}
		if len(c.Resources.Requests) > 0 {
			resources["requests"] = c.Resources.Requests
		}
		if len(c.Resources.Limits) > 0 {
			resources["limits"] = c.Resources.Limits
		}
		if len(resources) > 0 {
			k["resources"] = resources
		}
		var env []any
		for n, e := range c.Env {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", n), "value": filler(len(e.Value))})
		}
		if env != nil {
			k["env"] = env
		}
		var ports []any
		for n := range c.Ports {
			ports = append(ports, map[string]any{"containerPort": 8000 + 100*i + n})
		}
		if ports != nil {
			k["ports"] = ports
		}
		containers = append(containers, k)
	}
	for what, is := range map[string]bool{
		"the init containers of pods": len(s.InitContainers) > 0, "the volumes of pods": slices.ContainsFunc(s.Volumes, func(v struct{ Name string }) bool { return !strings.HasPrefix(v.Name, "kube-api-access-") }),
		"node placement of pods": len(s.NodeSelector) > 0 || s.Affinity != nil, "host network of pods": s.HostNetwork,
	} {
		if is {
			r.notes[what+": not mirrored"]++
		}
	}
	return map[string]any{"containers": containers, "terminationGracePeriodSeconds": 0}
}

// template returns the pod template for a mirrored object.
func (s *podSpec) template(r *reading) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": name}}, "spec": s.kept(r)}
}

func mirrorPod(r *reading, item json.RawMessage) (map[string]any, error) {
	var o struct{ Spec podSpec }
	if err := json.Unmarshal(item, &o); err != nil {
		return nil, err
	}
	return named(map[string]any{"spec": o.Spec.kept(r)}), nil
}

// workload returns a strip function that keeps the number of pods and their requests.
func workload(kind string) func(*reading, json.RawMessage) (map[string]any, error) {
	return func(r *reading, item json.RawMessage) (map[string]any, error) {
		var o struct {
			Spec struct {
				Replicas             *int
				Template             struct{ Spec podSpec }
				VolumeClaimTemplates []struct{}
			}
		}
		if err := json.Unmarshal(item, &o); err != nil {
			return nil, err
		}
		labels := map[string]any{"app": name}
		spec := map[string]any{"template": o.Spec.Template.Spec.template(r), "selector": map[string]any{"matchLabels": labels}}
		switch kind {
		case "ReplicationController":
			spec["selector"] = labels
		case "StatefulSet":
			spec["serviceName"] = name
		}
		if o.Spec.Replicas != nil {
			spec["replicas"] = *o.Spec.Replicas
		}
		if len(o.Spec.VolumeClaimTemplates) > 0 {
			r.notes["the claims of a StatefulSet: not mirrored, because they need storage"]++
		}
		return named(map[string]any{"spec": spec}), nil
	}
}

// cronJob keeps a CronJob in suspended state.
func cronJob(r *reading, item json.RawMessage) (map[string]any, error) {
	var o struct {
		Spec struct {
			JobTemplate struct {
				Spec struct {
					Template struct{ Spec podSpec }
				}
			}
		}
	}
	if err := json.Unmarshal(item, &o); err != nil {
		return nil, err
	}
	r.notes["a CronJob is mirrored suspended"]++
	template := o.Spec.JobTemplate.Spec.Template.Spec.template(r)
	template["spec"].(map[string]any)["restartPolicy"] = "Never"
	return named(map[string]any{"spec": map[string]any{"suspend": true, "schedule": "0 0 1 1 *", "jobTemplate": map[string]any{"spec": map[string]any{"template": template}}}}), nil
}

// give replaces the placeholder name in all values of an object.
func give(v any, to string) any {
	switch v := v.(type) {
	case string:
		if v == name {
			return to
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = give(v[i], to)
		}
		return out
	case map[string]any:
		out := maps.Clone(v)
		for key := range out {
			out[key] = give(out[key], to)
		}
		return out
	}
	return v
}
