package profile

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// UndecidedError is returned if it is unknown whether a unit applies: the input of its condition
// cannot be read, or is known only when the profile is applied.
type UndecidedError struct {
	Unit *Unit
	Err  error
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("unknown whether [%s] applies: %v", e.Unit.Name, e.Err)
}

func (e *UndecidedError) Unwrap() error { return e.Err }

// Skipped reports whether a unit does not apply to this machine, and why, in a sentence: it is
// disabled, or its uname_regex or cpuinfo_regex does not match. The error is an UndecidedError if
// the result is unknown.
//
// It tests uname_regex first. /proc/cpuinfo has more than a kilobyte per CPU, so matching it takes
// milliseconds on a large machine, and most sections with cpuinfo_regex are for another
// architecture.
func (c *MainConfig) Skipped(u *Unit, h *host.Host) (skip bool, why string, err error) {
	if !u.Enabled {
		return true, fmt.Sprintf("[%s] is disabled (%s)", u.Name, u.At("enabled")), nil
	}
	if len(u.Deferred) > 0 && (u.CPUInfoRegex != "" || u.UnameRegex != "") {
		return false, "", &UndecidedError{u, errAt(u.Pos, "%w", host.NotRecorded(u.Deferred[0].Reason))}
	}
	var open error // error of the first undecided condition; a later condition may still not match
	for _, test := range []struct {
		attribute, regex, what string
		override               *string
		read                   func(*host.Host) (string, error)
	}{
		{"uname_regex", u.UnameRegex, "uname", c.UnameString, uname},
		{"cpuinfo_regex", u.CPUInfoRegex, "/proc/cpuinfo", c.CPUInfoString, readCPUInfo},
	} {
		if test.regex == "" {
			continue
		}
		re, err := CompileRegexp(test.regex, Multiline)
		if err != nil {
			open = cmp.Or(open, errAt(u.At(test.attribute), "%s: %w", test.attribute, err))
			continue
		}
		var text string
		if test.override != nil {
			text = *test.override
			test.what = strings.TrimSuffix(test.attribute, "regex") + "string of tuned-main.conf"
		} else if text, err = test.read(h); err != nil {
			open = cmp.Or[error](open, &UndecidedError{u, errAt(u.At(test.attribute), "%s: %w", test.attribute, err)})
			continue
		}
		if !re.MatchString(text) {
			return true, fmt.Sprintf("[%s] is for other machines: %s=%s (%s) finds nothing in %s", u.Name, test.attribute, test.regex, u.At(test.attribute), test.what), nil
		}
	}
	return false, "", open
}

func readCPUInfo(h *host.Host) (string, error) {
	b, err := h.Files.ReadFile("/proc/cpuinfo")
	return string(b), err
}

// uname returns the five fields of uname(2) in one line, from /proc/sys/kernel: system, host name,
// release, version and machine.
func uname(h *host.Host) (string, error) {
	var fields []string
	for _, name := range []string{"ostype", "hostname", "osrelease", "version"} {
		b, err := h.Files.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			return "", err
		}
		fields = append(fields, strip(string(b)))
	}
	machine, err := machineName(h)
	if err != nil {
		return "", err
	}
	return strings.Join(append(fields, machine), " "), nil
}

// machineName returns uname's machine field: /proc/sys/kernel/arch (Linux 6.1) or, on a live host,
// this program's architecture.
func machineName(h *host.Host) (string, error) {
	b, err := h.Files.ReadFile("/proc/sys/kernel/arch")
	switch {
	case err == nil:
		return strip(string(b)), nil
	case !host.NotFound(err):
		return "", err
	}
	names := map[string]string{
		"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le", "s390x": "s390x",
		"riscv64": "riscv64", "loong64": "loongarch64", "386": "i686", "arm": "armv7l",
	}
	if name := names[runtime.GOARCH]; name != "" && h.Live {
		return name, nil
	}
	return "", host.NotRecorded("the machine's architecture")
}
