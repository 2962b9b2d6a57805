package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// KindName is the kind of limits that hold while a descriptor is open, and
// DMALatency its one place: the longest wake-up latency of an idle state, in
// microseconds (Documentation/power/pm_qos_interface.rst).
const (
	KindName   = "pmqos"
	DMALatency = "cpu_dma_latency"
)

const dmaLatencyFile = "/dev/cpu_dma_latency"

// NoLimit is what the kernel answers while nobody asks for a limit: 2000 s
// (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const NoLimit = 2000000000

// NewPMQoS is the kind of limits on latency. The descriptor belongs to the
// value returned, so a process makes one and keeps it; the limit ends with the
// process.
func NewPMQoS(h *host.Host) setting.Kind { return &pmqos{host: h} }

type pmqos struct {
	host *host.Host

	mu   sync.Mutex
	held host.Handle
	// before is the limit that was in force when ours was first asked for:
	// writing it gives ours up.
	before string
}

func (k *pmqos) Resolve(s setting.Setting) (setting.Setting, error) {
	if s.Name != DMALatency {
		return setting.Setting{}, fmt.Errorf("%s: want %s:%s", s, KindName, DMALatency)
	}
	return s, nil
}

// Read returns the limit in force, which is the least of all that are asked
// for, in microseconds.
func (k *pmqos) Read(context.Context, setting.Setting) (setting.Value, error) {
	b, err := k.host.Files.ReadFile(dmaLatencyFile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return setting.Absent, nil
		}
		return setting.Value{}, err
	}
	if len(b) != 4 {
		return setting.Value{}, fmt.Errorf("%s: %d bytes, want a number of 4 bytes", dmaLatencyFile, len(b))
	}
	return setting.Text(strconv.FormatInt(int64(int32(binary.NativeEndian.Uint32(b))), 10)), nil
}

// Write asks for a limit and holds it. Absent, no limit, or the limit that was
// in force before ours gives ours up.
func (k *pmqos) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.Absent || v.Text == strconv.Itoa(NoLimit) || k.held != nil && v.Text == k.before {
		return k.release()
	}
	n, err := strconv.ParseInt(v.Text, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%s: %q is no number of microseconds", s, v.Text)
	}
	data := binary.NativeEndian.AppendUint32(nil, uint32(n))
	if k.held != nil {
		return k.held.Store(data)
	}
	before, err := k.Read(ctx, s)
	if err != nil {
		return err
	}
	held, err := k.host.Files.Hold(dmaLatencyFile, data)
	if err != nil {
		return err
	}
	k.held, k.before = held, before.Text
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
