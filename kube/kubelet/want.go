package kubelet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

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
