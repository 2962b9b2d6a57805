package tuned

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/strict"
)

// Objects are the objects of a file, in order.
type Objects struct {
	Tuneds   []Tuned
	Profiles []Profile
}

// maxFile limits a file, in bytes; API servers accept a few megabytes per object.
const maxFile = 32 << 20

// Read reads the Tuned and Profile objects of a file: YAML documents or JSON, including lists of
// objects. It rejects unknown or missing fields, wrong types, aliases, and texts that YAML 1.1, and
// therefore kubectl, reads as booleans. Errors name file, line and field.
func Read(file string, data []byte) (Objects, error) {
	r := &reading{Reader: strict.Objects(file, maxFile)}
	for _, d := range r.Documents(data) {
		r.document(d, "", "")
	}
	if err := r.Err(); err != nil {
		return Objects{}, err
	}
	return r.Objects, nil
}

// reading is the state of one call of Read.
type reading struct {
	Objects
	*strict.Reader
}

// document decodes an object or a list. Items of a typed list may omit kind and version.
func (r *reading) document(n *yaml.Node, kind, version string) {
	v, k, ok := r.Head(n)
	if !ok {
		return
	}
	if k != "" {
		kind = k
	}
	if v != "" {
		version = v
	}
	ours := GroupVersion.String()
	switch {
	case kind == "List" && version == "v1":
		r.list(n, "", "")
	case version == ours && (kind == "TunedList" || kind == "ProfileList"):
		r.list(n, strings.TrimSuffix(kind, "List"), version)
	case version == ours && kind == "Tuned":
		var t Tuned
		r.Object(n, &t)
		t.Kind, t.APIVersion = kind, version
		r.Tuneds = append(r.Tuneds, t)
	case version == ours && kind == "Profile":
		var p Profile
		r.Object(n, &p)
		p.Kind, p.APIVersion = kind, version
		r.Profiles = append(r.Profiles, p)
	case kind == "" || version == "":
		r.Fault(n, "apiVersion or kind is missing: want %s and Tuned or Profile", ours)
	default:
		r.Fault(n, "%s of %s: want Tuned or Profile of %s%s", kind, version, ours, text.Suggest(kind, []string{"Tuned", "Profile"}))
	}
}

func (r *reading) list(n *yaml.Node, kind, version string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key, value := n.Content[i], n.Content[i+1]; key.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			if value.Kind != yaml.SequenceNode {
				r.Fault(value, "items: want a list, found %s", strict.Found(value))
				continue
			}
			for _, item := range value.Content {
				if k := strict.Get(item, "kind"); k != nil && strings.HasSuffix(k.Value, "List") {
					r.Fault(item, "items: a list must not contain another list")
					continue
				}
				r.document(item, kind, version)
			}
		default:
			r.Fault(key, "%q is not a field of a list; want items", key.Value)
		}
	}
}
