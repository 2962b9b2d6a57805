package cpu

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const idleDir = cpuDir + "/cpu0/cpuidle"

// idleState is one idle state of the first CPU.
type idleState struct {
	id      int
	name    string
	latency int64 // microseconds to leave it
}

func idleStates(h *host.Host) []idleState {
	entries, err := h.Files.ReadDir(idleDir)
	if err != nil {
		return nil
	}
	var out []idleState
	for _, e := range entries {
		id, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "state"))
		if err != nil {
			continue
		}
		name, _ := plugin.Attribute(h, idleDir+"/"+e.Name()+"/name")
		text, _ := plugin.Attribute(h, idleDir+"/"+e.Name()+"/latency")
		if latency, err := strconv.ParseInt(text, 10, 64); err == nil {
			out = append(out, idleState{id, name, latency})
		}
	}
	slices.SortFunc(out, func(a, b idleState) int { return a.id - b.id })
	return out
}

// latency is what an option asks for.
type latency struct {
	text string // microseconds, or "n/a"
	why  string // the idle state that it was taken from
	none bool   // "None": leave it
}

// parseLatency takes the first alternative that this machine can answer.
// Otherwise reason says why none is, and wrong whether the text itself is to
// blame.
func parseLatency(h *host.Host, value string, na bool) (l latency, reason string, wrong bool) {
	states := idleStates(h)
	for _, alternative := range strings.Split(value, "|") {
		alternative = strings.TrimSpace(alternative)
		if n, err := strconv.ParseInt(alternative, 10, 64); err == nil {
			if n < 0 || n > math.MaxInt32 {
				wrong = true
				continue
			}
			return latency{text: strconv.FormatInt(n, 10)}, "", false
		}
		switch alternative {
		case "none", "None":
			return latency{none: true}, "", false
		case "n/a":
			if na {
				return latency{text: "n/a"}, "", false
			}
		}
		by, state, ok := strings.Cut(alternative, ":")
		by, noZero := strings.CutSuffix(by, "_no_zero")
		if !ok || by != "cstate.id" && by != "cstate.name" {
			wrong = true
			continue
		}
		id, err := strconv.Atoi(strings.TrimSpace(state))
		if by == "cstate.id" && err != nil {
			wrong = true
			continue
		}
		for _, s := range states {
			if (by == "cstate.id" && s.id == id || by == "cstate.name" && s.name == state) && !(noZero && s.latency == 0) {
				text := strconv.FormatInt(s.latency, 10)
				return latency{text: text, why: "idle state " + s.name + " takes " + text + " µs to leave"}, "", false
			}
		}
	}
	if len(states) == 0 {
		reason = "this machine has no idle states to take a latency from"
		if plugin.IsGuest(h) {
			reason = "this machine is a guest without idle states to take a latency from"
		}
		return latency{}, reason, wrong
	}
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = strconv.Itoa(s.id) + " " + s.name
	}
	return latency{}, "the idle states of this machine are " + strings.Join(names, ", "), wrong
}

func planForceLatency(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := setting.Setting{Kind: KindName, Name: DMALatency}
	if items, ok := firstOnly(r, s, o); ok {
		return items, nil
	}
	l, reason, wrong := parseLatency(r.Host, o.Value, false)
	switch {
	case l.none:
		return nil, nil
	case wrong && l.text == "":
		return plugin.BadValue(s, o, "microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b"), nil
	case l.text == "":
		return plugin.Lacks(r.Host, s, o, "%s", reason), nil
	case !plugin.Exists(r.Host, dmaLatencyFile):
		return plugin.Lacks(r.Host, s, o, "there is no %s here: this kernel is built without CPU idle management, or this is a container", dmaLatencyFile), nil
	}
	it := plugin.Want(s, l.text, o)
	it.Why = l.why
	return []plugin.Item{it}, nil
}

func planResumeLatency(_ context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	place := powerPlace("pm_qos_resume_latency_us")
	s := plugin.Sysfs(place(r.Host, cpu))
	l, reason, wrong := parseLatency(r.Host, o.Value, true)
	switch {
	case l.none:
		return nil, nil
	case wrong && l.text == "":
		return plugin.BadValue(s, o, "microseconds, n/a, cstate.id:N, cstate.name:NAME, None, or alternatives a|b"), nil
	case l.text == "":
		return plugin.Lacks(r.Host, s, o, "%s", reason), nil
	case !plugin.Exists(r.Host, s.Name):
		return lacks(r, o, cpu, place, always("this kernel has no latency limit per CPU")), nil
	}
	it := plugin.Want(s, l.text, o)
	it.Why = l.why
	return []plugin.Item{it}, nil
}
