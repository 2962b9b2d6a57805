package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/kube/etcd"
)

// Control-plane programs by their container names.
const (
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// Kubeadm has the flags that a kubeadm ClusterConfiguration adds to the control plane's programs
// (extraArgs). An upgrade writes them into the new static pods.
type Kubeadm struct {
	// Flags are the flags by program, such as kube-apiserver or etcd.
	Flags map[string][]kuberelease.Flag
	// EtcdEnv are etcd's environment variables, from v1beta4 on.
	EtcdEnv map[string]string
	// External are the endpoints of an etcd cluster that kubeadm did not install.
	External []string
}

// extraArgs are a program's flags. Up to v1beta3 they are a map; from v1beta4 on a list that may
// repeat a name.
type extraArgs []kuberelease.Flag

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *extraArgs) UnmarshalYAML(n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		var all map[string]string
		if err := n.Decode(&all); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			*e = append(*e, kuberelease.Flag{Name: name, Value: all[name]})
		}
		return nil
	case yaml.SequenceNode:
		var all []struct{ Name, Value string }
		if err := n.Decode(&all); err != nil {
			return err
		}
		for _, f := range all {
			*e = append(*e, kuberelease.Flag{Name: f.Name, Value: f.Value})
		}
		return nil
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil
		}
	}
	return fmt.Errorf("line %d: extraArgs: want a map of names and values (v1beta3), or a list of {name, value} (v1beta4)", n.Line)
}

// readKubeadm parses a ClusterConfiguration.
func readKubeadm(text string) (*Kubeadm, error) {
	type component struct {
		ExtraArgs extraArgs                      `yaml:"extraArgs"`
		ExtraEnvs []struct{ Name, Value string } `yaml:"extraEnvs"`
	}
	var c struct {
		Kind              string
		APIServer         component `yaml:"apiServer"`
		ControllerManager component `yaml:"controllerManager"`
		Scheduler         component `yaml:"scheduler"`
		Etcd              struct {
			Local    component
			External struct{ Endpoints []string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, err
	}
	if c.Kind != "ClusterConfiguration" {
		return nil, fmt.Errorf("kind is %q, want ClusterConfiguration", c.Kind)
	}
	k := &Kubeadm{EtcdEnv: map[string]string{}, External: c.Etcd.External.Endpoints, Flags: map[string][]kuberelease.Flag{
		apiServer: c.APIServer.ExtraArgs, controllerManager: c.ControllerManager.ExtraArgs, scheduler: c.Scheduler.ExtraArgs, ofEtcd: c.Etcd.Local.ExtraArgs,
	}}
	for _, e := range c.Etcd.Local.ExtraEnvs {
		k.EtcdEnv[e.Name] = e.Value
	}
	return k, nil
}

// configMap is the part of a ConfigMap that fettle reads.
type configMap struct{ Data map[string]string }

// kubeadmMap is the ConfigMap with kubeadm's configuration.
const kubeadmMap = "kubeadm-config"

// controlPlane reads the control plane's flags that pods do not show, from the configuration of
// kubeadm or of OpenShift's API servers.
func (s *Survey) controlPlane(ctx context.Context) {
	if s.cluster.OpenShift != "" {
		s.openShiftFlags(ctx)
		return
	}
	var m configMap
	err := s.get(ctx, "/api/v1/namespaces/"+etcd.KubeSystem.Namespace+"/configmaps/"+kubeadmMap, &m)
	if absent(err) {
		return
	}
	if err == nil {
		s.cluster.Kubeadm, err = readKubeadm(m.Data["ClusterConfiguration"])
	}
	if err != nil {
		s.cluster.Miss(OfKubeadm, "ConfigMap %s/%s: %v", etcd.KubeSystem.Namespace, kubeadmMap, err)
	}
}

// openShiftFlags reads the flags in the configuration of OpenShift's API servers
// (apiServerArguments). Each revision of their pods has its own ConfigMap.
func (s *Survey) openShiftFlags(ctx context.Context) {
	type flags struct {
		flags []kuberelease.Flag
		err   error
	}
	read := map[string]flags{}
	for i := range s.cluster.Programs {
		p := &s.cluster.Programs[i]
		if p.revision == "" {
			continue
		}
		name := "config-" + p.revision
		f, ok := read[name]
		if !ok {
			var m configMap
			if f.err = s.get(ctx, "/api/v1/namespaces/"+openShiftServers+"/configmaps/"+name, &m); f.err == nil {
				f.flags, f.err = serverArguments(m.Data["config.yaml"])
			}
			read[name] = f
		}
		if p.Flags = append(p.Flags, f.flags...); f.err != nil {
			p.Unread = fmt.Sprintf("ConfigMap %s/%s: %v", openShiftServers, name, f.err)
		}
	}
}

// serverArguments returns the flags in the text of an OpenShift API server's configuration.
func serverArguments(text string) (out []kuberelease.Flag, err error) {
	var c struct {
		Kind               string              `json:"kind"`
		APIServerArguments map[string][]string `json:"apiServerArguments"`
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("config.yaml: %w", err)
	}
	if c.Kind != "KubeAPIServerConfig" {
		return nil, fmt.Errorf("config.yaml: kind is %s, want KubeAPIServerConfig", cmp.Or(c.Kind, "missing"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.APIServerArguments)) {
		for _, value := range c.APIServerArguments[name] {
			out = append(out, kuberelease.Flag{Name: name, Value: value})
		}
	}
	return out, nil
}
