package audit

import (
	"path"
	"regexp"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/guide/platform"
)

// roles maps words in a container's name or image to an application; the first match applies. Roles
// are the rows of table openshift-storage.
var roles = []struct {
	role  string
	words []string
}{
	{"metrics", []string{"prometheus", "alertmanager", "thanos"}},
	{"logging", []string{"elasticsearch", "opensearch"}},
	{"etcd", []string{"etcd"}},
	{"databases", []string{
		"postgres", "postgresql", "mysql", "mariadb", "percona", "mongo", "mongodb", "redis", "valkey", "cassandra", "cockroach", "cockroachdb",
		"couchdb", "mssql", "oracle", "neo4j", "influxdb", "clickhouse", "db2",
	}},
}

// registries are the full names of image registries. The word alone is not enough: a schema
// registry has it too.
var registries = []string{"registry", "docker-registry", "image-registry", "ose-docker-registry", "quay", "quay-registry", "harbor-registry"}

var word = regexp.MustCompile(`[a-z0-9]+`)

// imageName returns the last part of an image's name without tag and digest: "postgresql" for
// "registry.example.com:5000/db/postgresql:16@sha256:...".
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := path.Base(image)
	name, _, _ = strings.Cut(name, ":")
	return strings.ToLower(name)
}

// roleOf returns the application that a container runs, or "". Exporters, operators and backups of
// an application do not count as the application.
func roleOf(c Container) string {
	names := []string{imageName(c.Image), strings.ToLower(c.Name)}
	for _, name := range names {
		words := word.FindAllString(name, -1)
		if slices.Contains(words, "exporter") || slices.Contains(words, "operator") || slices.Contains(words, "backup") {
			return ""
		}
	}
	for _, name := range names {
		if slices.Contains(registries, name) {
			return "registry"
		}
		words := word.FindAllString(name, -1)
		for _, r := range roles {
			if slices.ContainsFunc(r.words, func(w string) bool { return slices.Contains(words, w) }) {
				return r.role
			}
		}
	}
	return ""
}

// role returns the application that uses a claim, from the containers that mount it, or "". A
// registry with at least two running replicas is a scaled registry.
func (c *Claim) role() string {
	for _, u := range c.Users {
		for _, x := range u.Containers {
			switch role := roleOf(x); {
			case role == "registry" && (u.Replicas > 1 || len(c.Users) > 1):
				return "scaled registry"
			case role != "":
				return role
			}
		}
	}
	return ""
}

// driver is a row of the catalog's table of volume drivers.
type driver struct {
	technology, family string
	readers, known     bool
}

// drivers returns a driver's row, found by its name or suffix.
func drivers(tables Tables, name string) driver {
	t := tables.Table("kubernetes-volume-drivers")
	if t == nil || len(t.Editions) == 0 || name == "" {
		return driver{}
	}
	for _, r := range t.Editions[0].Rows {
		end, any := strings.CutPrefix(r.Key, "*")
		if r.Key != name && (!any || !strings.HasSuffix(name, end)) {
			continue
		}
		d := driver{known: true}
		d.technology, _ = r.Cells["technology"].(string)
		d.family, _ = r.Cells["family"].(string)
		d.readers, _ = r.Cells["many_readers"].(bool)
		return d
	}
	return driver{}
}

// storage sets the answers about claims of known applications, and about claims that several nodes
// need.
func (c *Cluster) storage(a *platform.Known, tables Tables) {
	if why := c.Unread[OfClaims]; why != "" {
		a.Unlisted(platform.Claims, why)
		a.Unlisted(platform.Shared, why)
	}
	for i := range c.Claims {
		x := &c.Claims[i]
		d := drivers(tables, x.Driver)
		at := "claim " + x.id()
		technology := func(in string) {
			switch {
			case d.known:
				a.Give(in+".technology", d.technology, at)
				a.Give(in+".driver", x.Driver, at)
			case x.Driver == "":
				a.Unclear(in+".technology", at, "the claim has no volume yet")
				a.Unclear(in+".driver", at, "the claim has no volume yet")
			default:
				a.Unclear(in+".technology", at, "unknown whether the driver "+x.Driver+" provides block or file storage")
				a.Give(in+".driver", x.Driver, at)
			}
		}
		if role := x.role(); role != "" {
			a.Add(platform.Claims, x.id())
			in := platform.Claims + "." + x.id()
			technology(in)
			a.Give(in+".role", role, at)
			a.Give(in+".modes", slices.Clone(x.Modes), at)
			a.Give(in+".users", float64(len(x.Users)), at)
			if d.known {
				a.Give(in+".family", d.family, at)
			} else {
				a.Unclear(in+".family", at, "the driver "+x.Driver+" is unknown")
			}
		}
		if x.asks(core.ReadOnlyMany) || x.asks(core.ReadWriteMany) {
			a.Add(platform.Shared, x.id())
			in := platform.Shared + "." + x.id()
			technology(in)
			a.Give(in+".modes", slices.Clone(x.Modes), at)
			a.Give(in+".raw", x.Raw, at)
			if d.known {
				a.Give(in+".many_readers", d.readers, at)
			} else {
				a.Unclear(in+".many_readers", at, "the driver "+x.Driver+" is unknown")
			}
		}
	}
}
