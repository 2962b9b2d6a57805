// Package packaging embeds the files that a package of fettle installs in addition to the
// program: systemd units, the D-Bus policy, polkit actions, and the configuration for sos
// (/etc/sos/extras.d/fettle). Commands that install units use it.
package packaging

import (
	"embed"
	"fmt"
	"strings"
)

// FS contains systemd/, dbus/, polkit/ and sos/.
//
//go:embed systemd/*.service systemd/*.timer dbus/*.conf polkit/*.policy sos/fettle
var FS embed.FS

// PolicyName is the name, without extension, of the D-Bus policy and of the polkit actions in
// packages. TuneD's package, which can be installed too, has com.redhat.tuned.
const PolicyName = "dev.fettle.tuned"

// Program is the path of the program in packages and units.
const Program = "/usr/bin/fettle"

// Units lists the systemd units that fettle tune --persist installs, the early one first. The units of
// the metrics are only in packages, and not enabled.
var Units = []string{"fettle-recover.service", "fettle.service"}

// Unit returns the text of a unit, with another path of the program. With an alias, enabling
// the unit also creates a link of that name. Cockpit looks for tuned.service, so that is the
// alias without TuneD's own package.
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
