package profile

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

const (
	cpuOnline  = "/sys/devices/system/cpu/online"
	cpuPresent = "/sys/devices/system/cpu/present"
)

// cpulist_unpack:LIST... returns every CPU of the lists, as "0,1,2".
func cpulistUnpack(_ context.Context, _ *Env, args []string) (string, bool, error) {
	cpus, err := parseTunedCPUs(strings.Join(args, ",,"))
	return joinCPUs("", cpus), err == nil, err
}

// cpulist_pack:LIST... returns the shortest equivalent list, as "0-2".
func cpulistPack(_ context.Context, _ *Env, args []string) (string, bool, error) {
	cpus, err := parseTunedCPUs(strings.Join(args, ",,"))
	return cpus.String(), err == nil, err
}

// cpulist_invert:LIST... returns the online CPUs that are not in the lists.
func cpulistInvert(_ context.Context, env *Env, args []string) (string, bool, error) {
	cpus, err := env.invertOnline(args)
	return joinCPUs("", cpus), err == nil, err
}

// cpulist_online:LIST... returns the online CPUs of the lists. Its arguments are joined by one
// comma, so a mask includes the text after it.
func cpulistOnline(_ context.Context, env *Env, args []string) (string, bool, error) {
	cpus, err := env.intersect(strings.Join(args, ","), cpuOnline)
	return joinCPUs("", cpus), err == nil, err
}

// cpulist_present:LIST... returns the CPUs of the lists that are present.
func cpulistPresent(_ context.Context, env *Env, args []string) (string, bool, error) {
	cpus, err := env.intersect(strings.Join(args, ",,"), cpuPresent)
	return joinCPUs("", cpus), err == nil, err
}

// cpulist2devs:LIST... returns device names, as "cpu0,cpu1". Its arguments are joined by one
// comma, as in cpulist_online.
func cpulist2devs(_ context.Context, _ *Env, args []string) (string, bool, error) {
	cpus, err := parseTunedCPUs(strings.Join(args, ","))
	return joinCPUs("cpu", cpus), err == nil, err
}

// cpulist2hex:LIST... returns the CPU mask in groups of eight hexadecimal digits.
func cpulist2hex(_ context.Context, _ *Env, args []string) (string, bool, error) {
	cpus, err := parseTunedCPUs(strings.Join(args, ",,"))
	return cpus.Mask(), err == nil, err
}

// cpulist2hex_invert:LIST... returns the mask of the online CPUs that are not in the lists.
func cpulist2hexInvert(_ context.Context, env *Env, args []string) (string, bool, error) {
	cpus, err := env.invertOnline(args)
	return cpus.Mask(), err == nil, err
}

// hex2cpulist:MASK returns every CPU of a mask, which may begin with "0x".
func hex2cpulist(_ context.Context, env *Env, args []string) (string, bool, error) {
	mask, ok := parseHexInt(strings.ReplaceAll(args[0], ",", ""))
	if !ok {
		env.Warn("hex2cpulist: %q is not a hexadecimal mask", args[0])
		return "", true, nil
	}
	cpus, err := maskCPUs(mask)
	return joinCPUs("", cpus), err == nil, err
}

// check_net_queue_count:N returns N if it is a number, else the number of CPUs that programs may
// use, as nproc does. It uses init's affinity, which a daemon inherits (systemd's CPUAffinity=,
// isolcpus=). The caller's affinity may differ, as in a shell under taskset.
func checkNetQueueCount(_ context.Context, env *Env, args []string) (string, bool, error) {
	if decimalDigits(args[0]) {
		return args[0], true, nil
	}
	cpus, err := env.cpuFile(cpuOnline)
	if err != nil {
		return "", false, err
	}
	if status, err := env.Host.Files.ReadFile("/proc/1/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				if allowed, err := unit.ParseCPUList(list); err == nil && !allowed.Intersect(cpus).IsEmpty() {
					cpus = cpus.Intersect(allowed)
				}
			}
		}
	}
	env.Warn("check_net_queue_count: %q is not a number of queues; using %d, the number of housekeeping CPUs", args[0], cpus.Len())
	return strconv.Itoa(cpus.Len()) + "\n", true, nil
}

func (env *Env) invertOnline(args []string) (unit.CPUSet, error) {
	cpus, err := parseTunedCPUs(strings.Join(args, ",,"))
	if err != nil {
		return unit.CPUSet{}, err
	}
	online, err := env.cpuFile(cpuOnline)
	return cpus.Invert(online), err
}

