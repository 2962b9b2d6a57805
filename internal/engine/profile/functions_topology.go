package profile

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

const (
	cpuDir    = "/sys/devices/system/cpu"
	uncoreDir = cpuDir + "/intel_uncore_frequency"
)

// calc_isolated_cores[:N] returns all CPUs except the first N of each socket (default 1), which
// remain for housekeeping. An offline CPU has no topology directory and belongs to no socket.
func calcIsolatedCores(_ context.Context, env *Env, args []string) (string, bool, error) {
	reserve := 1
	if len(args) > 0 {
		n, ok := parseInt(args[0])
		if !ok || !decimalDigits(args[0]) {
			env.Warn("calc_isolated_cores: %q is not a number of CPUs", args[0])
			return "", false, nil
		}
		if reserve = unit.MaxCPUs; n.IsInt64() && n.Int64() < unit.MaxCPUs {
			reserve = int(n.Int64())
		}
	}
	names, err := env.cpuNames()
	if err != nil {
		return "", false, err
	}
	sockets := map[string][]int{}
	for _, name := range names {
		number := strings.TrimPrefix(name, "cpu")
		socket := strip(env.optionalFile(cpuDir + "/" + name + "/topology/physical_package_id"))
		if c, err := strconv.Atoi(number); err == nil && decimalDigits(number) && c < unit.MaxCPUs && decimalDigits(socket) {
			sockets[socket] = append(sockets[socket], c)
		}
	}
	var isolated unit.CPUSet
	for _, cpus := range sockets {
		slices.Sort(cpus)
		isolated = isolated.Union(unit.CPUs(cpus[min(reserve, len(cpus)):]...))
	}
	return isolated.String(), true, nil
}

// package2cpus:PACKAGE... returns the CPUs of packages as device names, as "cpu0,cpu1". Each
// package is a number or a glob.
func package2cpus(_ context.Context, env *Env, args []string) (string, bool, error) {
	names, err := env.cpuNames()
	if err != nil {
		return "", false, err
	}
	var devices []string
	for _, name := range names {
		if id := env.optionalFile(cpuDir + "/" + name + "/topology/physical_package_id"); id != "" {
			devices = append(devices, env.inPackages(name, id, args)...)
		}
	}
	return strings.Join(devices, ","), len(devices) > 0, nil
}

// package2uncores:PACKAGE... returns the uncore devices of packages. With the TPMI driver they are
// called uncoreNN and have a file package_id. Otherwise the name contains the package:
// package_NN_die_MM (Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst).
func package2uncores(_ context.Context, env *Env, args []string) (string, bool, error) {
	names, err := env.list(uncoreDir)
	if err != nil {
		return "", false, err
	}
	tpmi := slices.ContainsFunc(names, isTPMI)
	var devices []string
	for _, name := range names {
		switch {
		case tpmi && isTPMI(name):
			if id := env.optionalFile(uncoreDir + "/" + name + "/package_id"); id != "" {
				devices = append(devices, env.inPackages(name, id, args)...)
			}
		case !tpmi:
			devices = append(devices, env.inPackages(name, name[min(8, len(name)):min(10, len(name))], args)...)
		}
	}
	return strings.Join(devices, ","), len(devices) > 0, nil
}

func isTPMI(name string) bool { return strings.HasPrefix(name, "uncore") }

// inPackages returns the device once per matching package pattern.
func (env *Env) inPackages(device, id string, packages []string) []string {
	id = strip(id)
	number, ok := parseInt(id)
	if !ok {
		env.Warn("%s: package %q is not a number", device, id)
		return nil
	}
	var found []string
	for _, p := range packages {
		if want, isNumber := parseInt(p); isNumber && want.Cmp(number) == 0 || !isNumber && Fnmatch(p, id) {
			found = append(found, device)
		}
	}
	return found
}

// intel_recommended_pstate returns the mode for intel_pstate: "active" since Ice Lake; "disable"
// for earlier processors, and for other vendors' (the PMU has no name).
func intelRecommendedPstate(_ context.Context, env *Env, _ []string) (string, bool, error) {
	if _, err := env.list(cpuDir); err != nil {
		return "", false, err
	}
	switch strip(env.optionalFile(cpuDir + "/caps/pmu_name")) {
	case "", "sandybridge", "ivybridge", "haswell", "broadwell", "skylake":
		return "disable", true, nil
	}
	return "active", true, nil
}

// cpuNames returns cpu0, cpu1, ... in numerical order.
func (env *Env) cpuNames() ([]string, error) {
	names, err := env.list(cpuDir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		number, ok := strings.CutPrefix(name, "cpu")
		return !ok || number == "" || number[0] < '0' || number[0] > '9'
	})
	slices.SortFunc(names, func(a, b string) int { // shorter is smaller: numbers have no leading zeros
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return names, nil
}

// list returns the sorted names in a directory, or none if the machine lacks it. If a copied
// machine lacks sysfs's CPUs, the error satisfies host.Unknown.
func (env *Env) list(dir string) ([]string, error) {
	entries, err := env.Host.Files.ReadDir(dir)
	if host.Unknown(err) {
		return nil, err
	}
	if err != nil && !env.Host.Live {
		if _, err := env.Host.Files.Stat(cpuDir); err != nil {
			return nil, host.NotRecorded(dir)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		env.Warn("%v", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// optionalFile returns the content of a file, or "" if it cannot be read.
func (env *Env) optionalFile(path string) string {
	b, err := env.Host.Files.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
