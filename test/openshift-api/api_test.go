// Package openshiftapi holds the documents that fettle size writes against the
// types of OpenShift and Kubernetes: each is decoded strictly, so that a key that
// the type does not have, or a value of another type, is an error.
package openshiftapi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	config "github.com/openshift/api/config/v1"
	machine "github.com/openshift/api/machine/v1beta1"
	machineconfiguration "github.com/openshift/api/machineconfiguration/v1"
	operator "github.com/openshift/api/operator/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// program builds fettle of the module above.
func program(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "fettle")
	c := exec.Command("go", "build", "-o", bin, "./cmd/fettle")
	c.Dir = "../.."
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

type result struct {
	Artefacts []struct{ Name, Content, Checked string }
}

func TestStrict(t *testing.T) {
	bin := program(t)
	seen := map[string]int{}
	for _, call := range []string{
		"openshift --version 4.4 --pods 2200 --pods-per-node 500",
		"openshift --version 4.4 --nodes 20 --pods-per-core 10 --kube-api-qps 100 --kube-api-burst 200",
		"openshift --version 4.4 --nodes 3 --cpu-manager static --topology single-numa-node --max-unhealthy 2",
		"openshift --version 4.4 --nodes 3 --cpu-manager static",
		"openshift --version 4.20 --nodes 100 --huge-pages 4GiB --mtu 9000",
		"openshift --version 4.20 --nodes 100 --huge-pages 4GiB --huge-page 1G --nodes-numa 2 --mtu 9000 --ipsec --storage-class gp2 --retention 30",
		"openshift --version 4.12 --nodes 10 --mtu 9000 --ipsec",
		"openshift --version 4.10 --nodes 10 --mtu 9000",
		"hugepages --size 16GiB --for pod --group 1001",
		"hugepages --size 100MiB --for pod",
		"hugepages --size 16GiB --page 1G --for pod",
		"network --overlay vxlan",
		"network --overlay geneve --ipsec",
	} {
		out, err := exec.Command(bin, append([]string{"-o", "json", "size"}, strings.Fields(call)...)...).Output()
		if err != nil {
			t.Fatalf("fettle size %s: %v", call, err)
		}
		var r result
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Artefacts {
			if strings.HasPrefix(a.Name, "etc/") || a.Name == "install-config.yaml" {
				continue // of no cluster, or of the installer's own types
			}
			if err := strict(a.Name, a.Content); err != nil {
				t.Errorf("fettle size %s: %s: %v\n%s", call, a.Name, err, a.Content)
			}
			seen[a.Name]++
		}
	}
	if len(seen) != 10 {
		t.Errorf("seen: %v", seen)
	}
}

func strict(name, text string) error {
	object, ok := map[string]any{
		"change-maxPods-cr.yaml":                  &machineconfiguration.KubeletConfig{},
		"cpumanager-kubeletconfig.yaml":           &machineconfiguration.KubeletConfig{},
		"topologymanager-kubeletconfig.yaml":      &machineconfiguration.KubeletConfig{},
		"feature-gate.yaml":                       &config.FeatureGate{},
		"healthcheck.yml":                         &machine.MachineHealthCheck{},
		"50-worker-hugepages.yaml":                &machineconfiguration.MachineConfig{},
		"manifests/cluster-network-03-config.yml": &operator.Network{},
		"cluster-monitoring-config.yml":           &core.ConfigMap{},
		"hugepages-pod.yaml":                      &core.Pod{},
		"hugepages_tuning.yaml":                   &tuned{},
	}[name]
	if !ok {
		return fmt.Errorf("no type is known for it")
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		return err
	}
	switch o := object.(type) {
	case *machineconfiguration.KubeletConfig:
		return yaml.UnmarshalStrict(o.Spec.KubeletConfig.Raw, &kubelet.KubeletConfiguration{})
	case *config.FeatureGate:
		if o.Name != "cluster" || o.Spec.FeatureSet != "LatencySensitive" {
			return fmt.Errorf("not what was meant: %+v", o)
		}
	case *machine.MachineHealthCheck:
		if o.Spec.MaxUnhealthy == nil || len(o.Spec.UnhealthyConditions) != 2 || o.Spec.UnhealthyConditions[0].Timeout.Duration.Seconds() != 300 || o.Spec.NodeStartupTimeout.Duration.Minutes() != 10 {
			return fmt.Errorf("not what was meant: %+v", o.Spec)
		}
	case *core.ConfigMap:
		return volumes(o.Data["config.yaml"])
	case *core.Pod:
		for _, c := range o.Spec.Containers {
			for name, limit := range c.Resources.Limits {
				if request := c.Resources.Requests[name]; request.Cmp(limit) != 0 {
					return fmt.Errorf("%s: request %s, limit %s", name, request.String(), limit.String())
				}
			}
		}
	case *tuned:
		return o.valid()
	}
	return nil
}

