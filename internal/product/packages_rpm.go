package product

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// rpmDatabases are the directories of rpm's database: since Fedora 36 and in openSUSE, and in RHEL.
// Only rpm itself reads its formats (SQLite, Berkeley DB, its own).
var rpmDatabases = []string{"/usr/lib/sysimage/rpm", "/var/lib/rpm"}

// rpmFiles are the database files, one for each format (lib/backend of rpm 4.14 to 4.20). They show
// that RPM is in use: other machines may have the empty directory.
var rpmFiles = []string{"rpmdb.sqlite", "Packages", "Packages.db"}

// rpmDatabase returns the directory of rpm's database, or "".
func rpmDatabase(f host.Files) string {
	for _, dir := range rpmDatabases {
		for _, name := range rpmFiles {
			if _, err := f.Stat(dir + "/" + name); err == nil {
				return dir
			}
		}
	}
	return ""
}

// ByRPM reports whether only rpm can list a machine's packages, which may take seconds. Callers
// with another way to find out should avoid Read then.
func ByRPM(h *host.Host) bool {
	return h.Live && rpmDatabase(h.Files) != "" && len(readDpkg(h).versions) == 0
}

// askRPM lists all packages in one call, which an archive records as one answer. It skips signature
// checks, which would take most of the time. The version comes first in a line, because host.Redact
// removes text after a name that ends in "token".
func askRPM(h *host.Host, db string) (List, error) {
	c := host.Command{
		Argv:    []string{"rpm", "-qa", "--nodigest", "--nosignature", "--qf", `%{VERSION}\t%{NAME}\n`},
		Timeout: 20 * time.Second,
	}
	res, err := h.Exec.Run(context.Background(), c)
	if err != nil {
		return List{}, fmt.Errorf("cannot list the packages of rpm's database %s: %w", db, err)
	}
	versions := ofLines(queried)(string(res.Stdout))
	if res.ExitCode != 0 || len(versions) == 0 {
		said, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr)), "\n")
		return List{}, fmt.Errorf("rpm -qa listed %d packages of %s, then failed with exit code %d: %s", len(versions), db, res.ExitCode, said)
	}
	return List{Versions: versions, At: "rpm -qa"}, nil
}

// queried parses a line of the output of askRPM's command.
func queried(line string) (name, version string) {
	version, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
	if !ok || version == "" || strings.ContainsAny(name, " \t") {
		return "", ""
	}
	return name, version
}
