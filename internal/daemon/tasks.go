package daemon

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/profile"
)

// following is a unit whose rules are applied to new tasks as they start.
type following struct {
	rules string // the unit's text when following began
	stop  func() // restores the tasks that still run
}

// followTasks applies the profile's scheduler units to new tasks, and stops all other units. A nil
// profile stops all.
func (d *Daemon) followTasks(m *Machine, p *profile.Profile) {
	wanted := map[string]*profile.Unit{}
	if p != nil {
		for _, u := range p.InOrder() {
			if skip, _, err := m.Engine.Main.Skipped(u, m.Engine.Host); err == nil && !skip && cpu.Follows(u) {
				wanted[u.Name] = u
			}
		}
	}
	for name, f := range d.tasks {
		if u, ok := wanted[name]; ok && rulesOf(u) == f.rules {
			delete(wanted, name)
			continue
		}
		f.stop()
		delete(d.tasks, name)
	}
	for name, u := range wanted {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err := cpu.Follow(ctx, m.Engine.Host, d.kinds, *u, func(err error) { d.log.say(LevelWarning, "cannot tune a new task: %v", err) })
			if err != nil {
				d.log.say(LevelWarning, "[%s]: cannot follow new tasks: %v", u.Name, err)
			}
		}()
		d.tasks[name] = following{rulesOf(u), func() { cancel(); <-ended }}
	}
}

func rulesOf(u *profile.Unit) string {
	text := u.Devices
	for _, o := range u.Options {
		text += fmt.Sprintf("\n%s=%s", o.Name, o.Value)
	}
	return text
}
