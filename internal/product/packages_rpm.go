package product

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// rpmDatabases are where rpm keeps its data base: in the first since Fedora 36 and
// in openSUSE, in the second in RHEL. It is SQLite's, Berkeley DB's or rpm's own
// format, so rpm itself is asked.
var rpmDatabases = []string{"/usr/lib/sysimage/rpm", "/var/lib/rpm"}

// rpmFiles are what a data base consists of, one for each format (lib/backend of
// rpm 4.14 to 4.20); the directory alone is also on machines without RPM packages.
var rpmFiles = []string{"rpmdb.sqlite", "Packages", "Packages.db"}

// rpmDatabase is the directory of rpm's data base; "" where there is none, or a
// copy does not know.
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

// ByRPM is true of a machine whose packages only rpm can list, which may take
// seconds: whoever can tell otherwise that it has not what he looks for, need not ask.
func ByRPM(h *host.Host) bool {
	text, err := h.Files.ReadFile(dpkg)
	return h.Live && rpmDatabase(h.Files) != "" && (err != nil || len(dpkgStatus(string(text))) == 0)
}

// askRPM asks for all packages at once: one answer for all who ask, and one in an
// archive. Nobody's signature is verified again, which would be most of the time.
// The version goes first: what stands behind a name that ends in "token" is taken for
// one, and is not in an archive (host.Redact).
func askRPM(h *host.Host, db string) (List, error) {
	c := host.Command{
		Argv:    []string{"rpm", "-qa", "--nodigest", "--nosignature", "--qf", `%{VERSION}\t%{NAME}\n`},
		Timeout: 20 * time.Second,
	}
	res, err := h.Exec.Run(context.Background(), c)
	if err != nil {
		return List{}, fmt.Errorf("the list of its packages is rpm's (%s): %w", db, err)
	}
	versions := ofLines(queried)(string(res.Stdout))
	if res.ExitCode != 0 || len(versions) == 0 {
		said, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr)), "\n")
		return List{}, fmt.Errorf("rpm -qa lists %d packages of %s and ends with %d: %s", len(versions), db, res.ExitCode, said)
	}
	return List{Versions: versions, At: "rpm -qa"}, nil
}

// queried takes a line of askRPM's apart.
func queried(line string) (name, version string) {
	version, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
	if !ok || version == "" || strings.ContainsAny(name, " \t") {
		return "", ""
	}
	return name, version
}
