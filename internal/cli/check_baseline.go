package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// maxBaseline bounds an earlier audit, in bytes.
const maxBaseline = 64 << 20

// readBaseline reads the file of --baseline.
func readBaseline(name string) (*report.Audit, error) {
	text, err := readRegular(name, maxBaseline)
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--baseline: %w", err))
	}
	old, err := report.ReadBaseline(name, text)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %w", err), "fettle check --output json > FILE makes one")
	}
	return old, nil
}

// readRegular reads a file that a person named, of so many bytes at most.
func readRegular(name string, most int64) ([]byte, error) {
	f, err := host.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return text, err
}

// against compares an audit with an earlier one. One of another machine is refused:
// what differs would be the machines, and a gate would let through what is wrong on
// both.
func (a *app) against(audit *report.Audit, file string, old *report.Audit) error {
	switch {
	case old.Hostname == "" || audit.Hostname == "":
		a.screen.Say("whether %s is of this machine is not known: there is no host name in one of them", file)
	case !sameHost(old.Hostname, audit.Hostname):
		return ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %s is of another machine: %s, and this is %s", file, old.Hostname, audit.Hostname),
			"a machine is compared with itself; fettle check --on ssh:A,ssh:B says where machines differ")
	}
	missing := slices.DeleteFunc(slices.Clone(audit.Platforms), func(p string) bool { return slices.Contains(old.Platforms, p) })
	switch {
	case len(missing) == len(audit.Platforms):
		return ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %s has asked about %s, and this audit is of %s: nothing can be compared", file, strings.Join(old.Platforms, ", "), strings.Join(audit.Platforms, ", ")),
			"name the same platforms, or make a new baseline")
	case len(missing) > 0:
		a.screen.Say("%s has not asked about %s: what is wrong there counts as new", file, strings.Join(missing, ", "))
	}
	audit.Against(file, old)
	return nil
}

// sameHost is true for two names of one host, of which one may lack the domain.
func sameHost(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// hostname is the machine's own name; "" where nobody knows it.
func hostname(h *host.Host) string {
	for _, file := range []string{"/proc/sys/kernel/hostname", "/etc/hostname"} {
		text, err := h.Files.ReadFile(file)
		if err != nil {
			continue
		}
		// "(none)" is the kernel's until somebody names the machine.
		if name := strings.TrimSpace(string(text)); name != "" && name != "(none)" && len(name) <= 255 && !strings.ContainsAny(name, " \t\n") {
			return name
		}
	}
	return ""
}
