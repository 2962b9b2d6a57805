package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/strict"
)

// CopySchema is the schema of a copy's list of contents.
const CopySchema = "fettle/node-state/v1"

// Files of a copy that are not the machine's. The machine's files keep their paths below the
// directory, such as sys/devices/system/node/node0/cpulist.
const (
	contentsFile  = "snapshot.json"
	configFile    = "configz.json"
	nodeFile      = "node.json"
	podsFile      = "pods.json"
	resourcesFile = "podresources.json"
)

// Contents describes a copy.
type Contents struct {
	Schema     string    `json:"schema"`
	Node       string    `json:"node"`
	Taken      time.Time `json:"taken"`
	KubeletDir string    `json:"kubelet_dir"`
	// Absent are paths that do not exist on the machine.
	Absent []string `json:"absent"`
	// Unasked is why the kubelet was not queried for devices, or "".
	Unasked string `json:"unasked,omitempty"`
}

// Save writes a copy of a snapshot into a new or empty directory, for Load. It contains only what
// predictions need, without environment, commands and users' annotations.
func (s *Snapshot) Save(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; name an empty or new directory", dir)
	}
	seen := &recorded{Files: s.Files, content: map[string][]byte{}, absent: map[string]bool{}}
	of := *s
	of.Files = seen
	// A copy needs what Input reads.
	if _, err := of.Input(); err != nil {
		return err
	}
	for _, name := range []string{cpuState, memoryState} {
		// Even if the manager is off, because its file shows that it was on.
		if _, err := seen.ReadFile(path.Join(s.KubeletDir, name)); err != nil && !missing(err) {
			return err
		}
	}
	settings, err := slimConfig(s.Config)
	if err != nil {
		return err
	}
	c := Contents{Schema: CopySchema, Node: s.Name(), Taken: s.Taken.UTC(), KubeletDir: s.KubeletDir, Absent: []string{}, Unasked: s.Unasked}
	c.Absent = slices.AppendSeq(c.Absent, maps.Keys(seen.absent))
	slices.Sort(c.Absent)
	out := writer{dir: dir}
	out.json(contentsFile, c)
	out.json(configFile, settings)
	if s.Node != nil {
		out.json(nodeFile, slimNode(s.Node, s.recorded))
	}
	if s.Pods != nil {
		out.json(podsFile, slimPods(s.Pods))
	}
	if s.Resources != nil {
		out.json(resourcesFile, s.Resources)
	}
	for name, text := range seen.content {
		out.file(name, text)
	}
	return out.err
}

// slimConfig reduces a response of /configz to the fields that fettle reads.
func slimConfig(configz []byte) (any, error) {
	var z struct {
		Config configuration `json:"kubeletconfig"`
	}
	err := json.Unmarshal(configz, &z)
	return z, err
}

// slimNode reduces a Node object to the fields that fettle reads. It states missing features
// explicitly, unless the object comes from a copy that may omit them.
func slimNode(n *core.Node, recorded bool) *core.Node {
	out := &core.Node{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	out.Spec.Taints, out.Spec.Unschedulable = n.Spec.Taints, n.Spec.Unschedulable
	out.Status.Allocatable, out.Status.Capacity, out.Status.NodeInfo = n.Status.Allocatable, n.Status.Capacity, n.Status.NodeInfo
	*declaredFeatures(&out.Status) = *declaredFeatures(&n.Status)
	if out.Status.Features = n.Status.Features; out.Status.Features == nil && !recorded {
		out.Status.Features = &core.NodeFeatures{SupplementalGroupsPolicy: new(bool)}
	}
	return out
}

func slimPods(list *core.PodList) *core.PodList {
	out := &core.PodList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []core.Pod{}}
	containers := func(from []core.Container) (to []core.Container) {
		for _, c := range from {
			x := core.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
			for _, p := range c.Ports {
				if p.HostPort > 0 { // also with hostNetwork, for which the API server sets it
					x.Ports = append(x.Ports, core.ContainerPort{ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
				}
			}
			to = append(to, x)
		}
		return to
	}
	for i := range list.Items {
		p := &list.Items[i]
		x := core.Pod{ObjectMeta: meta.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}}
		if hash, ok := p.Annotations[core.MirrorPodAnnotationKey]; ok {
			x.Annotations = map[string]string{core.MirrorPodAnnotationKey: hash}
		}
		x.Spec = core.PodSpec{
			NodeName: p.Spec.NodeName, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources,
			InitContainers: containers(p.Spec.InitContainers), Containers: containers(p.Spec.Containers),
		}
		x.Status.Phase = p.Status.Phase
		out.Items = append(out.Items, x)
	}
	return out
}

// writer writes files into a directory until one fails. The files are readable only by their owner,
// because pod names are private.
type writer struct {
	dir string
	err error
}

func (w *writer) json(name string, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil && w.err == nil {
		w.err = err
	}
	w.file(name, append(text, '\n'))
}

func (w *writer) file(name string, text []byte) {
	if w.err != nil {
		return
	}
	at := filepath.Join(w.dir, filepath.FromSlash(name))
	if w.err = os.MkdirAll(filepath.Dir(at), 0o700); w.err == nil {
		w.err = os.WriteFile(at, text, 0o600)
	}
}

// recorded records all files that are read through it.
type recorded struct {
	host.Files
	content map[string][]byte
	absent  map[string]bool
}

func (r *recorded) note(p string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		r.absent[p] = true
	}
}

