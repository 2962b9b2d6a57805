package rhel6

import (
	"fmt"
	"slices"
	"strings"
)

// builder collects the options of the converted profile.
type builder struct {
	sections map[string][]entry
	disks    []diskOption
}

type entry struct {
	option, value string
	from          origin
}

// diskOption is an option for some disks. The patterns of several options may overlap.
type diskOption struct {
	entry
	devices []string
}

// sectionOrder is the order of plug-ins in the new file.
var sectionOrder = []string{"cpu", "vm", "disk", "scsi_host", "net", "usb", "audio", "video", "sysfs", "sysctl", "scheduler", "script"}

func newBuilder() *builder { return &builder{sections: map[string][]entry{}} }

// add creates a section if it does not exist, even without options.
func (b *builder) add(section string) {
	if _, ok := b.sections[section]; !ok {
		b.sections[section] = nil
	}
}

// set sets an option and returns the entry that it replaces.
func (b *builder) set(section, option, value string, from origin) (entry, bool) {
	e := entry{option, value, from}
	for i, old := range b.sections[section] {
		if old.option == option {
			b.sections[section][i] = e
			return old, true
		}
	}
	b.sections[section] = append(b.sections[section], e)
	return entry{}, false
}

func (b *builder) setDisks(devices []string, option, value string, from origin) {
	b.disks = append(b.disks, diskOption{entry{option, value, from}, devices})
}

// diskSection is a section of the disk plug-in with its devices and options.
type diskSection struct {
	devices []string
	options []entry
}

// diskSections returns disk sections without overlap: each device is in at most one, because a
// device gets only one section's options. Each pattern has the options of all patterns that cover
// it; patterns with equal options are joined.
func (b *builder) diskSections() []diskSection {
	var patterns []string
	for _, d := range b.disks {
		for _, p := range d.devices {
			if !slices.Contains(patterns, p) {
				patterns = append(patterns, p)
			}
		}
	}
	var out []diskSection
	for _, p := range patterns {
		s := diskSection{devices: []string{p}}
		for _, d := range b.disks {
			if !slices.ContainsFunc(d.devices, func(q string) bool { return covers(q, p) }) {
				continue
			}
			if i := slices.IndexFunc(s.options, func(e entry) bool { return e.option == d.option }); i >= 0 {
				s.options[i] = d.entry // a later line wins
			} else {
				s.options = append(s.options, d.entry)
			}
		}
		for _, q := range patterns {
			if q != p && covers(p, q) {
				s.devices = append(s.devices, "!"+q)
			}
		}
		i := slices.IndexFunc(out, func(o diskSection) bool { return slices.Equal(o.options, s.options) })
		if i < 0 {
			out = append(out, s)
			continue
		}
		// Joined patterns may overlap.
		for _, d := range s.devices {
			if strings.HasPrefix(d, "!") && slices.Contains(out[i].devices, d[1:]) {
				continue
			}
			if !strings.HasPrefix(d, "!") {
				out[i].devices = slices.DeleteFunc(out[i].devices, func(o string) bool { return o == "!"+d })
			}
			out[i].devices = append(out[i].devices, d)
		}
	}
	return out
}

// covers reports whether pattern p matches every name that q matches. A pattern is a name with an
// optional star at the end.
func covers(p, q string) bool {
	stem, star := strings.CutSuffix(p, "*")
	if !star {
		return p == q
	}
	return strings.HasPrefix(strings.TrimSuffix(q, "*"), stem)
}

func (b *builder) render(name string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Imported from the RHEL 6 profile %s. The comment above a line is the\n# original.\n\n", name)
	fmt.Fprintf(&w, "[main]\nsummary=%s, imported from RHEL 6\n", name)
	options := func(entries []entry) {
		for _, e := range entries {
			fmt.Fprintf(&w, "# %s\n%s=%s\n", e.from, e.option, e.value)
		}
	}
	var more []string // such as net.eth0
	for s := range b.sections {
		if !slices.Contains(sectionOrder, s) {
			more = append(more, s)
		}
	}
	slices.Sort(more)
	for _, section := range sectionOrder {
		if section == "disk" {
			for i, s := range b.diskSections() {
				if i == 0 {
					w.WriteString("\n[disk]\n")
				} else {
					fmt.Fprintf(&w, "\n[disk.%d]\ntype=disk\n", i+1)
				}
				fmt.Fprintf(&w, "devices=%s\n", strings.Join(s.devices, ","))
				options(append(s.options, b.sections["disk"]...))
			}
			if len(b.disks) > 0 {
				continue
			}
		}
		if entries, ok := b.sections[section]; ok {
			fmt.Fprintf(&w, "\n[%s]\n", section)
			var others []string
			for _, m := range more {
				if device, ok := strings.CutPrefix(m, section+"."); ok {
					others = append(others, "!"+device)
				}
			}
			if len(others) > 0 {
				fmt.Fprintf(&w, "devices=%s\n", strings.Join(others, ","))
			}
			options(entries)
		}
		for _, m := range more {
			if device, ok := strings.CutPrefix(m, section+"."); ok {
				fmt.Fprintf(&w, "\n[%s]\ntype=%s\ndevices=%s\n", m, section, device)
				options(b.sections[m])
			}
		}
	}
	return w.String()
}
