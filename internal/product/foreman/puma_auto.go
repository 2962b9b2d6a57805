package foreman

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
	numbers "fettle.dev/fettle/internal/unit"
)

// eachCPU returns one worker for each CPU on which the process may run, for WEB_CONCURRENCY=auto
// since puma 6.5 (lib/puma/configuration.rb). An older Puma does not start with auto, even if its
// file sets the number of workers (tested with 5.6.5).
func (in *pumaInstance) eachCPU(t told) told {
	limited := false
	for _, key := range []string{"CPUAffinity", "AllowedCPUs"} {
		if in.unit != nil && !limited {
			_, limited = in.unit.Last("Service", key)
		}
	}
	var version told
	if in.version != nil {
		version = in.version()
	}
	switch {
	case before65(version.text):
		t.unknown = fmt.Sprintf("WEB_CONCURRENCY=auto needs Puma 6.5; Puma %s (%s) does not start", version.text, version.at)
	case limited:
		t.unknown = "auto: one worker per CPU, but the unit limits the CPUs"
	case in.cpus == 0:
		t.unknown = "auto: one worker per CPU, but this copy does not contain the number of CPUs"
	default:
		t.text = strconv.Itoa(in.cpus)
		t.at += fmt.Sprintf(" (auto: the machine has %d CPUs)", in.cpus)
	}
	return t
}

// before65 reports whether a version is older than 6.5.
func before65(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	major, err := strconv.Atoi(parts[0])
	minor := 0
	if err == nil && len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	return err == nil && (major < 6 || major == 6 && minor < 5)
}

var lockedPuma = text.LazyRegexp(`(?m)^    puma \(([0-9][0-9.]*)[^)]*\)$`)

// versionOf returns the Puma version of the application in a directory: from its Gemfile.lock, or
// else from the package if the command belongs to one.
func versionOf(h *host.Host, dir, command string) told {
	lock := path.Join(dir, "Gemfile.lock")
	text, err := h.Files.ReadFile(lock)
	switch m := lockedPuma().FindSubmatch(text); {
	case err == nil && m != nil:
		return told{text: string(m[1]), at: lock}
	case err == nil || !packaged(command):
		return told{}
	}
	v, at := product.Version(h, "puma", "rubygem-puma")
	return told{text: v, at: at}
}

// onlineCPUs returns the machine's number of online CPUs, or 0 if unknown.
func onlineCPUs(h *host.Host) int {
	text, err := h.Files.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 0
	}
	cpus, err := numbers.ParseCPUList(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return cpus.Len()
}
