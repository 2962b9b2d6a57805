package kubelet

import (
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/host"
)

// Setup holds the paths of a kubelet's configuration and state.
type Setup struct {
	// Config is the configuration file; "" if all options are on the command line.
	Config string
	// ConfigDir is the directory of drop-ins (--config-dir), or "".
	ConfigDir string
	// StateDir contains cpu_manager_state and memory_manager_state (--root-dir).
	StateDir string
	// Flags are the options set on the command line. They take precedence over every file.
	Flags map[string]Flag
}

// Flag is a command-line flag's value and its position.
type Flag struct{ Value, At string }

// errNone is returned if a machine has no kubelet.
var errNone = errors.New("no kubelet runs on this machine, and no unit starts one")

// ReadSetup reads the running kubelet's command line, or else its unit's.
func ReadSetup(h *host.Host) (Setup, error) {
	flags := map[string]told{}
	if args, pid := process(h); pid != "" {
		flagsOf(args, "the command line of process "+pid, flags)
	} else {
		units, env, err := unitFiles(h)
		if err != nil {
			return Setup{}, err
		}
		if len(units) == 0 {
			return Setup{}, errNone
		}
		for _, f := range append(units, env...) {
			text, err := h.Files.ReadFile(f)
			if err != nil {
				return Setup{}, fmt.Errorf("cannot read a file with the kubelet's command line: %w", err)
			}
			readFlags(string(text), f, flags)
		}
	}
	s := Setup{Config: flags["--config"].value, ConfigDir: flags["--config-dir"].value, StateDir: "/var/lib/kubelet", Flags: map[string]Flag{}}
	if dir := flags["--root-dir"].value; dir != "" {
		s.StateDir = dir
	}
	for _, option := range flagOptions {
		if t, ok := flags[option]; ok {
			s.Flags[option] = Flag{t.value, t.at}
		}
	}
	return s, nil
}
