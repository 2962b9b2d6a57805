package power

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

const hwmonDir = "/sys/class/hwmon"

// temperatures are those of the processors, in degrees Celsius.
type temperatures struct {
	packages map[int]float64
	cores    map[[2]int]float64 // by package and core
	other    []float64          // of an unknown package
}

// cpuSensors are the drivers of sensors in processors (Documentation/hwmon).
var cpuSensors = []string{"coretemp", "k10temp", "k8temp", "zenpower", "cpu_thermal", "scpi_sensors"}

// readTemperatures reads the sensors of the processors. Sensors that belong to no known package
// are in other.
func readTemperatures(h *host.Host, cpus []topology) (t temperatures, err error) {
	t = temperatures{packages: map[int]float64{}, cores: map[[2]int]float64{}}
	list, err := h.Files.ReadDir(hwmonDir)
	if err != nil {
		if why := host.Why(hwmonDir, err); why != "" {
			return t, errors.New(why)
		}
		return t, errors.New("no hwmon")
	}
	var devices []sensor
	for _, d := range list {
		dir := hwmonDir + "/" + d.Name() + "/"
		if name := strings.TrimSpace(h.File(dir + "name").Text); slices.Contains(cpuSensors, name) {
			target, _ := h.Files.Readlink(dir + "device")
			devices = append(devices, sensor{dir, name, path.Base(target)})
		}
	}
	// AMD's sensors are PCI devices, one per package, in the order of the packages.
	slices.SortFunc(devices, func(a, b sensor) int { return strings.Compare(a.device, b.device) })
	packages := packagesOf(cpus)
	for i, s := range devices {
		pkg := -1
		if len(devices) == len(packages) {
			pkg = packages[i]
		}
		s.read(h, pkg, &t)
	}
	if len(t.packages) == 0 && len(t.cores) == 0 && len(t.other) == 0 {
		return t, errors.New("no sensor of a processor in hwmon")
	}
	return t, nil
}

// sensor is a device with temperatures.
type sensor struct{ dir, name, device string }

// read adds the temperatures of a sensor. pkg is its package, unless a label names another one;
// -1 if unknown.
func (s sensor) read(h *host.Host, pkg int, t *temperatures) {
	if digits, ok := strings.CutPrefix(s.device, "coretemp."); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			pkg = n
		}
	}
	list, err := h.Files.ReadDir(path.Clean(s.dir))
	if err != nil {
		return
	}
	for _, d := range list {
		number, ok := strings.CutSuffix(d.Name(), "_input")
		if !ok || !strings.HasPrefix(number, "temp") {
			continue
		}
		milli, err := strconv.ParseFloat(strings.TrimSpace(h.File(s.dir+d.Name()).Text), 64)
		if err != nil {
			continue // ENODATA of a sensor that sleeps
		}
		label := strings.TrimSpace(h.File(s.dir + number + "_label").Text)
		core, isCore := strings.CutPrefix(label, "Core ")
		n, err := strconv.Atoi(core)
		switch c := milli / 1000; {
		case isCore && err == nil && pkg >= 0:
			t.cores[[2]int{pkg, n}] = max(c, t.cores[[2]int{pkg, n}])
		case label == "Tctl" && slices.Contains(s.labels(h), "Tdie"): // for the fan, with an offset
		case pkg >= 0:
			t.packages[pkg] = max(c, t.packages[pkg])
		default:
			t.other = append(t.other, c)
		}
	}
}

// labels returns the names of the sensor's temperatures.
func (s sensor) labels(h *host.Host) (out []string) {
	for i := range 2 { // k10temp: Tctl, then Tdie
		out = append(out, strings.TrimSpace(h.File(s.dir+"temp"+strconv.Itoa(i+1)+"_label").Text))
	}
	return out
}

func packagesOf(cpus []topology) (out []int) {
	for _, t := range cpus {
		if t.pkg >= 0 && !slices.Contains(out, t.pkg) {
			out = append(out, t.pkg)
		}
	}
	slices.Sort(out)
	return out
}
