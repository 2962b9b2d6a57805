package compare

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Limits of what is read from one machine: a copy is hostile input.
const (
	maxValues    = 50_000 // values of one machine
	maxDepth     = 8      // levels of directories below a root
	maxValueText = 2048   // bytes of one value; of a longer one, the beginning and its length count
)

// state is what is known of a value on one machine.
type state byte

const (
	held    state = iota // it has the value
	absent               // the machine lacks it
	unknown              // not recorded, not readable, or left out as a secret
)

// Snapshot has the values of one machine that are compared, each once.
type Snapshot struct {
	hostname string
	values   []value
	scopes   []scope
	names    map[string]bool
}

// value is one value of a machine.
type value struct {
	name string // as fettle facts and fettle why print it
	// pattern is the name with * for the device or element, and item is that device or element.
	pattern, item string
	scope         string // of which it is a part
	at            string // path of the setting, or ""
	fact          bool   // else it is a file of the kernel
	text          string
	state         state
}

// scope is a set of names: a directory, or the devices of one kind. A name that a complete scope
// lacks is absent on the machine.
type scope struct {
	name, parent string
	complete     bool // else it is unknown what else it has
}

// Read reads the values of a machine: its facts, sysctls, module parameters and memory management
// settings. It executes nothing.
func Read(ctx context.Context, h *host.Host) (*Snapshot, error) {
	f := fact.Collect(h)
	x := f.Index()
	items := x.List()
	room := min(2*len(items)+int(f.Kernel.SysctlCount.Or(0)), maxValues)
	s := &Snapshot{names: make(map[string]bool, room), values: make([]value, 0, room)}
	if !slices.ContainsFunc(items, func(it fact.Item) bool { return it.Unknown == "" }) {
		return nil, fmt.Errorf("no machine found in %s", h.Name)
	}
	s.hostname = f.OS.Hostname.Or("")
	own := s.facts(x, items)
	t := tree{ctx: ctx, files: h.Files, snapshot: s, devices: own, facts: map[string]bool{}}
	for _, v := range s.values {
		t.facts[v.at] = true
	}
	t.sysctls(h)
	t.walk("/sys/kernel/mm", "", 0)
	t.walk("/sys/module", "", 0)
	return s, ctx.Err()
}

func (s *Snapshot) add(v value) {
	if len(s.values) >= maxValues {
		return
	}
	if s.names[v.name] = true; len(s.names) == len(s.values) {
		return // a second value of one name
	}
	v.text = strings.Join(strings.Fields(v.text), " ")
	if strings.Contains(v.text, host.Redacted) {
		v.text, v.state = "", unknown
	}
	if len(v.text) > maxValueText {
		v.text = fmt.Sprintf("%s… (%d bytes, %016x)", strings.ToValidUTF8(v.text[:maxValueText/8], ""), len(v.text), hash(v.text))
	}
	s.values = append(s.values, v)
}

// facts adds the facts, and returns the names of the machine's network devices.
func (s *Snapshot) facts(x *fact.Index, items []fact.Item) (devices map[string]bool) {
	s.scopes = append(s.scopes, scope{name: factScope, complete: true})
	members, devices := s.sets(x), map[string]bool{}
	for name, m := range members {
		if m.pattern == "net.*" {
			devices[strings.TrimPrefix(name, "net.")] = true
		}
	}
	for _, it := range items {
		v := value{name: it.Name, pattern: it.Name, scope: factScope, at: it.Source, fact: true}
		if m, prefix, ok := memberOf(members, it.Name); ok {
			if m.hidden {
				continue
			}
			v.scope, v.item, v.pattern = prefix, m.item, m.pattern+strings.TrimPrefix(it.Name, prefix)
		}
		switch {
		case it.Unknown != "":
			v.state = unknown
		case it.Absent:
			v.state = absent
		}
		switch list := it.Value.(type) {
		case []string:
			if split[v.pattern] {
				elements := map[string]string{}
				for _, e := range list {
					elements[e] = "yes"
				}
				s.elements(v, elements, it.More == "")
				continue
			}
		case map[string]string:
			s.elements(v, list, it.More == "")
			continue
		}
		if isList := split[v.pattern]; isList && v.state == unknown {
			s.scopes = append(s.scopes, scope{name: v.name, parent: v.scope})
			continue
		} else if isList {
			s.scopes = append(s.scopes, scope{name: v.name, parent: v.scope, complete: true})
			continue
		}
		if strings.HasPrefix(v.at, "/proc/sys/") && !strings.HasPrefix(v.name, "kernel.") || leftOut[v.pattern] {
			continue // the sysctl itself is compared
		}
		v.text = textOf(it.Value)
		s.add(v)
	}
	return devices
}

