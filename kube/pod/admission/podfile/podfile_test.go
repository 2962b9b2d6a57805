package podfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/pod/admission"
)

var one = resource.MustParse("1")

const two = `# of the guide
apiVersion: v1
kind: Pod
metadata:
  generateName: cpumanager-
spec:
  containers:
  - name: cpumanager
    image: gcr.io/google_containers/pause-amd64:3.0
    resources:
      requests:
        cpu: 1
        memory: "1G"
      limits:
        cpu: 1
        memory: "1G"
  nodeSelector:
    cpumanager: "true"
---
# nothing here
---
apiVersion: v1
kind: Service
metadata: {name: web}
--- # the third
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers:
      - {name: log, image: log, restartPolicy: Always}
      - name: first
        image: first
        resources: {limits: {cpu: "0.5", hugepages-2Mi: 100Mi}}
      containers:
      - {name: web, image: web}
      resources: {limits: {cpu: 2, memory: 4Gi}}
      overhead: {cpu: 250m}
      volumes:
      - {name: pages, emptyDir: {medium: HugePages-2Mi, sizeLimit: 100Mi}}
      - {name: scratch, emptyDir: {}}
`

func TestRead(t *testing.T) {
	f, err := Read("f.yaml", []byte(two))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Pods) != 2 || strings.Join(f.Skipped, " ") != "Service/web (v1)" {
		t.Fatalf("%d pods, skipped %v", len(f.Pods), f.Skipped)
	}
	p := f.Pods[0]
	cpu := p.Pod.Containers[0].Requests[admission.CPU]
	if p.Line != 1 || p.Pod.Kind != "Pod" || p.Pod.Name != "cpumanager-" || cpu.Value() != 1 || len(p.Pod.Default()) != 0 {
		t.Errorf("%+v", p)
	}
	p = f.Pods[1]
	defaulted := p.Pod.Default()
	init := p.Pod.Init
	if p.Line != 25 || p.Pod.Kind != "Deployment" || p.Pod.Namespace != "shop" || len(init) != 2 || !init[0].Sidecar || init[1].Sidecar {
		t.Errorf("%+v", p)
	}
	if len(p.Pod.Volumes) != 1 || p.Pod.Volumes[0].Medium != "HugePages-2Mi" || p.Pod.Volumes[0].SizeLimit.String() != "100Mi" {
		t.Errorf("%+v", p.Pod.Volumes)
	}
	own := p.Pod.Requests[admission.Memory]
	overhead := p.Pod.Overhead[admission.CPU]
	if own.String() != "4Gi" || overhead.String() != "250m" {
		t.Errorf("%+v", p.Pod)
	}
	if got := strings.Join(defaulted, " "); !strings.Contains(got, "initContainers[first].resources.requests.cpu") || !strings.Contains(got, "resources.requests.memory") {
		t.Errorf("filled in: %s", got)
	}
}

