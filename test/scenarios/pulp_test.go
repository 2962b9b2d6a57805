package scenarios

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// site is where Pulp's Python packages are inside, and repository the 2,000 packages.
const (
	site       = "/opt/pulp"
	repository = "/srv/repository"
)

const pulpSettings = `SECRET_KEY = "test"
DB_ENCRYPTION_KEY = "/etc/pulp/key"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "pulp", "HOST": "/run/postgresql", "USER": "www-data"}}
CONTENT_ORIGIN = "` + pulpURL + `"
CONTENT_PATH_PREFIX = "/pulp/content/"
CACHE_ENABLED = True
REDIS_URL = "redis://127.0.0.1:6379/0"
TELEMETRY = False
ANALYTICS = False
`

const pulpURL = "http://127.0.0.1:8082" // httpd in front of Pulp

// withRepository binds the repository of 2,000 packages.
func withRepository(t *testing.T) func(*root.Options) {
	return func(o *root.Options) {
		o.Binds = append(o.Binds, root.Bind{Source: filepath.Join(built(t), "content"), Target: repository, ReadOnly: true})
	}
}

// withPulp binds Pulp and the repository.
func withPulp(t *testing.T) func(*root.Options) {
	return func(o *root.Options) {
		o.RPM = true // createrepo_c needs glib, as dnf does
		withRepository(t)(o)
		o.Binds = append(o.Binds, root.Bind{Source: filepath.Join(built(t, "pulp"), "site"), Target: site, ReadOnly: true})
		o.Env = append(o.Env, "PYTHONPATH="+site, "PULP_SETTINGS=/etc/pulp/settings.py", "DJANGO_SETTINGS_MODULE=pulpcore.app.settings")
	}
}

// pulp starts pulpcore with pulp_rpm on Debian's PostgreSQL and Redis, with httpd in front as
// on a Satellite, at pulpURL.
func pulp(t *testing.T, workers int) {
	t.Helper()
	product.Database(t, 200)
	product.SQL(t, "postgres", `CREATE DATABASE pulp OWNER "www-data"`)
	machine.Write(t, "/", map[string]string{"/etc/pulp/settings.py": pulpSettings, "/etc/pulp/key": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"})
	product.Command(t, "install", "-d", "-o", "www-data", "/var/lib/pulp", "/var/lib/pulp/media", "/var/lib/pulp/tmp", "/run/pulp")
	as := []string{"setpriv", "--reuid=www-data", "--regid=www-data", "--init-groups", "--pdeathsig=KILL", "env", "HOME=/var/lib/pulp"}
	run := func(program string, args ...string) []string {
		return append(append(append([]string{}, as...), "python3", site+"/bin/"+program), args...)
	}
	start(t, "redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	listens(t, "6379")
	for _, args := range [][]string{{"migrate", "--noinput"}, {"reset-admin-password", "--password", "changeme"}} {
		argv := run("pulpcore-manager", args...)
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("pulpcore-manager %v: %v\n%s", args, err, out)
		}
	}
	start(t, run("pulpcore-api", "--bind", "unix:/run/pulp/api.sock", "--workers", "2")...)
	start(t, run("pulpcore-content", "--bind", "unix:/run/pulp/content.sock", "--workers", "2")...)
	for range workers {
		start(t, run("pulpcore-worker")...)
	}
	httpd(t, "8082", `ProxyTimeout 600
ProxyPass /pulp/content unix:/run/pulp/content.sock|http://localhost/pulp/content
ProxyPass /pulp/api/v3 unix:/run/pulp/api.sock|http://localhost/pulp/api/v3
`)
	if !root.Eventually(10*time.Minute, func() bool {
		status, text := call(t, "GET", pulpURL+"/pulp/api/v3/status/", "")
		return status == http.StatusOK && strings.Count(text, `"last_heartbeat"`) >= workers+4
	}) {
		t.Fatal("Pulp does not start")
	}
}
