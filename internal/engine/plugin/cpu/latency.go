package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const idleDir = cpuDir + "/cpu0/cpuidle"

// idleState is one idle state of the machine's first CPU.
type idleState struct {
	id      int
	name    string
	latency int64 // exit latency in microseconds
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

// latency is the parsed value of a latency option.
type latency struct {
	text string // microseconds, or "n/a"
	why  string // the idle state that gives the value
	none bool   // "None": no change
}

// parseLatency returns the first alternative that this machine supports. If it supports none,
// reason is the explanation. wrong reports an invalid value.
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
		reason = "this machine has no CPU idle states, so the latency of an idle state is unknown"
		if plugin.IsGuest(h) {
			reason = "this machine is a guest without CPU idle states, so the latency of an idle state is unknown"
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
	s := setting.Setting{Kind: KindName, Name: dmaLatency}
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
		return plugin.Lacks(r.Host, s, o, "%s not found: the kernel has no CPU idle management, or this is a container", dmaLatencyFile), nil
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

// Defaults of dynamic tuning.
const (
	loadThreshold = 0.2
	latencyLow    = "100"
	latencyHigh   = "1000"
)

// limitFor returns the allowed wake-up latency for a load, by TuneD's rule. The load is a mean
// over a minute, so no hysteresis is needed.
func limitFor(load, threshold float64, low, high setting.Value) setting.Value {
	if load < threshold {
		return high
	}
	return low
}

// dynamic makes the limit on wake-up latency follow the load, unless other options of the unit set
// it.
func dynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	s := setting.Setting{Kind: KindName, Name: dmaLatency}
	var items []plugin.Item
	given := false
	for _, name := range []string{"load_threshold", "latency_low", "latency_high"} {
		if o, ok := r.Option(name); ok {
			given = true
			if more, later := firstOnly(r, s, o); later {
				items = append(items, more...)
			}
		}
	}
	if r.Later {
		return nil, items, nil
	}
	for _, name := range []string{"force_latency", "pm_qos_resume_latency_us"} {
		if _, ok := r.Option(name); ok {
			return nil, nil, nil
		}
	}
	if !plugin.Exists(r.Host, dmaLatencyFile) {
		if !given {
			return nil, nil, nil
		}
		o, _ := r.Option("load_threshold")
		return nil, plugin.Lacks(r.Host, s, o, "%s not found: the kernel has no CPU idle management, or this is a container", dmaLatencyFile), nil
	}
	threshold, bad := r.Threshold(s, "load_threshold", loadThreshold)
	low, more := limit(r, s, "latency_low", latencyLow)
	bad = append(bad, more...)
	high, more := limit(r, s, "latency_high", latencyHigh)
	if bad = append(bad, more...); len(bad) > 0 {
		return nil, bad, nil
	}
	return []plugin.Loop{{
		Places: []plugin.Varying{{
			Setting: s, Values: []setting.Value{low, high},
			Reason: plugin.UnitReason(r.Unit, "the wake-up latency follows the load"),
		}},
		Next: func(context.Context, time.Duration) ([]plugin.Wish, error) {
			load, err := plugin.LoadAverage(r.Host)
			if err != nil {
				return nil, err
			}
			return []plugin.Wish{{Setting: s, Want: limitFor(load, threshold, low, high)}}, nil
		},
	}}, nil, nil
}

// limit parses latency_low or latency_high, which have the forms of force_latency.
func limit(r *plugin.Request, s setting.Setting, option, standard string) (setting.Value, []plugin.Item) {
	o, given := r.Option(option)
	if !given {
		o = profile.Option{Name: option, Value: standard, Pos: r.Unit.Pos}
	}
	l, reason, wrong := parseLatency(r.Host, o.Value, false)
	switch {
	case l.none:
		return setting.Text(strconv.Itoa(noLimit)), nil
	case l.text != "":
		return setting.Text(l.text), nil
	case wrong:
		return setting.Value{}, plugin.BadValue(s, o, "microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b")
	}
	return setting.Value{}, plugin.Lacks(r.Host, s, o, "%s", reason)
}

// KindName is the setting kind of limits that last while a descriptor is open. dmaLatency is its
// only setting: the maximum wake-up latency of an idle state, in microseconds
// (Documentation/power/pm_qos_interface.rst).
const (
	KindName   = "pmqos"
	dmaLatency = "cpu_dma_latency"
)

const dmaLatencyFile = "/dev/cpu_dma_latency"

// noLimit is the kernel's value for no limit: 2000 s (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const noLimit = 2000000000

// NewPMQoS returns the kind of latency limits. The kind owns the descriptor, so a process should
// create one kind and keep it. The limit ends with the process.
func NewPMQoS(h *host.Host) setting.Kind { return &pmqos{host: h} }

type pmqos struct {
	host *host.Host

	mu   sync.Mutex
	held host.Handle
}

func (k *pmqos) Resolve(s setting.Setting) (setting.Setting, error) {
	if s.Name != dmaLatency {
		return setting.Setting{}, fmt.Errorf("%s: want %s:%s", s, KindName, dmaLatency)
	}
	return s, nil
}

// Read returns the limit in force in microseconds: the lowest of all requested ones.
func (k *pmqos) Read(context.Context, setting.Setting) (setting.Value, error) {
	b, err := k.host.Files.ReadFile(dmaLatencyFile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return setting.Absent, nil
		}
		return setting.Value{}, err
	}
	if len(b) != 4 {
		return setting.Value{}, fmt.Errorf("%s: has %d bytes, want a 4-byte number", dmaLatencyFile, len(b))
	}
	return setting.Text(strconv.FormatInt(int64(int32(binary.NativeEndian.Uint32(b))), 10)), nil
}

// Write requests a limit and holds it. Absent, or no limit, releases it.
func (k *pmqos) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.Absent || v.Text == strconv.Itoa(noLimit) {
		return k.release()
	}
	n, err := strconv.ParseInt(v.Text, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%s: %q is not a number of microseconds", s, v.Text)
	}
	data := binary.NativeEndian.AppendUint32(nil, uint32(n))
	if k.held != nil {
		return k.held.Store(data)
	}
	held, err := k.host.Files.Hold(dmaLatencyFile, data)
	if err != nil {
		return err
	}
	k.held = held
	return nil
}

func (k *pmqos) release() error {
	if k.held == nil {
		return nil
	}
	err := k.held.Close()
	k.held = nil
	return err
}

func (*pmqos) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (*pmqos) Coupled(setting.Setting) []setting.Setting { return nil }
func (*pmqos) Lifetime() setting.Lifetime                { return setting.Held }
