package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/unit"
)

// overlay holds changes that clients made to the units in force: TuneD's dynamic instances. It is
// not part of the selection, and ends with the daemon or the next selection.
type overlay struct {
	created []profile.Unit
	gone    map[string]bool     // units removed by clients
	devices map[string][]string // units whose devices were moved by clients
}

// put applies the changes to a loaded profile.
func (o overlay) put(p *profile.Profile) {
	p.Units = slices.DeleteFunc(p.Units, func(u profile.Unit) bool { return o.gone[u.Name] })
	// First, because among units of equal priority the first one gets the devices.
	p.Units = append(slices.Clone(o.created), p.Units...)
	for i := range p.Units {
		u := &p.Units[i]
		if list, ok := o.devices[u.Name]; ok {
			u.Devices, u.DevicesUdevRegex = strings.Join(list, ","), ""
			if len(list) == 0 {
				u.Devices = "!*"
			}
		}
	}
}

// hotPlug lists the plug-ins that allow new units and moved devices at run time (TuneD's
// hotplug.Plugin).
var hotPlug = []string{"audio", "cpu", "disk", "irq", "net", "scsi_host", "uncore"}

// instance is a unit in force with its devices.
type instance struct {
	*profile.Unit
	devices []string
}

// overlaid returns the accepted profile of a selection, changed by the overlay.
func (d *Daemon) overlaid(ctx context.Context, m *Machine, sel *tune.Selection) (*profile.Profile, error) {
	p, err := m.Engine.LoadAccepted(ctx, sel, m.Loader)
	if err == nil {
		d.overlay.put(p)
	}
	return p, err
}

// instances lists the units in force in the order of application.
func (d *Daemon) instances(ctx context.Context, m *Machine) ([]instance, error) {
	if d.selection == nil || d.parked {
		return nil, nil
	}
	p, err := d.overlaid(ctx, m, d.selection)
	if err != nil {
		return nil, err
	}
	var units []*profile.Unit
	for _, u := range p.InOrder() {
		skip, _, err := m.Engine.Main.Skipped(u, m.Engine.Host)
		// A unit that may not apply is not in force either.
		if _, known := plugin.Find(table.All, u.Type); known && !skip && err == nil {
			units = append(units, u)
		}
	}
	assigned, _ := plugin.Assign(ctx, m.Engine.Host, table.All, units)
	out := make([]instance, len(units))
	for i, u := range units {
		out[i] = instance{u, assigned[u.Name]}
	}
	return out, nil
}

// Instances lists the units in force with their plug-ins.
func (d *Daemon) Instances(name string) (bool, string, [][2]string) {
	if name != "" {
		if _, ok := plugin.Find(table.All, name); !ok {
			return false, fmt.Sprintf("Plugin '%s' does not exist", name), nil
		}
	}
	out := [][2]string{}
	ctx := context.Background()
	err := d.act(ctx, func(m *Machine) error {
		list, err := d.instances(ctx, m)
		for _, in := range list {
			if name == "" || in.Type == name {
				out = append(out, [2]string{in.Name, in.Type})
			}
		}
		return err
	})
	if err != nil {
		return false, err.Error(), nil
	}
	return true, "OK", out
}

// InstanceDevices lists the devices of a unit in force.
func (d *Daemon) InstanceDevices(name string) (bool, string, []string) {
	ctx := context.Background()
	var found *instance
	err := d.act(ctx, func(m *Machine) error {
		list, err := d.instances(ctx, m)
		if i := indexOf(list, name); i >= 0 {
			found = &list[i]
		}
		return err
	})
	switch {
	case err != nil:
		return false, err.Error(), nil
	case found == nil:
		return false, noInstance(name).Error(), nil
	}
	devices := slices.Clone(found.devices)
	slices.Sort(devices)
	return true, "OK", devices
}

func indexOf(list []instance, name string) int {
	return slices.IndexFunc(list, func(in instance) bool { return in.Name == name })
}

func noInstance(name string) error { return reply("Instance '" + name + "' not found") }

func noHotPlug(plugin string) error {
	return reply("Plugin '" + plugin + "' does not support hotplugging or dynamic instances.")
}

// reply is an error that is sent to a client unchanged.
type reply string

func (r reply) Error() string { return string(r) }

// reapply applies a changed overlay. After an error the old overlay stays in force.
func (d *Daemon) reapply(ctx context.Context, m *Machine, next overlay, reason string) error {
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil {
		return err
	}
	if sel == nil {
		return fmt.Errorf("%s: no profile is active", reason)
	}
	if onTrial(t) {
		return fmt.Errorf("%s: the active profile is on trial; fettle confirm ends the trial", reason)
	}
	p, err := m.Engine.LoadAccepted(ctx, sel, m.Loader)
	if err != nil {
		return err
	}
	next.put(p)
	err = d.standIn(ctx, m, t, sel, p, reason, func(plan *tune.Plan, _ *journal.State) bool { return plan.Writes() > 0 })
	if err != nil {
		return err
	}
	d.overlay = next
	if s, err = m.Engine.State(); err == nil {
		d.seen = s.Generation
		d.hold(ctx, m, p, s)
	}
	return err
}

// changeable returns the units in force and the index of the named unit. It returns an error if
// that unit cannot change at run time.
func (d *Daemon) changeable(ctx context.Context, m *Machine, name string) (list []instance, i int, err error) {
	list, err = d.instances(ctx, m)
	if err != nil {
		return nil, 0, err
	}
	switch i = indexOf(list, name); {
	case i < 0:
		return nil, 0, noInstance(name)
	case !slices.Contains(hotPlug, list[i].Type):
		return nil, 0, noHotPlug(list[i].Type)
	}
	return list, i, nil
}

