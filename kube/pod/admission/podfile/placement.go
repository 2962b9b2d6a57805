package podfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"
	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/strict"
)

// placement returns the fields of a specification that decide on which nodes a pod may run.
func placement(spec *core.PodSpec) admission.Placement {
	p := admission.Placement{
		Node: spec.NodeName, Selector: spec.NodeSelector, Tolerations: tolerations(spec.Tolerations, withAll), Ports: HostPorts(spec),
	}
	if spec.OS != nil {
		p.OS = spec.OS.Name
	}
	p.StrictGroups = strictGroups(spec)
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		p.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return p
}

// HostPorts returns a pod's host ports: those of containers and sidecars, and with hostNetwork all
// of their ports.
func HostPorts(spec *core.PodSpec) []admission.HostPort {
	var all []admission.HostPort
	add := func(c *core.Container) {
		for _, p := range c.Ports {
			port := admission.HostPort{Address: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if port.Port == 0 && spec.HostNetwork {
				port.Port = p.ContainerPort
			}
			if port.Address == "" {
				port.Address = "0.0.0.0"
			}
			if port.Protocol == "" {
				port.Protocol = core.ProtocolTCP
			}
			if port.Port > 0 {
				all = append(all, port)
			}
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return all
}

// Taints that pods tolerate without own tolerations: withAll every pod for a limited time (plug-in
// DefaultTolerationSeconds), onDaemons DaemonSet pods, onHostNetwork those with hostNetwork.
// Source: k8s.io/kubernetes v1.34.4, plugin/pkg/admission/defaulttolerationseconds and
// pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations.
var (
	withAll = []core.Taint{
		{Key: core.TaintNodeNotReady, Effect: core.TaintEffectNoExecute}, {Key: core.TaintNodeUnreachable, Effect: core.TaintEffectNoExecute},
	}
	onDaemons = []core.Taint{
		{Key: core.TaintNodeDiskPressure, Effect: core.TaintEffectNoSchedule}, {Key: core.TaintNodeMemoryPressure, Effect: core.TaintEffectNoSchedule},
		{Key: core.TaintNodePIDPressure, Effect: core.TaintEffectNoSchedule}, {Key: core.TaintNodeUnschedulable, Effect: core.TaintEffectNoSchedule},
	}
	onHostNetwork = []core.Taint{{Key: core.TaintNodeNetworkUnavailable, Effect: core.TaintEffectNoSchedule}}
)

// tolerations returns a pod's own tolerations, and tolerations of the added taints.
func tolerations(own []core.Toleration, added []core.Taint) []core.Toleration {
	all := slices.Clone(own)
	for _, t := range added {
		all = append(all, core.Toleration{Key: t.Key, Operator: core.TolerationOpExists, Effect: t.Effect})
	}
	return all
}

// daemon adds the tolerations that the DaemonSet controller adds to its pods.
func daemon(p *admission.Placement, spec *core.PodSpec) {
	p.Tolerations = tolerations(p.Tolerations, onDaemons)
	if spec.HostNetwork {
		p.Tolerations = tolerations(p.Tolerations, onHostNetwork)
	}
}

// place maps the fields of a document in a manifest to lines.
type place struct {
	name  string
	begin int          // first line of the document
	root  *yamlv3.Node // nil if it cannot be parsed
}

// parse parses the text of the document.
func (p *place) parse(text []byte) {
	var doc yamlv3.Node
	if yamlv3.Unmarshal(text, &doc) == nil && len(doc.Content) == 1 {
		p.root = doc.Content[0]
	}
}

// wrong returns an error at a field, or at the document if path is "".
func (p *place) wrong(path string, err error) error {
	return fmt.Errorf("%s:%d: %w", p.name, p.line(path), err)
}

// unreadable returns the error of a document that is not YAML.
func (p *place) unreadable(data []byte, err error) error {
	line, words := strict.Syntax(err)
	if at, what := text.FindInvalid(data); at > 0 {
		line, words = at, what
	}
	return fmt.Errorf("%s:%d: %s", p.name, p.begin+max(line, 1)-1, words)
}

// mistyped returns the error for a value of the wrong type; ok is false if err is about something
// else. what names the object, in its path.
func (p *place) mistyped(in, what string, err error) (wrong error, ok bool) {
	if p.root == nil {
		return nil, false
	}
	line, words, ok := strict.Mistyped(p.root, in, err)
	return fmt.Errorf("%s:%d: %s%s", p.name, p.begin+line-1, what, words), ok
}

// field matches the path in an error of strict decoding: unknown field "spec.containers[0].x".
var field = regexp.MustCompile(`(?:unknown|duplicate) field "(.*)"`)

// fieldOf returns the field in an error of strict decoding; "" for another error.
func fieldOf(err error) string {
	if m := field.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// step matches a name or a number in a path.
var step = regexp.MustCompile(`[^.\[\]]+`)

// line returns the line of a field, or of its innermost parent in the file.
func (p *place) line(path string) int {
	n, line := p.root, 1
	if n != nil && n.Line > 0 {
		line = n.Line
	}
	for _, name := range step.FindAllString(path, -1) {
		next := (*yamlv3.Node)(nil)
		for n != nil && n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		switch {
		case n == nil:
		case n.Kind == yamlv3.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == name {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case n.Kind == yamlv3.SequenceNode:
			if i, err := strconv.Atoi(name); err == nil && i < len(n.Content) {
				line, next = n.Content[i].Line, n.Content[i]
			}
		}
		if n = next; n == nil {
			break
		}
	}
	return p.begin + line - 1
}
