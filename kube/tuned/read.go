package tuned

import (
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
	var out Objects
	r, ours := strict.Objects(file, maxFile), GroupVersion.String()
	for _, i := range r.Items(data, strict.Item{Version: ours, Kind: "TunedList"}, strict.Item{Version: ours, Kind: "ProfileList"}) {
		n, version, kind := i.Node, i.Version, i.Kind
		switch {
		case version == ours && kind == "Tuned":
			var t Tuned
			r.Object(n, &t)
			t.Kind, t.APIVersion = kind, version
			out.Tuneds = append(out.Tuneds, t)
		case version == ours && kind == "Profile":
			var p Profile
			r.Object(n, &p)
			p.Kind, p.APIVersion = kind, version
			out.Profiles = append(out.Profiles, p)
		case kind == "" || version == "":
			r.Fault(n, "apiVersion or kind is missing: want %s and Tuned or Profile", ours)
		default:
			r.Fault(n, "%s of %s: want Tuned or Profile of %s%s", kind, version, ours, text.Suggest(kind, []string{"Tuned", "Profile"}))
		}
	}
	if err := r.Err(); err != nil {
		return Objects{}, err
	}
	return out, nil
}