func (env *Env) intersect(list, file string) (unit.CPUSet, error) {
	cpus, err := parseTunedCPUs(list)
	if err != nil {
		return unit.CPUSet{}, err
	}
	other, err := env.cpuFile(file)
	return cpus.Intersect(other), err
}

// cpuFile reads a file of the kernel that contains a CPU list.
func (env *Env) cpuFile(path string) (unit.CPUSet, error) {
	text, err := env.kernelFile(path)
	if err != nil {
		return unit.CPUSet{}, err
	}
	cpus, err := unit.ParseCPUList(text)
	if err != nil {
		return unit.CPUSet{}, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}

func joinCPUs(prefix string, cpus unit.CPUSet) string {
	var b strings.Builder
	for i, c := range cpus.Numbers() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(prefix)
		b.WriteString(strconv.Itoa(c))
	}
	return b.String()
}

// parseTunedCPUs parses TuneD's list grammar, which differs from the kernel's. Quotes around the
// whole are dropped. Elements are separated by commas: numbers, ranges (a third part of "1-2-3" is
// ignored, a backward range is empty), and masks that begin with 0x. A mask extends over commas to
// the next empty element, hence the ",," between lists. Elements that begin with ^ or ! are
// subtracted at the end. Any other invalid element, except a wrong mask, makes the whole list
// empty.
//
// A CPU number beyond the kernel's maximum is an error.
func parseTunedCPUs(s string) (unit.CPUSet, error) {
	var none unit.CPUSet
	var masks []string
	var mask strings.Builder
	var ranges, without [][2]int
	inMask := false
	endMask := func() {
		if inMask {
			masks = append(masks, mask.String())
			mask.Reset()
			inMask = false
		}
	}
	for _, elem := range strings.Split(strings.Trim(s, `'"`), ",") {
		switch {
		case inMask && elem == "":
			endMask()
		case inMask:
			mask.WriteString(elem)
		case len(elem) > 1 && strings.EqualFold(elem[:2], "0x"):
			inMask = true
			mask.WriteString(elem)
		case elem == "":
		case elem[0] == '^' || elem[0] == '!':
			r, ok := tunedRange(elem[1:])
			if !ok {
				return none, nil
			}
			without = append(without, r)
		default:
			r, ok := tunedRange(elem)
			if !ok {
				return none, nil
			}
			ranges = append(ranges, r)
		}
	}
	endMask()

	var cpus, out unit.CPUSet
	for _, r := range ranges {
		if r[0] <= r[1] && r[1] >= unit.MaxCPUs {
			return none, fmt.Errorf("CPU list %q: no kernel has more than %d CPUs", s, unit.MaxCPUs)
		}
		cpus.AddRange(r[0], r[1])
	}
	for _, text := range masks {
		if m, ok := parseHexInt(text); ok {
			set, err := maskCPUs(m)
			if err != nil {
				return none, err
			}
			cpus = cpus.Union(set)
		}
	}
	for _, r := range without {
		out.AddRange(r[0], min(r[1], unit.MaxCPUs-1))
	}
	return cpus.Minus(out), nil
}

// tunedRange parses a number or a range and caps both ends at unit.MaxCPUs. ok is false if the
// element is neither.
func tunedRange(elem string) (r [2]int, ok bool) {
	parts := strings.Split(elem, "-")
	for i := range r {
		n, ok := parseInt(parts[min(i, len(parts)-1)])
		if !ok {
			return r, false
		}
		// The split removed any sign, so n is not negative.
		r[i] = unit.MaxCPUs
		if n.IsInt64() && n.Int64() < unit.MaxCPUs {
			r[i] = int(n.Int64())
		}
	}
	return r, true
}

// maskCPUs returns the CPUs of a mask. A negative mask has none, as in TuneD.
func maskCPUs(mask *big.Int) (unit.CPUSet, error) {
	if mask.Sign() <= 0 {
		return unit.CPUSet{}, nil
	}
	if mask.BitLen() > unit.MaxCPUs {
		return unit.CPUSet{}, fmt.Errorf("CPU mask: no kernel has more than %d CPUs", unit.MaxCPUs)
	}
	return unit.ParseCPUMask(mask.Text(16))
}

// ParseCPUs parses a CPU list in TuneD's grammar ("1-3,^2", "0xff"). Like TuneD it returns the
// empty set for an invalid list. It returns an error only for a CPU number that is too large.
func ParseCPUs(s string) (unit.CPUSet, error) { return parseTunedCPUs(s) }
