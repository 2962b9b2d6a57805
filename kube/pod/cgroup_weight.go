package pod

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Weight is what a control group of version 2 gets of the CPUs when all its siblings want
// them, too.
type Weight struct {
	Group, File string
	Weight      uint64
	// Siblings are the groups next to it with processes in them, without itself, by name.
	Siblings map[string]uint64
}

// Share is the part of the parent's CPU time: 0.25 of weights 100 and three times 100.
func (w *Weight) Share() float64 {
	sum := w.Weight
	for _, other := range w.Siblings {
		sum += other
	}
	if sum == 0 {
		return 0
	}
	return float64(w.Weight) / float64(sum)
}

// ErrNoWeight means that control groups have no weights here.
var ErrNoWeight = errors.New("control groups of version 1 have shares, and no weights")

// Weights are those of a group and of the groups above it, the group itself first.
func (h *Hierarchy) Weights(group string) ([]Weight, error) {
	if h.Version != 2 {
		return nil, ErrNoWeight
	}
	inside, err := h.inside(group)
	if err != nil {
		return nil, err
	}
	var out []Weight
	for at := path.Clean("/" + inside); at != "/"; at = path.Dir(at) {
		w := Weight{Group: path.Join(h.Root, at), File: path.Join(h.Mount, at, "cpu.weight"), Siblings: map[string]uint64{}}
		if w.Weight, err = h.weight(at); err != nil {
			return nil, err
		}
		entries, err := h.files.ReadDir(path.Join(h.Mount, path.Dir(at)))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			other := path.Join(path.Dir(at), e.Name())
			if !e.IsDir() || other == at || !h.populated(other) {
				continue
			}
			if n, err := h.weight(other); err == nil { // one that ends meanwhile wants nothing
				w.Siblings[e.Name()] = n
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// weight reads cpu.weight of a group, by its path below the mount.
func (h *Hierarchy) weight(at string) (uint64, error) {
	file := path.Join(h.Mount, at, "cpu.weight")
	text, err := h.files.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n > 10000 {
		return 0, fmt.Errorf("%s: %.20q is not a weight from 0 to 10000", file, text)
	}
	return n, nil
}

// populated reports whether a group has processes, or may have.
func (h *Hierarchy) populated(at string) bool {
	text, err := h.files.ReadFile(path.Join(h.Mount, at, "cgroup.events"))
	return err != nil || !slices.Contains(strings.Split(string(text), "\n"), "populated 0")
}

// ContainerGroup is the part of a process's group that is the container's, by its number;
// "" where the group is not of that container.
func ContainerGroup(group, id string) string {
	for at := group; at != "/" && at != "." && ContainerCgroup(at, id); at = path.Dir(at) {
		if !ContainerCgroup(path.Dir(at), id) {
			return at
		}
	}
	return ""
}
