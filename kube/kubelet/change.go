package kubelet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Class is what a change of settings takes on a node. The higher one stands for all.
type Class int

// The classes.
const (
	// Nothing: the kubelet runs with these values already.
	Nothing Class = iota
	// Restart: the kubelet is started again; pods go on running.
	Restart
	// Drain: pods are moved away first, because what the managers have given them may
	// not hold afterwards.
	Drain
	// Reboot: the machine has to be started again with other parameters of the kernel.
	// It is reported, and never done.
	Reboot
)

var classNames = [...]string{"nothing", "restart", "drain and restart", "reboot"}

func (c Class) String() string { return classNames[c] }

// MarshalText is the class's name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Change is what has to be done so that a kubelet runs with other settings.
type Change struct {
	Class Class `json:"class"`
	// Settings are the names of those that change, in order.
	Settings []string `json:"settings,omitempty"`
	// CPUState and MemoryState say that cpu_manager_state or memory_manager_state is of
	// other settings then, so that a kubelet does not start with it.
	CPUState    bool `json:"cpu_state,omitempty"`
	MemoryState bool `json:"memory_state,omitempty"`
	// Why says why it takes a reboot.
	Why string `json:"why,omitempty"`
}

// ChangeOf compares two effective configurations. m is the machine, nil where it is not
// known.
func ChangeOf(now, then Fields, m *Machine) Change {
	var c Change
	counted := !same("reservedSystemCPUs", now["reservedSystemCPUs"], nil) || !same("reservedSystemCPUs", then["reservedSystemCPUs"], nil)
	for _, s := range settings {
		a, b := s.standard(now), s.standard(then)
		if counted && (s.name == "kubeReserved" || s.name == "systemReserved") {
			// The kubelet counts reservedSystemCPUs instead, and says that as cpu of these.
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

// ClassOf is what a change of a setting takes, whatever it is changed to; Nothing of one
// that is not known.
func ClassOf(name string) Class {
	if s := find(name); s != nil {
		return s.class
	}
	return Nothing
}

// standard is a setting's value, or else the kubelet's default
// (pkg/kubelet/apis/config/v1beta1/defaults.go, 1.27 and later).
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

// gigantic is the size of pages of which a machine rarely has any that were not set
// aside when it was started: 1 GiB.
const gigantic = 1 << 30

// missingPages says which huge pages are to be reserved that the machine has none of and
// that can only be set aside at its start.
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
				return "reservedMemory has " + name + ", and the machine has no such pages: they are set aside by the kernel's parameters hugepagesz=1G hugepages=N when it starts"
			}
		}
	}
	return ""
}

// Values are settings as a kubelet runs with them: those of the configuration, the
// kubelet's defaults where it has none, and nil where there is no default.
func Values(f Fields, names []string) Fields {
	out := Fields{}
	for _, name := range names {
		if s := find(name); s != nil {
			out[name] = s.standard(f)
		}
	}
	return out
}

// Config is what a KubeletConfig object asks of the pools that it selects.
type Config struct {
	Name    string
	Created time.Time
	Fields  Fields
}

// Want is what all KubeletConfig objects of a pool want together.
type Want struct {
	// Fields are the settings, without apiVersion and kind; none: the nodes keep their own.
	Fields Fields `json:"fields,omitempty"`
	// Configs are the names of the objects, in the order in which they were merged.
	Configs []string `json:"configs,omitempty"`
	// Digest names the fields in a few characters: the same fields have the same one,
	// no fields have "".
	Digest string `json:"digest"`
	// Notes are what is worth knowing: two objects want different values.
	Notes []string `json:"notes,omitempty"`
}

// MaxConfigs is how many KubeletConfig objects a pool can have. OpenShift takes as many.
const MaxConfigs = 10

// WantOf merges the objects of a pool. The one that was made later goes before the
// others, value by value; of two made in the same second the one whose name comes later.
// The error says what of them may not be set, and then nothing of them holds: half of
// a configuration may be worse than none of it.
func WantOf(configs []Config) (Want, error) {
	w := Want{Fields: Fields{}}
	if len(configs) > MaxConfigs {
		return Want{}, fmt.Errorf("%d KubeletConfig objects select the pool, and at most %d can: put what they say into fewer", len(configs), MaxConfigs)
	}
	configs = slices.Clone(configs)
	slices.SortFunc(configs, func(a, b Config) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	from := map[string]string{}
	var wrong error
	for _, c := range configs {
		if err := Check("KubeletConfig "+c.Name+": spec.kubeletConfig", c.Fields); err != nil {
			wrong = joined(wrong, err)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Fields)) {
			if name == "apiVersion" || name == "kind" {
				continue
			}
			v := c.Fields[name]
			if was, ok := w.Fields[name]; ok && !same(name, was, v) {
				w.Notes = append(w.Notes, fmt.Sprintf("%s: KubeletConfig %s has %s and the later %s has %s, which holds", name, from[name], show(was), c.Name, show(v)))
			}
			from[name] = c.Name
			w.Fields[name] = v // a map too: what of two objects holds is one of them, and no mixture
		}
		w.Configs = append(w.Configs, c.Name)
	}
	if wrong != nil {
		return Want{}, wrong
	}
	w.Digest = Digest(w.Fields)
	return w, nil
}

func joined(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w\n%w", a, b)
}

// Digest names fields; "" stands for none.
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
		panic(fmt.Sprintf("fields that were read cannot be written: %v", err))
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
