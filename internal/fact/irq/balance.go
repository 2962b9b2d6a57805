package irq

import (
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Balance is the configuration of irqbalance(1), which reads its variables from its service's
// environment file.
type Balance struct {
	// State is running, stopped, not installed or unknown; on a copy also enabled.
	State string `json:"state"`
	File  string `json:"file"` // environment file, or ""
	// BannedList lists the CPUs to which irqbalance assigns no interrupts. BannedBy names the
	// reason: a variable, or the default, isolated and nohz_full CPUs.
	BannedList string   `json:"banned_cpu_list"`
	BannedBy   string   `json:"banned_by"`
	BannedIRQs []string `json:"banned_irqs"`    // --banirq
	BannedMods []string `json:"banned_modules"` // --banmod
	Policy     string   `json:"policy_script"`  // --policyscript
	Oneshot    bool     `json:"oneshot"`
	// IsolatedList and NohzFullList are the kernel's lists of isolated and nohz_full CPUs.
	IsolatedList string `json:"isolated_cpu_list"`
	NohzFullList string `json:"nohz_full_cpu_list"`
	// Invalid is a variable that irqbalance cannot read, or "".
	Invalid string `json:"invalid,omitempty"`

	quiet unit.CPUSet // isolated and nohz_full
	args  string      // IRQBALANCE_ARGS
}

// Variables of irqbalance.
const (
	maskVariable = "IRQBALANCE_BANNED_CPUS"
	listVariable = "IRQBALANCE_BANNED_CPULIST"
	argsVariable = "IRQBALANCE_ARGS"
)

// environmentFiles are the paths of the environment file: Red Hat's and SUSE's, then Debian's.
var environmentFiles = []string{"/etc/sysconfig/irqbalance", "/etc/default/irqbalance"}

// readBalance reads the configuration as irqbalance 1.9 does. The mask IRQBALANCE_BANNED_CPUS takes
// precedence over IRQBALANCE_BANNED_CPULIST, although irqbalance logs that it discards the mask.
// Without both, it bans isolated and nohz_full CPUs.
func readBalance(h *host.Host) Balance {
	f := fact.Collect(h, "cpu", "services")
	b := Balance{State: balanceState(f), BannedIRQs: []string{}, BannedMods: []string{}}
	isolated, _ := unit.ParseCPUList(f.CPU.IsolatedList.Or(""))
	nohz, _ := unit.ParseCPUList(f.CPU.NohzFullList.Or(""))
	b.quiet = isolated.Union(nohz)
	b.IsolatedList, b.NohzFullList = isolated.String(), nohz.String()
	env := map[string]string{}
	for _, file := range environmentFiles {
		if f := h.File(file); f.Exists {
			b.File, env = file, environment(f.Text)
			break
		}
	}
	b.ban(env)
	_, b.Oneshot = env["IRQBALANCE_ONESHOT"]
	b.args = env[argsVariable]
	words := strings.Fields(b.args + " " + env["OPTIONS"]) // OPTIONS: Debian before 10
	for i, w := range words {
		name, value, joined := strings.Cut(w, "=")
		if len(w) > 2 && w[0] == '-' && w[1] != '-' { // -i40
			name, value, joined = w[:2], w[2:], true
		}
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "--banirq", "-i":
			b.BannedIRQs = append(b.BannedIRQs, value)
		case "--banmod", "-m":
			b.BannedMods = append(b.BannedMods, value)
		case "--policyscript", "-l":
			b.Policy = value
		case "--oneshot", "-o":
			b.Oneshot = true
		}
	}
	return b
}

// ban sets the CPUs that irqbalance leaves out.
func (b *Balance) ban(env map[string]string) {
	for _, v := range []struct {
		name string
		read func(string) (unit.CPUSet, error)
	}{{maskVariable, unit.ParseCPUMask}, {listVariable, unit.ParseCPUList}} {
		text := env[v.name]
		if text == "" {
			continue
		}
		cpus, err := v.read(text)
		if err != nil {
			b.Invalid = v.name + "=" + text
		}
		b.BannedList, b.BannedBy = cpus.String(), v.name
		return
	}
	if !b.quiet.IsEmpty() {
		b.BannedList, b.BannedBy = b.quiet.String(), "isolated and nohz_full CPUs"
	}
}

// environment parses an environment file of systemd (systemd.exec(5), EnvironmentFile=), without
// escapes.
func environment(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
			out[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return out
}

// balanceState returns the state of irqbalance; on a copy without processes, whether it starts at
// boot.
func balanceState(f *fact.Facts) string {
	t := f.Services.Tuner.Get("irqbalance")
	if t == nil {
		return "unknown"
	}
	running, isKnown := t.Running.Get()
	switch {
	case running:
		return "running"
	case fact.Is(t.Installed, false):
		return "not installed"
	case isKnown:
		return "stopped"
	case t.Enabled.Or(false):
		return "enabled"
	}
	return "unknown"
}
