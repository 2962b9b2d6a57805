package postgresql

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// roots are the distributions' directories for configuration and data. The data directories of
// units are added.
var roots = []string{"/etc/postgresql", "/var/lib/postgresql", "/var/lib/pgsql", "/var/opt/rh"}

// cluster is one PostgreSQL instance.
type cluster struct {
	conf.Instance
	// Unit is the service that runs the cluster.
	Unit string
	// debian is version and name, such as "15", "main", for clusters of postgresql-common.
	debian []string
}

// clusters returns the configured clusters: Debian's /etc/postgresql/VERSION/NAME, and the data
// directories of Red Hat's packages and units.
func clusters(h *host.Host) ([]cluster, error) {
	var out []cluster
	mains, err := host.Glob(h.Files, "/etc/postgresql/*/*/postgresql.conf")
	if err != nil {
		return nil, err
	}
	for _, main := range mains {
		name := path.Base(path.Dir(main))
		version := path.Base(path.Dir(path.Dir(main)))
		out = append(out, cluster{
			Instance: conf.Instance{Name: version + "/" + name, Main: main},
			Unit:     "postgresql@" + version + "-" + name + ".service",
			debian:   []string{version, name},
		})
	}
	units := dataUnits(h)
	dirs := []string{"/var/lib/pgsql/data"}
	for _, pattern := range []string{"/var/lib/pgsql/*/data", "/var/opt/rh/*/lib/pgsql/data"} {
		found, err := host.Glob(h.Files, pattern)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	for _, u := range units {
		dirs = append(dirs, u.dir)
	}
	seen := map[string]bool{}
	for _, dir := range dirs {
		main := path.Join(dir, "postgresql.conf")
		if seen[main] {
			continue
		}
		seen[main] = true
		if _, err := h.Files.Stat(main); err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			if !hasData(h, dir) {
				continue
			}
		}
		c := cluster{Instance: conf.Instance{Name: nameOf(dir), Main: main}, Unit: "postgresql.service"}
		for _, u := range units {
			if u.dir == dir {
				c.Unit = u.unit
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// hasData reports whether a data directory exists, for one whose main file is unreadable.
func hasData(h *host.Host, dir string) bool {
	for _, name := range []string{"postgresql.conf", "PG_VERSION"} { // the main file may be a dangling link
		if _, err := h.Files.Lstat(path.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// nameOf returns a cluster's name from its data directory: "data", "15/data", "rh-postgresql12", or
// the whole path.
func nameOf(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "/var/lib/pgsql/"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(dir, "/var/opt/rh/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	return strings.TrimPrefix(dir, "/")
}

type dataUnit struct{ unit, dir string }

// pgData matches the line of a unit that sets the data directory.
var pgData = text.LazyRegexp(`(?m)^[ \t]*Environment=.*?\bPGDATA=["']?(/[^"'\s]+)`)

// dataUnits returns the services whose unit or drop-in sets PGDATA. An administrator's file takes
// precedence over the package's.
func dataUnits(h *host.Host) []dataUnit {
	var out []dataUnit
	for _, dir := range []string{"/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system"} {
		for _, pattern := range []string{"/*postgresql*.service", "/*postgresql*.service.d/*.conf"} {
			files, err := host.Glob(h.Files, dir+pattern)
			if err != nil {
				continue
			}
			for _, f := range files {
				text, err := h.Files.ReadFile(f)
				if err != nil {
					continue
				}
				unit := path.Base(f)
				if strings.HasSuffix(f, ".conf") {
					unit = strings.TrimSuffix(path.Base(path.Dir(f)), ".d")
				}
				for _, m := range pgData().FindAllStringSubmatch(string(text), -1) {
					out = slices.DeleteFunc(out, func(u dataUnit) bool { return u.unit == unit })
					out = append(out, dataUnit{unit, path.Clean(m[1])})
				}
			}
		}
	}
	return out
}

// clusterOf returns the cluster with a main file; an unknown cluster has no unit.
func clusterOf(h *host.Host, main string) cluster {
	all, _ := clusters(h)
	for _, c := range all {
		if c.Is(h, main) {
			return c
		}
	}
	return cluster{Instance: conf.Instance{Main: main}}
}

func rootsOf(h *host.Host) []string {
	out := slices.Clone(roots)
	for _, u := range dataUnits(h) {
		out = append(out, u.dir)
	}
	return out
}
