package kubelet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
)

// Class is the action that a change of settings requires on a node, such as a restart. A change has
// the highest class of its settings.
type Class int

// Classes of a change.
const (
	// Nothing: the kubelet already runs with these values.
	Nothing Class = iota
	// Restart: the kubelet restarts; pods keep running.
	Restart
	// Drain: pods are evicted first, because the managers may assign them other resources.
	Drain
	// Reboot: the machine needs other kernel parameters. fettle reports this and never reboots.
	Reboot
)

var classNames = [...]string{"nothing", "restart", "drain and restart", "reboot"}

func (c Class) String() string { return classNames[c] }

// MarshalText returns the class's name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Change describes how a kubelet gets other settings.
type Change struct {
	Class Class `json:"class"`
	// Settings are the sorted names of the changed settings.
	Settings []string `json:"settings,omitempty"`
	// CPUState and MemoryState report whether cpu_manager_state or memory_manager_state does not
	// match the new settings. The kubelet would not start with such a file.
	CPUState    bool `json:"cpu_state,omitempty"`
	MemoryState bool `json:"memory_state,omitempty"`
	// Why is the reason for a reboot, or "".
	Why string `json:"why,omitempty"`
}

// ChangeOf compares two effective configurations. m is the machine; nil if unknown.
func ChangeOf(now, then Fields, m *Machine) Change {
	var c Change
	counted := !same("reservedSystemCPUs", now["reservedSystemCPUs"], nil) || !same("reservedSystemCPUs", then["reservedSystemCPUs"], nil)
	for _, s := range settings {
		a, b := s.standard(now), s.standard(then)
		if counted && (s.name == "kubeReserved" || s.name == "systemReserved") {
			// The kubelet derives both cpu values from reservedSystemCPUs instead.
			a, b = withoutCPU(a), withoutCPU(b)
		}
		if same(s.name, a, b) {
			continue
		}
		c.Settings = append(c.Settings, s.name)
		c.Class = max(c.Class, s.class)
		switch s.name {
		case "cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs":
			c.CPUState = true
		case "memoryManagerPolicy", "reservedMemory":
			c.MemoryState = true
		case "kubeReserved", "systemReserved":
			cpu := textsOf(a)["cpu"] != textsOf(b)["cpu"]
			c.CPUState = c.CPUState || cpu
			c.MemoryState = c.MemoryState || !same(s.name, withoutCPU(a), withoutCPU(b))
		}
	}
	slices.Sort(c.Settings)
	if c.Why = missingPages(then, m); c.Why != "" && slices.Contains(c.Settings, "reservedMemory") {
		c.Class = Reboot
	}
	return c
}

// ClassOf returns the class for any change of the named setting; Nothing if fettle does not support
// it.
func ClassOf(name string) Class {
	if s := find(name); s != nil {
		return s.class
	}
	return Nothing
}

// standard returns a setting's value, or else the kubelet's default (1.27 and later,
// pkg/kubelet/apis/config/v1beta1/defaults.go).
func (s setting) standard(f Fields) any {
	v := f[s.name]
	if v != nil && !zero(v) {
		return v
	}
	switch s.name {
	case "maxPods":
		return int64(110)
	case "podsPerCore":
		return int64(0)
	case "kubeAPIQPS":
		return int64(50)
	case "kubeAPIBurst":
		return int64(100)
	case "cpuManagerPolicy", "topologyManagerPolicy":
		return "none"
	case "topologyManagerScope":
		return "container"
	case "memoryManagerPolicy":
		return "None"
	case "cpuManagerReconcilePeriod":
		return "10s"
	}
	return nil
}

// gigantic is the page size of 1 GiB. Machines can rarely allocate such pages after boot.
const gigantic = 1 << 30

// missingPages describes reserved huge pages that the machine lacks and can only allocate at boot;
// "" if there are none.
func missingPages(f Fields, m *Machine) string {
	if m == nil {
		return ""
	}
	have := map[string]bool{}
	for _, n := range m.NUMA {
		for _, h := range n.HugePages {
			if h.Pages > 0 && h.SizeBytes == gigantic {
				have["hugepages-1Gi"] = true
			}
		}
	}
	reservations, err := memoryReservations(f["reservedMemory"])
	if err != nil {
		return ""
	}
	for _, r := range reservations {
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			if strings.HasPrefix(name, "hugepages-1Gi") && !have[name] {
				return "reservedMemory has " + name + ", but the machine has no such pages; reserve them with the kernel parameters hugepagesz=1G hugepages=N"
			}
		}
	}
	return ""
}

// Values returns the named settings as a kubelet runs with them: from the configuration, or else
// the default, or else nil.
func Values(f Fields, names []string) Fields {
	out := Fields{}
	for _, name := range names {
		if s := find(name); s != nil {
			out[name] = s.standard(f)
		}
	}
	return out
}

// Config holds the settings that one KubeletConfig object requests.
type Config struct {
	Name    string
	Created time.Time
	Fields  Fields
}

// Want is the merged request of all KubeletConfig objects of a pool.
type Want struct {
	// Fields are the settings, without apiVersion and kind. If empty, the nodes keep their own
	// settings.
	Fields Fields `json:"fields,omitempty"`
	// Configs are the names of the objects, in merge order.
	Configs []string `json:"configs,omitempty"`
	// Digest is a hash that is equal for equal fields; "" without fields.
	Digest string `json:"digest"`
	// Notes are warnings, for example about two objects with different values.
	Notes []string `json:"notes,omitempty"`
}

// MaxConfigs is the maximum number of KubeletConfig objects per pool, like OpenShift's.
const MaxConfigs = 10

// WantOf merges the objects of a pool. For each setting, the newer object takes precedence; with
// equal times, the object whose name sorts later. If one object is invalid, it returns an error and
// none applies, because half a configuration may be worse than none.
func WantOf(configs []Config) (Want, error) {
	w := Want{Fields: Fields{}}
	if len(configs) > MaxConfigs {
		return Want{}, text.Errorf("%d KubeletConfig objects select the pool, at most %d allowed; merge some of them", len(configs), MaxConfigs)
	}
	configs = slices.Clone(configs)
	slices.SortFunc(configs, func(a, b Config) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	from := map[string]string{}
	var wrong error
	for _, c := range configs {
		if err := Check("KubeletConfig "+c.Name+": spec.kubeletConfig", c.Fields); err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Fields)) {
			if name == "apiVersion" || name == "kind" {
				continue
			}
			v := c.Fields[name]
			if was, ok := w.Fields[name]; ok && !same(name, was, v) {
				w.Notes = append(w.Notes, fmt.Sprintf("%s: KubeletConfig %s has %s, overridden by the later %s with %s", name, from[name], show(was), c.Name, show(v)))
			}
			from[name] = c.Name
			w.Fields[name] = v // maps too: the result is one object's map, never a mixture
		}
		w.Configs = append(w.Configs, c.Name)
	}
	if wrong != nil {
		return Want{}, wrong
	}
	w.Digest = Digest(w.Fields)
	return w, nil
}

// Digest returns a hash of fields, or "" without fields.
func Digest(f Fields) string {
	if len(f) == 0 {
		return ""
	}
	plain := map[string]any{}
	for name, v := range f {
		plain[name] = canonical(name, v)
	}
	text, err := DropIn(plain)
	if err != nil {
		panic(fmt.Sprintf("cannot encode the fields: %v", err))
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