// AcquireDevices moves devices ("sda,sdb" or "cpulist:0-3") to a unit.
func (d *Daemon) AcquireDevices(ctx context.Context, devices, name string) (bool, string) {
	wanted, err := deviceList(devices)
	if err != nil {
		return false, err.Error()
	}
	message := "OK"
	err = d.act(ctx, func(m *Machine) error {
		list, i, err := d.changeable(ctx, m, name)
		if err != nil {
			return err
		}
		next := d.overlay.clone()
		left := slices.Clone(wanted)
		for _, in := range list {
			if in.Type == list[i].Type {
				next.devices[in.Name] = slices.Clone(in.devices)
			}
		}
		for _, in := range list {
			moving := intersect(in.devices, wanted)
			if len(moving) == 0 {
				continue
			}
			if in.Type != list[i].Type {
				return reply(fmt.Sprintf("Devices '%s' belong to instance '%s' of plugin '%s'; instance '%s' is of plugin '%s'",
					strings.Join(moving, ","), in.Name, in.Type, name, list[i].Type))
			}
			left = subtract(left, moving)
			next.devices[in.Name] = subtract(next.devices[in.Name], moving)
			next.devices[name] = append(subtract(next.devices[name], moving), moving...)
		}
		if err := d.reapply(ctx, m, next, "devices "+devices+" to "+name); err != nil {
			return err
		}
		if len(left) > 0 {
			return reply("No instance has the devices '" + strings.Join(left, ",") + "'")
		}
		return nil
	})
	if err != nil {
		return false, err.Error()
	}
	return true, message
}

// refusedInstances are the plug-ins whose instances cannot be created over a bus: they run
// programs, or their changes outlive a boot.
var refusedInstances = []string{"script", "service", "systemd", "bootloader"}

// CreateInstance adds a unit until the next selection. The options "devices" and "priority"
// configure the unit; all others configure the plug-in.
func (d *Daemon) CreateInstance(ctx context.Context, pluginName, name string, options map[string]string) (bool, string) {
	pl, ok := plugin.Find(table.All, pluginName)
	switch {
	case !ok:
		return false, fmt.Sprintf("Plugin '%s' not found", pluginName)
	case slices.Contains(refusedInstances, pluginName):
		return false, fmt.Sprintf("Plugin '%s' may not be used in an instance that is created at run time", pluginName)
	case !slices.Contains(hotPlug, pluginName):
		return false, noHotPlug(pluginName).Error()
	}
	u := profile.Unit{Name: name, Type: pluginName, Enabled: true, Devices: "*", Pos: profile.Pos{File: "instance " + name, Line: 1}}
	for k, v := range options {
		switch k {
		case "devices":
			u.Devices = v
		case "devices_udev_regex":
			u.DevicesUdevRegex = v
		case "priority":
			n, err := strconv.Atoi(v)
			if err != nil {
				return false, fmt.Sprintf("priority '%s' is not a whole number", v)
			}
			u.Priority = n
		default:
			if _, ok := pl.Option(k); !ok {
				return false, fmt.Sprintf("unknown option '%s' of plugin '%s'", k, pluginName)
			}
			u.Options = append(u.Options, profile.Option{Name: k, Value: v, Raw: v, Pos: u.Pos})
		}
	}
	slices.SortFunc(u.Options, func(a, b profile.Option) int { return strings.Compare(a.Name, b.Name) })
	err := d.act(ctx, func(m *Machine) error {
		list, err := d.instances(ctx, m)
		if err != nil {
			return err
		}
		if indexOf(list, name) >= 0 {
			return reply("Instance '" + name + "' already exists")
		}
		next := d.overlay.clone()
		next.created = append([]profile.Unit{u}, next.created...)
		delete(next.gone, name)
		return d.reapply(ctx, m, next, "instance "+name+" of "+pluginName)
	})
	if err != nil {
		return false, err.Error()
	}
	return true, "OK"
}

// DestroyInstance removes a unit until the next selection.
func (d *Daemon) DestroyInstance(ctx context.Context, name string) (bool, string) {
	err := d.act(ctx, func(m *Machine) error {
		if _, _, err := d.changeable(ctx, m, name); err != nil {
			return err
		}
		next := d.overlay.clone()
		next.created = slices.DeleteFunc(next.created, func(u profile.Unit) bool { return u.Name == name })
		next.gone[name] = true
		return d.reapply(ctx, m, next, "instance "+name+" destroyed")
	})
	if err != nil {
		return false, err.Error()
	}
	return true, "OK"
}

func (o overlay) clone() overlay {
	c := overlay{created: slices.Clone(o.created), gone: map[string]bool{}, devices: map[string][]string{}}
	for k := range o.gone {
		c.gone[k] = true
	}
	for k, v := range o.devices {
		c.devices[k] = v
	}
	return c
}

// deviceList parses "sda,sdb" or "cpulist:0-3".
func deviceList(text string) ([]string, error) {
	cpus, isCPUs := strings.CutPrefix(text, "cpulist:")
	if !isCPUs {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), nil
	}
	set, err := unit.ParseCPUList(cpus)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range set.Numbers() {
		out = append(out, "cpu"+strconv.Itoa(n))
	}
	return out, nil
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

func subtract(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