// volumes are quantities that Kubernetes reads.
func volumes(text string) error {
	var config struct {
		PrometheusK8s, AlertmanagerMain struct {
			VolumeClaimTemplate struct {
				Spec core.PersistentVolumeClaimSpec
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	for _, s := range []core.PersistentVolumeClaimSpec{config.PrometheusK8s.VolumeClaimTemplate.Spec, config.AlertmanagerMain.VolumeClaimTemplate.Spec} {
		if size := s.Resources.Requests[core.ResourceStorage]; size.Cmp(resource.MustParse("1Gi")) < 0 {
			return fmt.Errorf("a volume of %s", size.String())
		}
	}
	return nil
}

// tuned is what the schema of the resource tuneds.tuned.openshift.io, v1, has:
// the module with its Go types needs most of OpenShift.
type tuned struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		ManagementState string `json:"managementState"`
		Profile         []struct {
			Name *string `json:"name"`
			Data *string `json:"data"`
		} `json:"profile"`
		Recommend []struct {
			MachineConfigLabels map[string]string `json:"machineConfigLabels"`
			Match               []match           `json:"match"`
			Priority            *uint64           `json:"priority"`
			Profile             *string           `json:"profile"`
		} `json:"recommend"`
	} `json:"spec"`
}

type match struct {
	Label *string `json:"label"`
	Value string  `json:"value"`
	Type  string  `json:"type"`
	Match []match `json:"match"`
}

// valid is what the schema requires.
func (t *tuned) valid() error {
	if t.APIVersion != "tuned.openshift.io/v1" || t.Kind != "Tuned" || len(t.Spec.Profile) == 0 || len(t.Spec.Recommend) == 0 {
		return fmt.Errorf("no Tuned: %+v", t)
	}
	profiles := map[string]bool{}
	for _, p := range t.Spec.Profile {
		if p.Name == nil || p.Data == nil {
			return fmt.Errorf("a profile needs a name and data")
		}
		profiles[*p.Name] = true
	}
	for _, r := range t.Spec.Recommend {
		if r.Priority == nil || r.Profile == nil || !profiles[*r.Profile] {
			return fmt.Errorf("a recommendation needs a priority and a profile that there is")
		}
		for _, m := range r.Match {
			if m.Label == nil {
				return fmt.Errorf("a match needs a label")
			}
		}
	}
	return nil
}

// check openshift knows each key of a KubeletConfig and of its kubelet, and no other.
func TestKeys(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	config := map[string]any{}
	for key := range fields(reflect.TypeFor[kubelet.KubeletConfiguration]()) {
		config[key] = nil
	}
	delete(config, "kind")
	delete(config, "apiVersion")
	spec := map[string]any{}
	for key := range fields(reflect.TypeFor[machineconfiguration.KubeletConfigSpec]()) {
		spec[key] = nil
	}
	if len(config) < 100 || len(spec) < 5 {
		t.Fatalf("%d keys of a kubelet, %d of a KubeletConfig", len(config), len(spec))
	}
	verdict := func() string {
		spec["kubeletConfig"] = config
		text, err := yaml.Marshal(map[string]any{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig", "metadata": map[string]string{"name": "x"}, "spec": spec})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "k.yaml"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(bin, "-o", "json", "check", "openshift", "--root", dir).Output()
		var audit struct {
			Findings []struct {
				ID    string `json:"id"`
				State string `json:"state"`
			}
		}
		if json.Unmarshal(out, &audit) != nil {
			t.Fatalf("%v %s", err, out)
		}
		for _, f := range audit.Findings {
			if f.ID == "O04.keys" {
				return f.State
			}
		}
		return "none"
	}
	if got := verdict(); got != "pass" {
		t.Errorf("all keys: %s", got)
	}
	config["cpuManagerPolcy"] = nil
	if got := verdict(); got != "fail" {
		t.Errorf("another key: %s", got)
	}
}

// fields are the keys that a struct has in JSON.
func fields(of reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && strings.Contains(rest, "inline") {
			for key := range fields(f.Type) {
				out[key] = true
			}
		} else if name != "" && name != "-" {
			out[name] = true
		}
	}
	return out
}

// A key that the type does not have is found.
func TestStrictIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"healthcheck.yml":        "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nspec: {maxUnhealty: 40%}\n",
		"change-maxPods-cr.yaml": "kind: KubeletConfig\nspec: {kubeletConfig: {maxPod: 500}}\n",
		"hugepages_tuning.yaml":  "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nspec: {recommend: [{profile: x}], profile: [{name: x, data: y}]}\n",
		"feature-gate.yaml":      "kind: FeatureGate\nmetadata: {name: cluster}\nspec: {featureSets: LatencySensitive}\n",
		"hugepages-pod.yaml":     "kind: Pod\nspec: {container: []}\n",
	} {
		if strict(name, text) == nil {
			t.Errorf("%s is accepted: %s", name, text)
		}
	}
}