// factScope is the scope of the facts that every machine has.
const factScope = "facts"

// split lists the facts whose elements are compared one by one.
var split = map[string]bool{
	"services.enabled_units": true, "services.masked_units": true, "services.running_units": true,
	"cpu.flags": true, "cpu.vulnerabilities": true, "kernel.parameters": true,
}

// leftOut lists facts that other values contain.
var leftOut = map[string]bool{
	"kernel.command_line": true, "kernel.sysctl_count": true, "os.hostname": true,
	"memory.transparent_huge_pages.in_use": true, "services.tuner.*.enabled": true, "services.tuner.*.running": true,
}

// elements adds the elements of a list.
func (s *Snapshot) elements(list value, elements map[string]string, complete bool) {
	s.scopes = append(s.scopes, scope{name: list.name, parent: list.scope, complete: complete})
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		v := list
		v.name, v.pattern, v.item, v.scope = list.name+"."+name, list.pattern+".*", name, list.name
		v.text = elements[name]
		if list.pattern == "kernel.parameters" && v.text == "" {
			v.text = "set" // a parameter without a value
		}
		s.add(v)
	}
}

// member is an item of a set of facts: a disk, a mount.
type member struct {
	pattern, item string
	hidden        bool // a device of containers or guests
}

// sets adds the sets of facts as scopes, with a value for each member, and returns the members by
// name ("disk.vda").
func (s *Snapshot) sets(x *fact.Index) map[string]member {
	members := map[string]member{}
	var open func(name, pattern, parent string)
	open = func(name, pattern, parent string) {
		items, ok := x.Members(name)
		if !ok {
			return
		}
		it, _ := x.Lookup(name)
		s.scopes = append(s.scopes, scope{name: name, parent: parent, complete: items != nil && it.More == "" || it.Absent})
		for _, item := range items {
			full := name + "." + item
			m := member{pattern + ".*", item, pattern == "net" && ephemeral(item)}
			members[full] = m
			if m.hidden {
				continue
			}
			s.scopes = append(s.scopes, scope{name: full, parent: name, complete: true})
			s.add(value{name: full, pattern: m.pattern, item: item, scope: name, text: "present", fact: true})
			for _, below := range setNames() {
				if rest, ok := strings.CutPrefix(below, m.pattern+"."); ok && !strings.Contains(rest, "*") {
					open(full+"."+rest, below, full)
				}
			}
		}
	}
	for _, name := range setNames() {
		if !strings.Contains(name, "*") {
			open(name, name, factScope)
		}
	}
	return members
}

var setNames = sync.OnceValue(func() []string { _, sets := fact.Fields(); return sets })

// memberOf returns the innermost member that contains a fact, and its name.
func memberOf(members map[string]member, name string) (m member, prefix string, ok bool) {
	for i := len(name) - 1; i > 0; i-- {
		if name[i] == '.' {
			if m, ok := members[name[:i]]; ok {
				return m, name[:i], true
			}
		}
	}
	return member{}, "", false
}

// ephemeral reports whether a network device belongs to a container or a guest: its name is random
// or counted.
func ephemeral(device string) bool {
	for _, prefix := range []string{"veth", "cali", "lxc", "tap", "vnet", "lxdbr-", "br-", "flannel.", "cilium_"} {
		if strings.HasPrefix(device, prefix) {
			return true
		}
	}
	return false
}

// textOf formats the value of a fact.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []string:
		return strings.Join(v, " ")
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// tree reads the files of settings below a directory.
type tree struct {
	ctx      context.Context
	files    host.Files
	snapshot *Snapshot
	devices  map[string]bool // the machine's network devices
	facts    map[string]bool // paths from which facts were read
}

