package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// power is one level of saving.
type power struct{ apm, spindown int }

// powers are TuneD's levels: level 0 is a disk at work. The timer is in the steps
// of hdparm -S; between 241 and 255 these are not in order, as in TuneD.
var powers = []power{
	{254, 0}, {225, 250}, {195, 230}, {165, 210}, {145, 190}, {125, 170},
	{105, 150}, {85, 130}, {70, 110}, {55, 90}, {30, 70}, {20, 60},
}

// diskLadder is TuneD's: a disk rests in an interval that has less than a hundredth
// of the requests of its busiest one, both ways, and saves more after six.
var diskLadder = plugin.Ladder{Top: len(powers) - 1, Patience: 6, Rest: 0.01}

// decision is what a disk is to hold, and where it stands.
type decision struct {
	plugin.Standing
	// apm and spindown are the levels that the disk has been told; -1 where it
	// has been told none.
	apm, spindown int
}

func beginDisk() decision {
	return decision{Standing: plugin.Standing{Most: [2]float64{1, 1}}, apm: -1, spindown: -1}
}

// next decides after an interval with a load. A disk that sleeps already gets its
// timer when it has woken up: setting it would start the timer anew. spinning is
// asked only where that matters.
func (d decision) next(load [2]float64, spinning func() bool) decision {
	was := d.Level
	d.Standing = diskLadder.Next(d.Standing, load)
	if d.Level != was {
		d.apm = d.Level
	}
	if d.apm >= 0 && d.spindown != d.Level && (d.Level < was || spinning()) {
		d.spindown = d.Level
	}
	return d
}

func (d decision) wishes(device string) []plugin.Wish {
	var out []plugin.Wish
	if d.spindown >= 0 {
		out = append(out, plugin.Wish{Setting: DiskSetting(device, spindown), Want: number(powers[d.spindown].spindown)})
	}
	if d.apm >= 0 {
		out = append(out, plugin.Wish{Setting: DiskSetting(device, apm), Want: number(powers[d.apm].apm)})
	}
	return out
}

func number(n int) setting.Value { return setting.Text(strconv.Itoa(n)) }

// diskDynamic lets the power management of each ATA disk of a unit follow its load.
func diskDynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	var loops []plugin.Loop
	var items []plugin.Item
	on, given := r.Dynamic()
	if !on {
		return nil, nil, nil
	}
	for _, device := range r.Devices {
		s := DiskSetting(device, apm)
		o, _ := r.Option("dynamic")
		if !isATA(r.Host, device) {
			if given {
				items = append(items, plugin.Lacks(r.Host, s, o, "%s is no ATA disk, so nothing of it follows the load", device)...)
			}
			continue
		}
		if _, err := r.Host.Exec.LookPath("hdparm"); errors.Is(err, fs.ErrNotExist) {
			if given {
				items = append(items, plugin.Lacks(r.Host, s, o, "the program hdparm, which talks to ATA disks, is not installed")...)
			}
			continue
		}
		loops = append(loops, diskLoop(r, device))
	}
	return loops, items, nil
}

func diskLoop(r *plugin.Request, device string) plugin.Loop {
	levels, timers := make([]setting.Value, len(powers)), make([]setting.Value, len(powers))
	for i, p := range powers {
		levels[i], timers[i] = number(p.apm), number(p.spindown)
	}
	reason := plugin.UnitReason(r.Unit, "the power management of "+device+" follows its load")
	d, counters := beginDisk(), plugin.Counters{}
	return plugin.Loop{
		Device: device,
		Places: []plugin.Varying{
			{Setting: DiskSetting(device, spindown), Values: timers, Reason: reason},
			{Setting: DiskSetting(device, apm), Values: levels, Reason: reason},
		},
		Next: func(ctx context.Context, elapsed time.Duration) ([]plugin.Wish, error) {
			now, err := requests(r.Host, device)
			if err != nil {
				return nil, err
			}
			if load, ok := counters.Load(now, elapsed); ok {
				d = d.next(load, func() bool { return isSpinning(ctx, r.Host, device) })
			}
			return d.wishes(device), nil
		},
	}
}

// requests are the reads and the writes that a disk has completed
// (Documentation/block/stat.rst, the first and the fifth field).
func requests(h *host.Host, device string) (n [2]uint64, err error) {
	path := diskSysDir(device) + "/stat"
	b, err := h.Files.ReadFile(path)
	if err != nil {
		return n, err
	}
	f := strings.Fields(string(b))
	for i, field := range []int{0, 4} {
		if field >= len(f) {
			return n, fmt.Errorf("%s: %d fields, want 11 or more", path, len(f))
		}
		if n[i], err = strconv.ParseUint(f[field], 10, 64); err != nil {
			return n, fmt.Errorf("%s: %q is no count", path, f[field])
		}
	}
	return n, nil
}

// isSpinning asks a disk without waking it (ATA CHECK POWER MODE, hdparm -C).
func isSpinning(ctx context.Context, h *host.Host, device string) bool {
	out, err := hdparm{h}.run(ctx, "-C", "/dev/"+device)
	return err != nil || !strings.Contains(out, "standby") && !strings.Contains(out, "sleeping")
}
