package device

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const advertise = "advertise"

// slow is the speed of an idle link, in Mbit/s.
const slow = 100

// netLadder has TuneD's thresholds. An interval is idle if both directions have less than a
// twentieth of the busiest interval's bytes. After six such intervals the device lowers its speed.
var netLadder = plugin.Ladder{Top: 1, Patience: 6, Rest: 0.05}

// beginNet returns the standing at the start, with TuneD's expected load for a link of this many
// Mbit/s: six tenths of the speed in bytes per second. TuneD compares that with the bytes of ten
// seconds.
func beginNet(megabits int) plugin.Standing {
	most := float64(int(0.6 * 1024 * 1024 * float64(megabits) / 8))
	return plugin.Standing{Most: [2]float64{most, most}}
}

// netDynamic makes the speed of each device of a unit follow its load. It skips devices with a
// fixed speed and those without a slow speed.
func netDynamic(ctx context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	var loops []plugin.Loop
	var items []plugin.Item
	on, given := r.Dynamic()
	if !on {
		return nil, nil, nil
	}
	for _, device := range r.Devices {
		s := netSetting(device, host.NetLinkModes, advertise)
		fastest, some, why := speeds(r, device, s)
		if why != "" {
			if o, _ := r.Option("dynamic"); given {
				items = append(items, plugin.Lacks(r.Host, s, o, "%s", why)...)
			}
			continue
		}
		loops = append(loops, netLoop(r, device, s, fastest, some))
	}
	return loops, items, nil
}

// speeds returns a device's fastest speed in Mbit/s and the slow link modes that it offers without
// the selection. If the speed cannot follow the load, it returns the reason.
func speeds(r *plugin.Request, device string, s setting.Setting) (fastest int, some string, why string) {
	params, err := r.Host.Net.Params(device, host.NetLinkModes)
	if err != nil {
		return 0, "", fmt.Sprintf("cannot determine the speeds of %s: %v", device, err)
	}
	modes, _ := host.FindParam(params, advertise)
	if modes.Fixed {
		return 0, "", fmt.Sprintf("the speed of %s is fixed: it does not negotiate", device)
	}
	before, err := r.Original(s)
	if err != nil {
		return 0, "", err.Error()
	}
	for _, m := range strings.Fields(modes.Max) {
		fastest = max(fastest, megabits(m))
	}
	var few, all []string
	for _, m := range strings.Fields(before.Text) {
		if all = append(all, m); megabits(m) <= slow {
			few = append(few, m)
		}
	}
	if len(few) == 0 || len(few) == len(all) {
		return 0, "", fmt.Sprintf("%s does not offer link speeds both above %d Mb/s and at or below it, as dynamic tuning requires", device, slow)
	}
	return fastest, strings.Join(few, " "), ""
}

func megabits(mode string) int {
	n, err := strconv.Atoi(mode[:len(mode)-len(strings.TrimLeft(mode, "0123456789"))])
	if err != nil {
		return 0
	}
	return n
}

func netLoop(r *plugin.Request, device string, s setting.Setting, fastest int, some string) plugin.Loop {
	standing, counters, low := beginNet(fastest), plugin.Counters{}, setting.Text(some)
	return plugin.Loop{
		Device: device,
		Places: []plugin.Varying{{
			Setting: s, Values: []setting.Value{low}, Reason: plugin.UnitReason(r.Unit, "the speed of "+device+" follows its load"),
		}},
		Next: func(_ context.Context, elapsed time.Duration) ([]plugin.Wish, error) {
			now, err := traffic(r.Host, device)
			if err != nil {
				return nil, err
			}
			if load, ok := counters.Load(now, elapsed); ok {
				standing = netLadder.Next(standing, load)
			}
			if standing.Level == 0 {
				return []plugin.Wish{{Setting: s, Back: true}}, nil
			}
			return []plugin.Wish{{Setting: s, Want: low}}, nil
		},
	}
}

// traffic returns the numbers of received and sent bytes of a device
// (Documentation/ABI/testing/sysfs-class-net-statistics).
func traffic(h *host.Host, device string) (n [2]uint64, err error) {
	for i, name := range []string{"rx_bytes", "tx_bytes"} {
		file := path.Join(netSysDir(device), "statistics", name)
		b, err := h.Files.ReadFile(file)
		if err != nil {
			return n, err
		}
		if n[i], err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err != nil {
			return n, fmt.Errorf("%s: %q is not a count", file, b)
		}
	}
	return n, nil
}
