package fact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// foremanType is the source of facts that Foreman gets. Foreman handles a type that it does not
// know like Puppet's: it requires os.name, and fills in the host's page from facts with Facter's
// names.
const foremanType = "fettle"

// mostForemanName is the longest name of a fact in Foreman's database, in characters.
const mostForemanName = 255

// facterOS are the names of distributions in Facter by their ID in os-release. Foreman would
// create another operating system for any other name.
var facterOS = map[string]string{
	"almalinux": "AlmaLinux", "amzn": "Amazon", "arch": "Archlinux", "centos": "CentOS", "debian": "Debian", "fedora": "Fedora", "ol": "OracleLinux",
	"opensuse-leap": "openSUSE", "opensuse-tumbleweed": "openSUSE", "rhel": "RedHat", "rocky": "Rocky", "sled": "SLED", "sles": "SLES", "ubuntu": "Ubuntu",
}

// Foreman writes the body of POST /api/v2/hosts/facts in Foreman: the selected facts below
// "fettle", and what Foreman reads for the page of a host, with Facter's names. left is how many
// facts were left out because Foreman's database cannot store their names.
func (s *Selection) Foreman(w io.Writer, host string) (left int, err error) {
	f := s.facts
	id, ok := f.OS.ID.Get()
	if !ok {
		return 0, fmt.Errorf("the distribution is unknown, and Foreman rejects facts without it: %s", cmp.Or(f.OS.ID.Unknown(), "no ID in os-release"))
	}
	name, domain, _ := strings.Cut(host, ".")
	facts := map[string]any{
		"_type": foremanType, "_timestamp": f.Time.UTC().Format("2006-01-02 15:04:05 UTC"),
		"kernel": "Linux", "kernelrelease": f.Kernel.Release.value,
		"os": map[string]any{
			"name": cmp.Or(facterOS[id], id), "architecture": f.Kernel.Arch.value, "release": map[string]any{"full": f.OS.VersionID.value},
			"distro": map[string]any{"description": f.OS.Name.value},
		},
		"dmi":           map[string]any{"manufacturer": f.Machine.Vendor.value, "product": map[string]any{"name": f.Machine.Product.value}},
		"memory":        map[string]any{"system": map[string]any{"total_bytes": f.Memory.TotalBytes.value}},
		"processors":    map[string]any{"count": f.CPU.Count.value, "physicalcount": f.CPU.Sockets.value},
		"networking":    map[string]any{"fqdn": host, "hostname": name, "domain": domain},
		"system_uptime": map[string]any{"seconds": f.Kernel.UptimeS.value},
	}
	if bare, ok := f.Virtualization.BareMetal.Get(); ok {
		facts["is_virtual"] = !bare
		facts["virtual"] = cmp.Or(f.Virtualization.Container.Or(""), f.Virtualization.Hypervisor.Or("physical"))
	}
	facts["fettle"] = s
	text, err := json.Marshal(facts)
	if err != nil {
		return 0, err
	}
	var tree map[string]any
	exact := json.NewDecoder(bytes.NewReader(text))
	exact.UseNumber()
	if err := exact.Decode(&tree); err != nil {
		return 0, err
	}
	if selected, ok := tree["fettle"].(map[string]any); ok {
		for _, key := range []string{"schema", "headline", "time", "collectors", "unknown", "source"} {
			delete(selected, key)
		}
	}
	left = forForeman("", tree)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return left, enc.Encode(map[string]any{"name": host, "facts": tree})
}

// forForeman converts a tree of facts in place to what Foreman can store: no null, lists as text,
// no control characters, no name that is too long. Names consist of the keys with "::" in between.
// It returns the number of facts that it removed because of their names.
func forForeman(prefix string, tree map[string]any) (left int) {
	for key, v := range maps.Clone(tree) {
		delete(tree, key)
		key = text.PrintableLine(key)
		name := prefix + key
		if len(name) > mostForemanName {
			left++
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			if left += forForeman(name+"::", v); len(v) > 0 {
				tree[key] = v
			}
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				words[i] = fmt.Sprint(word)
			}
			tree[key] = text.PrintableLine(strings.Join(words, ", "))
		case string:
			tree[key] = text.PrintableLine(v)
		case nil:
		default:
			tree[key] = v
		}
	}
	return left
}