func TestKinds(t *testing.T) {
	const spec = "{containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]}"
	template := "{metadata: {}, spec: " + spec + "}"
	for kind, body := range map[string]string{
		"v1 PodTemplate":           "template: " + template,
		"v1 ReplicationController": "spec: {template: " + template + "}",
		"apps/v1 StatefulSet":      "spec: {serviceName: s, selector: {}, template: " + template + "}",
		"apps/v1 DaemonSet":        "spec: {selector: {}, template: " + template + "}",
		"apps/v1 ReplicaSet":       "spec: {selector: {}, template: " + template + "}",
		"batch/v1 Job":             "spec: {template: " + template + "}",
		"batch/v1 CronJob":         "spec: {schedule: '0 * * * *', jobTemplate: {spec: {template: " + template + "}}}",
	} {
		version, name, _ := strings.Cut(kind, " ")
		f, err := Read("f", []byte("apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: x}\n"+body+"\n"))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if p := f.Pods[0].Pod; p.Kind != name || len(p.Containers) != 1 || len(p.Containers[0].Limits) != 1 {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	list := `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}]}`
	if f, err := Read("f.json", []byte(list)); err != nil || len(f.Pods) != 1 || f.Skipped[0] != "ConfigMap/m (v1)" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestFieldsOfNewReleases reads a pod with the fields for authors that Kubernetes 1.35 to 1.37 have
// added (k8s.io/api v0.34.4 and v0.37.2, core/v1/types.go).
func TestFieldsOfNewReleases(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulingGroup: {podGroupName: workers}
  evictionResponders: [{name: example.com/drain, priority: 10}]
  containers:
  - name: c
    image: i
    resources: {limits: {cpu: 2, memory: 1Gi}}
    volumeMounts: [{name: scratch, mountPath: /scratch, bindMountOptions: [noexec]}]
    readinessProbe: {httpGet: {port: 8080, protocol: HTTP2}}
    livenessProbe: {grpc: {port: 9090, mode: TLS}}
  volumes:
  - name: scratch
    emptyDir: {mode: 0o1777, sizeLimit: 1Gi}
  - name: secret
    secret: {secretName: s, defaultUser: 1000, items: [{key: k, path: p, user: 1001}]}
  - name: map
    configMap: {name: m, defaultUser: 1000}
  - name: words
    downwardAPI: {defaultUser: 1000, items: [{path: name, user: 1000, fieldRef: {fieldPath: metadata.name}}]}
  - name: all
    projected:
      defaultUser: 1000
      sources:
      - serviceAccountToken: {path: token, user: 1000}
      - podCertificate: {signerName: example.com/s, keyType: ED25519, credentialBundlePath: b, user: 1000, userAnnotations: {example.com/a: b}}
`
	f, err := Read("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Pods[0].Pod.Containers; len(c) != 1 || len(c[0].Limits) != 2 {
		t.Errorf("%+v", c)
	}
	for _, misspelt := range []string{"schedulingGroup", "podGroupName", "priority: 10", "bindMountOptions", "protocol", "defaultUser"} {
		wrong := strings.Replace(text, misspelt, "x"+misspelt, 1)
		if _, err := Read("f.yaml", []byte(wrong)); err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("x%s: %v", misspelt, err)
		}
	}
}

func TestRefused(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	for name, c := range map[string]struct{ text, want string }{
		"misspelt field":  {head + "spec: {containers: [{name: c, resource: {}}]}\n", `f.yaml:4: Pod p: unknown field "spec.containers[0].resource"`},
		"on its own line": {"# words\n" + head + "spec:\n  containers:\n  - name: c\n    image: i\n    resource: {}\n", `f.yaml:9: Pod p: unknown field "spec.containers[0].resource"`},
		"in a list":       {head + "spec: {containers: [{name: c}]}\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: q}\n  spec: {containers: [{name: c}],\n    volume: []}\n", `f.yaml:13: items[0]: Pod q: unknown field "spec.volume"`},
		"other case":      {head + "spec: {Containers: [{name: c}]}\n", `unknown field "spec.Containers"`},
		"twice":           {head + "spec: {containers: []}\nspec: {containers: []}\n", `f.yaml:5: "spec" is given twice`},
		"no quantity":     {head + "spec: {containers: [{name: c, resources: {limits: {cpu: many}}}]}\n", "quantities must match"},
		"words":           {"# one\njust words\n", `f.yaml:2: want fields, found "just words"`},
		"a list":          {"- a\n", "f.yaml:1: want fields, found a list"},
		"another type":    {head + "spec:\n  containers:\n  - name: c\n  - name: d\n    image: 5\n", "f.yaml:8: Pod p: spec.containers[1].image: want text, found 5 (int)"},
		"of an item":      {"kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec: []\n", "f.yaml:7: Pod p: items[0].spec: want fields, found a list"},
		"its head":        {"apiVersion: v1\nkind: Pod\nmetadata: x\n", `f.yaml:3: metadata: want fields, found "x"`},
		"an item of text": {"apiVersion: v1\nkind: List\nitems: [x]\n", `f.yaml:3: items[0]: want fields, found "x"`},
		"no kind":         {"metadata: {name: p}\n", "needs apiVersion and kind"},
		"nothing":         {"# only words\n", "found no object at all"},
		"no pods":         {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "found only Service/s"},
		"no template":     {"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: r}\nspec: {}\n", "has no pod template"},
		"second document": {head + "spec: {containers: [{name: c}]}\n---\nkind: [\n", "f.yaml:6: "},
		"no YAML":         {"\tkind: Pod\n", "f.yaml:1: "},
		"too large":       {strings.Repeat("#", maxSize+1), "bytes; at most"},
	} {
		_, err := Read("f.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzRead tests that any manifest is read or refused, and that a read one can be predicted.
func FuzzRead(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, resources: {limits: {cpu: 1e3, memory: 0.5Ki, hugepages-1Gi: 1Gi}}}]}\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {}}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read("f", text)
		if err != nil {
			return
		}
		for _, found := range file.Pods {
			in := admission.Input{
				Node: admission.Node{
					CPUs: []admission.Processor{{ID: 0, Uncore: -1}, {ID: 1, Core: 1, Uncore: -1}},
					NUMA: []admission.NUMANode{{MemoryBytes: 4 << 30, HugePages: []admission.HugePages{{SizeBytes: 2 << 20, Pages: 4}}}},
				},
				Settings: admission.Settings{
					CPUManagerPolicy: admission.PolicyStatic, TopologyManagerPolicy: admission.PolicyRestricted, MemoryManagerPolicy: admission.MemoryPolicyStatic,
					KubeReserved:   admission.Resources{admission.CPU: one, admission.Memory: one},
					ReservedMemory: []admission.MemoryReservation{{Limits: admission.Resources{admission.Memory: one}}},
				},
				Pod: found.Pod,
			}
			p, err := admission.Predict(in)
			if err != nil {
				t.Fatal(err)
			}
			p.Document()
		}
	})
}

// TestStrictGroups tests that the pod's supplementalGroupsPolicy is read.
func TestStrictGroups(t *testing.T) {
	for text, want := range map[string]bool{"{}": false, "null": false, "{supplementalGroupsPolicy: Strict}": true, "{supplementalGroupsPolicy: Merge}": false} {
		f, err := Read("f", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}], securityContext: "+text+"}\n"))
		if err != nil || f.Pods[0].Pod.Placement.StrictGroups != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNeeds tests the features that the node must declare, and resources from a claim.
func TestNeeds(t *testing.T) {
	for text, want := range map[string]string{
		`spec: {containers: [{name: c}]}`:                                                                                            "",
		`spec: {containers: [{name: c, restartPolicyRules: [{action: Restart}]}]}`:                                                   "",
		`spec: {initContainers: [{name: i, restartPolicyRules: [{action: RestartAllContainers}]}], containers: [{name: c}]}`:         admission.FeatureRestartAll,
		`spec: {hostNetwork: true, hostUsers: false, containers: [{name: c, restartPolicyRules: [{action: RestartAllContainers}]}]}`: admission.FeatureRestartAll + " " + admission.FeatureHostNetworkUsers,
		`spec: {hostNetwork: true, hostUsers: true, containers: [{name: c}]}`:                                                        "",
		`spec: {hostUsers: false, containers: [{name: c}]}`:                                                                          "",
		`spec: {containers: [{name: c, volumeMounts: [{name: v, mountPath: /v, bindMountOptions: [noexec]}]}]}`:                      admission.FeatureBindMountOptions,
	} {
		text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n" + text + "\n"
		f, err := Read("f", []byte(text))
		if err != nil || strings.Join(f.Pods[0].Pod.Features, " ") != want {
			t.Errorf("%s: %v", text, err)
		}
		var pod core.Pod
		if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		set, err := ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, version.MustParse("1.37.2"))
		if err != nil {
			t.Fatal(err)
		}
		if names, err := ndf.DefaultFramework.Unmap(set); err != nil || strings.Join(names, " ") != want {
			t.Errorf("%s: the kubelet needs %v (%v)", text, names, err)
		}
	}
	f, err := Read("f", []byte(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: i}], containers: [{name: c}, {name: d}]},
status: {extendedResourceClaimStatus: {resourceClaimName: p-extended, requestMappings: [{containerName: c, resourceName: example.com/gpu, requestName: r}, {containerName: i, resourceName: example.com/nic, requestName: s}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Pods[0].Pod
	if got := fmt.Sprint(p.Init[0].Claimed, p.Containers[0].Claimed, p.Containers[1].Claimed); got != "[example.com/nic] [example.com/gpu] []" {
		t.Error(got)
	}
}

func TestPlacement(t *testing.T) {
	const spec = `{hostNetwork: true, nodeSelector: {disktype: ssd}, tolerations: [{key: a, operator: Exists}], os: {name: linux},
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: b, operator: Gt, values: ["1"]}]}]}}},
initContainers: [{name: first, image: i, ports: [{containerPort: 1}]}, {name: side, image: i, restartPolicy: Always, ports: [{containerPort: 2}]}],
containers: [{name: c, image: i, ports: [{containerPort: 8080}, {containerPort: 53, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}]}]}`
	for text, tolerations := range map[string]int{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: " + spec:                                                   3,
		"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: x}\nspec: {selector: {}, template: {spec: " + spec + "}}": 8,
	} {
		f, err := Read("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		p := f.Pods[0].Pod.Placement
		if p.Selector["disktype"] != "ssd" || p.OS != "linux" || p.Node != "" || len(p.Affinity.NodeSelectorTerms) != 1 || len(p.Tolerations) != tolerations {
			t.Errorf("%+v", p)
		}
		want := []admission.HostPort{{Address: "0.0.0.0", Protocol: "TCP", Port: 2}, {Address: "0.0.0.0", Protocol: "TCP", Port: 8080}, {Address: "10.0.0.1", Protocol: "UDP", Port: 53}}
		if !slices.Equal(p.Ports, want) {
			t.Errorf("ports %v", p.Ports)
		}
	}
}
