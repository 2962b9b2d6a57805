package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Hostname returns the machine's own name, or "".
func (h *Host) Hostname() string {
	for _, file := range []string{"/proc/sys/kernel/hostname", "/etc/hostname"} {
		text, err := h.Files.ReadFile(file)
		if err != nil {
			continue
		}
		// The kernel returns "(none)" until a name is set.
		if name := strings.TrimSpace(string(text)); name != "" && name != "(none)" && len(name) <= 255 && !strings.ContainsAny(name, " \t\n") {
			return name
		}
	}
	return ""
}

// FQDN returns the machine's name with its domain, in lower case: the host name, or if that has no
// domain, the canonical name of its line in /etc/hosts, which is what hostname --fqdn prints. No
// name server is asked.
func (h *Host) FQDN() (string, error) {
	name := strings.ToLower(h.Hostname())
	switch short, domain, _ := strings.Cut(name, "."); {
	case name == "":
		return "", errors.New("the host name is unknown")
	case short == "localhost":
		return "", fmt.Errorf("the host name is %s", name)
	case domain != "":
		return name, nil
	}
	text, _ := h.Files.ReadFile("/etc/hosts")
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(strings.ToLower(line))
		if len(words) > 2 && slices.Contains(words[2:], name) && strings.HasPrefix(words[1], name+".") {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("the host name %q has no domain", name)
}
