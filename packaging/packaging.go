// Package packaging holds the files that a package of fettle installs beside the
// program: units of systemd, the bus's policy, polkit's actions,
// and what sos is to ask of fettle (/etc/sos/extras.d/fettle).
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

// Program is where a package puts the program, as the units name it.
const Program = "/usr/bin/fettle"

// Units are the units of systemd, the early one first.
var Units = []string{"fettle-recover.service", "fettle.service"}

// Unit is the text of a unit that starts another program file than Program.
// With an alias, enabling the unit makes a link of that name: tuned.service,
// which Cockpit looks for, where TuneD's own package is absent.
func Unit(name, program, alias string) (string, error) {
	if strings.ContainsAny(program, " \t\n\"'\\%$;") {
		return "", fmt.Errorf("program path %q: systemd would read these characters otherwise", program)
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