// sysctls reads /proc/sys. A sosreport may have no such directory, only the output of sysctl -a.
func (t *tree) sysctls(h *host.Host) {
	const root = "/proc/sys"
	t.walk(root, "", 0)
	if _, err := h.Files.ReadDir(root); host.Unknown(err) {
		for _, dir := range []string{"fs", "kernel", "net", "user", "vm"} {
			t.walk(root+"/"+dir, root, 1)
		}
	}
	b, err := h.Files.ReadFile("/sos_commands/kernel/sysctl_-a")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		key, _, ok := strings.Cut(line, " = ")
		if !ok {
			continue
		}
		p, err := setting.SysctlPath(key)
		if err == nil && !t.snapshot.names[setting.SysctlName(p)] {
			t.file(directoryOf(pathDir(p)), path.Base(p), p, false)
		}
	}
}

// walk reads the files of a directory and those below it.
func (t *tree) walk(dir, parent string, depth int) {
	list, err := t.files.ReadDir(dir)
	if host.NotFound(err) && !host.Unknown(err) {
		return // the scope above says that it is absent
	}
	t.snapshot.scopes = append(t.snapshot.scopes, scope{name: dir, parent: parent, complete: err == nil})
	named := directoryOf(dir)
	for _, d := range list {
		p := dir + "/" + d.Name()
		switch {
		case t.ctx.Err() != nil || len(t.snapshot.values) >= maxValues || skipped(p):
		case d.IsDir() && depth < maxDepth:
			if path.Dir(dir) == "/sys" && dir == "/sys/module" {
				t.module(p)
			} else if !perDevice(dir) || t.devices[d.Name()] && !ephemeral(d.Name()) || alwaysPresent[d.Name()] {
				t.walk(p, dir, depth+1)
			}
		case d.Type().IsRegular():
			t.file(named, d.Name(), p, true)
		}
	}
}

// module reads the parameters of a kernel module. A module without parameters is not compared.
func (t *tree) module(dir string) {
	dir += "/parameters"
	list, err := t.files.ReadDir(dir)
	if err != nil {
		return
	}
	t.snapshot.scopes = append(t.snapshot.scopes, scope{name: dir, parent: "", complete: true})
	named := directoryOf(dir)
	for _, d := range list {
		if d.Type().IsRegular() {
			t.file(named, d.Name(), dir+"/"+d.Name(), true)
		}
	}
}

// alwaysPresent lists the names among devices that each kernel has.
var alwaysPresent = map[string]bool{"all": true, "default": true, "lo": true}

// perDevice reports whether a directory has one subdirectory for each network device.
func perDevice(dir string) bool {
	return strings.HasPrefix(dir, "/proc/sys/net/") && (strings.HasSuffix(dir, "/conf") || strings.HasSuffix(dir, "/neigh"))
}

// directory says how the settings in a directory are named.
type directory struct {
	path    string
	sysctls string // the names of sysctls begin with it; "" if the paths are the names
	devices string // their patterns begin with it; "" if the directory is not that of a device
}

func directoryOf(dir string) directory {
	d := directory{path: dir}
	if strings.HasPrefix(dir, "/proc/sys/") {
		d.sysctls = setting.SysctlName(dir) + "."
	}
	if above := pathDir(dir); perDevice(above) {
		d.devices = setting.SysctlName(above) + ".*."
	}
	return d
}

// file reads one setting, whose path is p. listed reports whether the file exists.
func (t *tree) file(dir directory, base, p string, listed bool) {
	if t.facts[p] {
		return
	}
	b, err := t.files.ReadFile(p)
	v := value{name: p, pattern: p, scope: dir.path, at: p}
	if dir.sysctls != "" {
		v.name = dir.sysctls + setting.SysctlName(base)
		v.pattern = v.name
	}
	if dir.devices != "" {
		v.item, v.pattern = path.Base(dir.path), dir.devices+base
	}
	switch {
	case err == nil:
		v.text = string(host.Redact(p, b))
	case listed || host.Unknown(err):
		v.state = unknown // write-only, or not recorded
	default:
		v.state = absent
	}
	t.snapshot.add(v)
}
