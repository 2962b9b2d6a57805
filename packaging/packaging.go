// Package packaging embeds the files that a package of fettle installs in
// addition to the program: systemd units, the D-Bus policy, polkit actions, and
// the configuration for sos (/etc/sos/extras.d/fettle). Commands that install
// the units use it.
package packaging

import (
	"embed"
	"fmt"
	"strings"
)

// FS holds the files: systemd/, dbus/, polkit/, sos/.
//
//go:embed systemd/*.service dbus/*.conf polkit/*.policy sos/fettle
var FS embed.FS

// Program is the path at which packages install the program, as in the units.
const Program = "/usr/bin/fettle"

// Units are the systemd units, the early one first.
var Units = []string{"fettle-recover.service", "fettle.service"}

// Unit returns the text of a unit with another program path. With an alias,
// enabling the unit also creates a link of that name: tuned.service, which
// Cockpit looks for, if TuneD's own package is absent.
func Unit(name, program, alias string) (string, error) {
	if strings.ContainsAny(program, " \t\n\"'\\%$;") {
		return "", fmt.Errorf("program path %q: it has characters that are special to systemd", program)
	}
	b, err := FS.ReadFile("systemd/" + name)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(string(b), "ExecStart="+Program+" ", "ExecStart="+program+" ")
	if alias != "" {
		text += "Alias=" + alias + "\n"
	}
	return text, nil
}
