package sizing

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
)

// fettle's own files on the machine. They keep the kernel settings written by fix across a reboot.
const (
	SysctlFile   = "etc/sysctl.d/60-fettle.conf"
	TmpfilesFile = "etc/tmpfiles.d/60-fettle.conf"
)

// hieraFile is the name that rules use for the file that foreman-installer reads.
const hieraFile = "custom-hiera.yaml"

const written = "Written by fettle fix."

// line is an entry of a file, with the rule that needs it.
type line struct {
	rule.Entry
	why     string
	earlier bool // from an earlier run
}

// file is a file whose lines are being collected.
type file struct {
	name  string // its name in rules
	lines []line
}

func repairArtefacts(files []*file) ([]Artefact, error) {
	var out []Artefact
	for _, f := range files {
		a, err := f.artefact()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// collect groups the findings' entries by file. If two findings set the same entry, the later value
// wins. The reason comes from the first finding, or from the finding whose value is used. Files
// that a rule describes only in words are omitted.
func collect(findings []rule.Finding) ([]*file, error) {
	var files []*file
	add := func(name, key, value, whose string, f rule.Finding) {
		i := slices.IndexFunc(files, func(x *file) bool { return x.name == name })
		if i < 0 {
			files = append(files, &file{name: name})
			i = len(files) - 1
		}
		l := line{Entry: rule.Entry{Name: key, Value: value}, why: f.ID + ": " + strings.Join(strings.Fields(f.Title), " ")}
		if n := slices.IndexFunc(files[i].lines, func(x line) bool { return x.Name == key }); n >= 0 {
			if old := files[i].lines[n]; old.Value != value || whose == f.ID {
				files[i].lines[n] = l
			}
			return
		}
		files[i].lines = append(files[i].lines, l)
	}
	for _, f := range findings {
		if f.Fix == nil {
			continue
		}
		if err := names(f.Fix); err != nil {
			return nil, fmt.Errorf("%s: %w; nothing written", f.ID, err)
		}
		for _, c := range f.Fix.Changes {
			if key, ok := strings.CutPrefix(c.Name, "sysctl:"); ok {
				add(SysctlFile, key, c.Value, c.For, f)
			}
			if key, ok := strings.CutPrefix(c.Name, "sysfs:"); ok {
				add(TmpfilesFile, key, c.Value, c.For, f)
			}
			if unit, limit, ok := strings.Cut(strings.TrimPrefix(c.Name, "unit:"), "/"); ok && strings.HasPrefix(c.Name, "unit:") && strings.HasPrefix(limit, "Limit") {
				add("/etc/systemd/system/"+unit+".d/zz-fettle.conf", limit, c.Value, c.For, f)
			}
			if key, ok := strings.CutPrefix(c.Name, "hiera:"); ok {
				add(hieraFile, key, c.Value, c.For, f)
			}
		}
		if strings.Contains(f.Fix.Artefact, " ") {
			continue // words instead of a file: the kernel command line
		}
		for _, e := range f.Fix.Entries {
			add(f.Fix.Artefact, e.Name, e.Value, e.For, f)
		}
	}
	return files, nil
}

// names checks each name, because some contain names from the machine.
func names(fix *rule.Repair) error {
	for _, c := range fix.Changes {
		if err := rule.ChangeName(c.Name); err != nil {
			return err
		}
	}
	for _, e := range fix.Entries {
		if strings.Contains(fix.Artefact, " ") {
			break // no file
		}
		if err := rule.EntryName(fix.Artefact, e.Name); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) artefact() (Artefact, error) {
	for _, l := range f.lines {
		if strings.Contains(l.Name+l.Value, "\n") && (path.IsAbs(f.name) || f.name == SysctlFile || f.name == TmpfilesFile) {
			return Artefact{}, fmt.Errorf("%s: %q does not fit on a line", l.why, l.Value)
		}
	}
	unit, dropIn := strings.CutPrefix(path.Dir(f.name), "/etc/systemd/system/")
	switch {
	case f.name == SysctlFile:
		return Artefact{Name: f.name, What: "keeps the sysctls over a boot", Checked: "sysctl.d(5)", Content: f.text("", func(l line) string { return l.Name + " = " + l.Value })}, nil
	case f.name == TmpfilesFile:
		return Artefact{Name: f.name, What: "keeps the values below /sys over a boot", Checked: "tmpfiles.d(5)", Content: f.text("", func(l line) string {
			return "w " + l.Name + " - - - - " + strings.ReplaceAll(l.Value, "%", "%%")
		})}, nil
	case f.name == rule.Installer:
		return Artefact{Name: "satellite-installer.sh", What: "one call of the installer for all rules", Checked: "", Content: f.call()}, nil
	case f.name == hieraFile:
		// "postgresql::server::config_entries/work_mem" is a key within a key.
		text, err := f.yaml(nil, func(l line) []string { return strings.Split(l.Name, "/") }, "Add these keys to the existing file, then run satellite-installer.")
		return Artefact{Name: "etc/foreman-installer/custom-hiera.yaml", What: "the keys for the rules", Checked: "the keys of the installer's modules", Content: text}, err
	case dropIn && strings.HasSuffix(unit, ".d"):
		return Artefact{Name: f.name[1:], What: "drop-in of " + strings.TrimSuffix(unit, ".d"), Checked: "systemd.exec(5)", Content: f.text("[Service]", func(l line) string { return l.Name + "=" + l.Value })}, nil
	case f.name == "KubeletConfiguration":
		text, err := f.yaml([][2]string{{"apiVersion", "kubelet.config.k8s.io/v1beta1"}, {"kind", "KubeletConfiguration"}}, dotted, "Add these fields to the kubelet's configuration; on OpenShift to spec.kubeletConfig of a KubeletConfig.")
		return Artefact{Name: "kubelet-configuration.yaml", What: "the fields for the rules", Checked: "", Content: text}, err
	}
	text, err := f.yaml(nil, dotted, "Add these to "+f.name+".")
	return Artefact{Name: strings.TrimSuffix(path.Base(f.name), ".yaml") + ".yaml", What: "the entries of " + f.name + " for the rules", Checked: "", Content: text}, err
}

// text returns a file with a heading and its lines, each after the rule that needs it.
func (f *file) text(heading string, print func(line) string) string {
	var b strings.Builder
	b.WriteString("# " + written + "\n")
	if heading != "" {
		b.WriteString(heading + "\n")
	}
	for _, l := range f.lines {
		fmt.Fprintf(&b, "# %s\n%s\n", l.why, print(l))
	}
	return b.String()
}

// call returns a script that calls the installer once with the options of all rules: each call
// takes minutes and restarts everything.
func (f *file) call() string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# " + written + "\n")
	for _, l := range f.lines {
		fmt.Fprintf(&b, "# %s\n", l.why)
	}
	b.WriteString("exec satellite-installer")
	for _, l := range f.lines {
		fmt.Fprintf(&b, " \\\n  %s %s", text.Quote(l.Name), text.Quote(l.Value))
	}
	b.WriteString("\n")
	return b.String()
}