func (r *recorded) ReadFile(p string) ([]byte, error) {
	text, err := r.Files.ReadFile(p)
	if r.note(p, err); err == nil {
		r.content[p] = text
	}
	return text, err
}

func (r *recorded) ReadDir(p string) ([]fs.DirEntry, error) {
	entries, err := r.Files.ReadDir(p)
	r.note(p, err)
	return entries, err
}

// Load reads a directory that Save or a user wrote: the machine's files under their paths,
// configz.json, and, if they exist, node.json, pods.json and podresources.json.
func Load(dir string) (*Snapshot, error) {
	h, err := host.Copy(dir)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{From: dir, KubeletDir: KubeletDir, Unasked: "there is no " + resourcesFile + " in " + dir}
	read := func(name string, into any) (bool, error) {
		text, err := h.Files.ReadFile("/" + name)
		if missing(err) {
			return false, nil
		}
		if err == nil {
			if err = json.Unmarshal(text, into); err != nil {
				return false, strict.Typed(filepath.Join(dir, name), text, err)
			}
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		return true, nil
	}
	var c Contents
	found, err := read(contentsFile, &c)
	if err != nil {
		return nil, err
	}
	s.Files = h.Files
	if found {
		if c.Schema != CopySchema {
			return nil, fmt.Errorf("%s: kind is %q, want %s", filepath.Join(dir, contentsFile), c.Schema, CopySchema)
		}
		if s.Taken = c.Taken; c.KubeletDir != "" {
			s.KubeletDir = c.KubeletDir
		}
		if c.Unasked != "" {
			s.Unasked = c.Unasked
		}
		s.Files, s.recorded = copied{h.Files, c.Absent}, true
	}
	var config json.RawMessage
	if found, err = read(configFile, &config); err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%s has no %s; record the node with kubectl fettle pod record DIR, or write this file with kubectl get --raw /api/v1/nodes/NODE/proxy/configz", dir, configFile)
	}
	s.Config = config
	var n core.Node
	if found, err = read(nodeFile, &n); err != nil {
		return nil, err
	} else if found {
		s.Node = &n
	}
	var pods core.PodList
	if found, err = read(podsFile, &pods); err != nil {
		return nil, err
	} else if found {
		s.Pods = &pods
	}
	var r Answer
	var text json.RawMessage
	if found, err = read(resourcesFile, &text); err != nil {
		return nil, err
	} else if found {
		if err := known(filepath.Join(dir, resourcesFile), text, &r); err != nil {
			return nil, err
		}
		s.Resources, s.Unasked = &r, ""
	}
	return s, nil
}

// known decodes a file in fettle's own format, which users may write. It rejects unknown keys,
// because a misspelled NUMA node or device would silently be missing.
func known(file string, text json.RawMessage, into any) error {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		line := 1
		if i := bytes.Index(text, []byte(key)); i > 0 {
			line += bytes.Count(text[:i], []byte("\n"))
		}
		const keys = "allocatable, pods; resource, ids, numa_nodes; namespace, name, containers; name, cpus, devices"
		return fmt.Errorf("%s:%d: unknown field %s; known are %s", file, line, key, keys)
	}
	return strict.Typed(file, text, err)
}

// copied reads the files of a copy that lists the paths that did not exist.
type copied struct {
	host.Files
	absent []string
}

func (c copied) known(op, p string, err error) error {
	if host.Unknown(err) && slices.Contains(c.absent, p) {
		return &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
	}
	return err
}

func (c copied) ReadFile(p string) ([]byte, error) {
	text, err := c.Files.ReadFile(p)
	return text, c.known("read", p, err)
}

func (c copied) ReadDir(p string) ([]fs.DirEntry, error) {
	entries, err := c.Files.ReadDir(p)
	return entries, c.known("readdir", p, err)
}
