// systemd is the plug-in for the service manager's own CPU affinity,
// which every service inherits.

package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Systemd turns [systemd] sections into changes.
var Systemd = plugin.Plugin{
	Name: "systemd",
	Doc:  "sets the CPUs of systemd and of all programs that it starts, from the next boot on",
	Options: []plugin.Option{{
		Name: "cpu_affinity",
		Doc:  "CPU list for CPUAffinity= in " + confFile + " (systemd-system.conf(5)); systemd reads it when it starts",
		Plan: planSystemd,
	}},
}

// confFile is fettle's own drop-in. It sorts late: systemd merges the lists of all files, and
// fettle's begins with the empty list that resets the others.
const (
	confDir  = "/etc/systemd/system.conf.d"
	confFile = confDir + "/90-fettle.conf"
)

var systemdAffinity = setting.Setting{Kind: "manager", Name: "CPUAffinity"}

func planSystemd(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	text := strings.Trim(strings.TrimSpace(o.Value), `"`)
	if text == "" {
		return nil, nil
	}
	cpus, err := profile.ParseCPUs(text)
	if err != nil {
		return nil, plugin.Invalid("%v", err)
	}
	if cpus.IsEmpty() {
		return nil, plugin.Invalid("%q is not a list of CPUs", o.Value)
	}
	if !plugin.IsDir(r.Host, "/etc/systemd") {
		return plugin.LacksFiles(r.Host, systemdAffinity, o, []string{"/etc/systemd"}, "systemd is not used here: /etc/systemd is missing"), nil
	}
	if possible, err := cpuList(r.Host, "possible"); err == nil && cpus.Intersect(possible).IsEmpty() {
		return []plugin.Item{plugin.Refuse(systemdAffinity, o, plugin.Unsupported, "the machine has only %s", possible.Words())}, nil
	}
	return append(plugin.WantDir(r.Host, confDir, o), plugin.Want(systemdAffinity, cpus.String(), o)), nil
}

// SystemdKinds returns the setting kinds that this plug-in adds:
//
//	manager:CPUAffinity  a CPU list in fettle's drop-in of system.conf
func SystemdKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{"manager": manager{h}}
}

type manager struct{ host *host.Host }

func (manager) Files(setting.Setting) []string { return []string{confFile} }

func (manager) Resolve(s setting.Setting) (setting.Setting, error) {
	if s != systemdAffinity {
		return setting.Setting{}, fmt.Errorf("%s: unknown setting; want manager:CPUAffinity", s)
	}
	return s, nil
}

// render returns the whole drop-in. It lists single CPUs, because releases before 229 do not
// support ranges.
func render(cpus unit.CPUSet) string {
	var list strings.Builder
	for _, c := range cpus.Numbers() {
		list.WriteString(" " + strconv.Itoa(c))
	}
	return "# From the active profile; fettle undo removes this file.\n[Manager]\nCPUAffinity=\nCPUAffinity=" + strings.TrimPrefix(list.String(), " ") + "\n"
}

// parse is the inverse of render. It returns an error for any other text.
func parse(text string) (unit.CPUSet, error) {
	_, list, _ := strings.Cut(text, "\nCPUAffinity=\nCPUAffinity=")
	cpus, err := unit.ParseCPUList(strings.ReplaceAll(strings.TrimSuffix(list, "\n"), " ", ","))
	if err != nil || render(cpus) != text {
		return unit.CPUSet{}, fmt.Errorf("%s was edited by hand; move your lines to another file, or remove this file", confFile)
	}
	return cpus, nil
}

func (k manager) Read(context.Context, setting.Setting) (setting.Value, error) {
	b, err := k.host.Files.ReadFile(confFile)
	if errors.Is(err, fs.ErrNotExist) {
		return setting.Absent, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	cpus, err := parse(string(b))
	return setting.Text(cpus.String()), err
}

func (k manager) Write(_ context.Context, _ setting.Setting, v setting.Value) error {
	b, err := k.host.Files.ReadFile(confFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && v.Absent:
		return nil
	case err == nil:
		if _, err := parse(string(b)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if v.Absent {
		return k.host.Files.Remove(confFile)
	}
	cpus, err := unit.ParseCPUList(v.Text)
	if err != nil {
		return err
	}
	return k.host.Files.Replace(confFile, []byte(render(cpus)), host.Attr{Mode: 0o644})
}

// Effect compares the value with process 1's affinity. systemd sets that only when the kernel
// starts it, not on daemon-reload or daemon-reexec (its main.c, update_cpu_affinity).
func (k manager) Effect(_ context.Context, _ setting.Setting, want setting.Value) (plugin.Verdict, string) {
	b, err := k.host.Files.ReadFile("/proc/1/status")
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	cpus, err := unit.ParseCPUList(want.Text)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	// The kernel does not report offline CPUs.
	if online, err := cpuList(k.host, "online"); err == nil {
		cpus = cpus.Intersect(online)
	}
	for line := range strings.Lines(string(b)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		now, err := unit.ParseCPUList(strings.TrimSpace(list))
		switch {
		case err != nil:
			return plugin.Unknown, err.Error()
		case now.Equal(cpus):
			return plugin.OK, ""
		}
		return plugin.NeedsReboot, fmt.Sprintf("process 1 runs on %s; systemd reads the list when the machine boots", now.Words())
	}
	return plugin.Unknown, "/proc/1/status has no Cpus_allowed_list"
}

func (manager) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (manager) Coupled(setting.Setting) []setting.Setting { return nil }
func (manager) Lifetime() setting.Lifetime                { return setting.Reboot }
