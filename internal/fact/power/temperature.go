package power

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

const hwmonDir = "/sys/class/hwmon"

// cpuSensors are the drivers of sensors in processors (Documentation/hwmon).
var cpuSensors = []string{"coretemp", "k10temp", "k8temp", "zenpower", "cpu_thermal", "scpi_sensors"}

// unknownPackage is the key of sensors that belong to no known package.
const unknownPackage = -1

// readTemperatures reads the sensors of the processors.
func (r *reading) readTemperatures(h *host.Host, cpus []topology) {
	r.celsius = map[int]float64{}
	list, err := h.Files.ReadDir(hwmonDir)
	if err != nil {
		if r.why[temperature] = host.Why(hwmonDir, err); r.why[temperature] == "" {
			r.why[temperature] = "no hwmon"
		}
		return
	}
	type sensor struct{ dir, device string }
	var sensors []sensor
	for _, d := range list {
		dir := hwmonDir + "/" + d.Name()
		if slices.Contains(cpuSensors, strings.TrimSpace(h.File(dir+"/name").Text)) {
			target, _ := h.Files.Readlink(dir + "/device")
			sensors = append(sensors, sensor{dir, path.Base(target)})
		}
	}
	// AMD's sensors are PCI devices, as many per package, in the order of the packages. Intel's have
	// the number of the package in their names.
	slices.SortFunc(sensors, func(a, b sensor) int { return strings.Compare(a.device, b.device) })
	packages := packagesOf(cpus)
	known := false
	for i, s := range sensors {
		pkg := unknownPackage
		if n, err := strconv.Atoi(strings.TrimPrefix(s.device, "coretemp.")); err == nil {
			pkg = n
		} else if len(packages) > 0 && len(sensors)%len(packages) == 0 {
			pkg = packages[i*len(packages)/len(sensors)]
		}
		for label, celsius := range readSensor(h, s.dir) {
			known = true
			core, err := strconv.Atoi(strings.TrimPrefix(label, "Core "))
			if err != nil || pkg == unknownPackage {
				if before, ok := r.celsius[pkg]; !ok || before < celsius {
					r.celsius[pkg] = celsius
				}
				continue
			}
			for _, t := range cpus {
				if t.pkg == pkg && t.core == core {
					r.cpu(t.cpu).values[temperature] = celsius
				}
			}
		}
	}
	if !known {
		r.why[temperature] = "no sensor of a processor in hwmon"
	}
}

// readSensor returns the temperatures of a sensor, in degrees Celsius, by label, or by number if
// they have none.
func readSensor(h *host.Host, dir string) map[string]float64 {
	out := map[string]float64{}
	list, _ := h.Files.ReadDir(dir)
	for _, d := range list {
		number, ok := strings.CutSuffix(d.Name(), "_input")
		if !ok || !strings.HasPrefix(number, "temp") {
			continue
		}
		text := strings.TrimSpace(h.File(dir + "/" + d.Name()).Text)
		if milli, err := strconv.ParseFloat(text, 64); err == nil { // ENODATA of a sensor that sleeps
			label := strings.TrimSpace(h.File(dir + "/" + number + "_label").Text)
			if label == "" {
				label = number
			}
			out[label] = milli / 1000
		}
	}
	if _, ok := out["Tdie"]; ok {
		delete(out, "Tctl") // is Tdie with an offset, for the fan
	}
	return out
}
