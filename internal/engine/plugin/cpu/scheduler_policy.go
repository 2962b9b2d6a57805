package cpu

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

const resetOnFork = ", reset on fork"

// policyText is a policy as a setting's value: "other nice 0", "fifo 50",
// "deadline 10000 30000 30000" (ns), with ", reset on fork".
func policyText(p host.Policy) string {
	var text string
	switch p.Name {
	case "other", "batch", "idle", "ext":
		text = fmt.Sprintf("%s nice %d", p.Name, p.Nice)
	case "deadline":
		text = fmt.Sprintf("deadline %d %d %d", p.Runtime, p.Deadline, p.Period)
	default:
		text = fmt.Sprintf("%s %d", p.Name, p.Priority)
		if p.Nice != 0 {
			text += fmt.Sprintf(" nice %d", p.Nice)
		}
	}
	if p.ResetOnFork {
		text += resetOnFork
	}
	return text
}

// parsePolicy is the inverse of policyText.
func parsePolicy(text string) (host.Policy, error) {
	rest, reset := strings.CutSuffix(text, resetOnFork)
	f := strings.Fields(rest)
	bad := fmt.Errorf("%q is no policy: want such as %q or %q", text, "other nice 0", "fifo 50")
	if len(f) < 2 {
		return host.Policy{}, bad
	}
	p := host.Policy{Name: f[0], ResetOnFork: reset}
	var err error
	switch args := f[1:]; {
	case p.Name == "deadline" && len(args) == 3:
		for i, to := range []*uint64{&p.Runtime, &p.Deadline, &p.Period} {
			if *to, err = strconv.ParseUint(args[i], 10, 64); err != nil {
				return host.Policy{}, bad
			}
		}
	case p.Name == "deadline":
		return host.Policy{}, bad
	default:
		if args[0] != "nice" {
			if p.Priority, err = strconv.Atoi(args[0]); err != nil || p.Priority < 0 || p.Priority > 99 {
				return host.Policy{}, bad
			}
			args = args[1:]
		}
		switch {
		case len(args) == 0:
		case len(args) == 2 && args[0] == "nice":
			if p.Nice, err = strconv.Atoi(args[1]); err != nil || p.Nice < -20 || p.Nice > 19 {
				return host.Policy{}, bad
			}
		default:
			return host.Policy{}, bad
		}
	}
	return p, nil
}
