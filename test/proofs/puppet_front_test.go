package proofs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	sized "fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/testkit/product"
)

// puppetFront is a web server in front of Puppet Server, as fettle size puppet writes it.
type puppetFront struct {
	Name  string // for --front-end
	Title string
	// Debian's package, the directory of its configuration, the file in it that is written,
	// and the log that this file names.
	pkg, conf, file, log string
	// on is the line of file that turns the cache on.
	on    string
	start []string
	stop  []string
}

var puppetFronts = []puppetFront{
	{
		Name: "apache", Title: "Apache", pkg: "apache2-bin", conf: "/etc/apache2", file: "/" + sized.ApacheSite, log: "/var/log/apache2/puppet.log", on: "CacheEnable disk",
		start: []string{"apache2ctl", "start"}, stop: []string{"apache2ctl", "stop"},
	},
	{
		Name: "nginx", Title: "nginx", pkg: "nginx", conf: "/etc/nginx", file: "/" + sized.NginxFile, log: "/var/log/nginx/puppet.log", on: "proxy_cache puppet;",
		start: []string{"nginx"}, stop: []string{"nginx", "-s", "stop"},
	},
}

// plan is where the files of a front end are that fettle size puppet wrote.
func (f puppetFront) plan() string { return "/srv/plan/" + f.Name }

// serve starts a front end on port 8140: as it is written, or without the lines that turn
// the cache on. The cache is empty then, and so is the log. It runs until end is called.
func (x *puppetProof) serve(f puppetFront, cached bool) (end func()) {
	x.Helper()
	text := product.Read(x, f.plan()+f.file)
	if !cached {
		var lines []string
		for line := range strings.Lines(text) {
			if strings.TrimSpace(line) != f.on {
				lines = append(lines, line)
			}
		}
		shorter := strings.Join(lines, "")
		if shorter == text {
			x.Fatalf("%s has no line %q", f.file, f.on)
		}
		text = shorter
	}
	x.write(map[string]string{f.file: text})
	x.install(f, "/"+sized.PurgeScript)
	x.purge()
	if err := os.Remove(f.log); err != nil && !os.IsNotExist(err) {
		x.Fatal(err)
	}
	product.Command(x, f.start...)
	x.Cleanup(func() { _ = exec.Command(f.stop[0], f.stop[1:]...).Run() }) // if it still runs
	product.Eventually(x, f.Title+" serves", func() bool {
		said, err := exec.Command("curl", "-s", "--cacert", x.server.SSLDir+"/certs/ca.pem", "https://"+x.server.Address+"/status/v1/simple").Output()
		return err == nil && string(said) == "running"
	})
	return func() {
		x.Helper()
		product.Command(x, f.stop...)
		product.Eventually(x, f.Title+" has ended", func() bool {
			c, err := net.Dial("tcp", x.server.Address)
			if err == nil {
				c.Close()
			}
			return err != nil && len(pidsOf(f.start[0])) == 0
		})
	}
}

// pidsOf are the processes of a front end in this root.
func pidsOf(start string) string {
	name := strings.TrimSuffix(start, "ctl")
	said, _ := exec.Command("pgrep", "-x", name).Output()
	return string(said)
}

// install puts files of a plan in place, as they are written.
func (x *puppetProof) install(f puppetFront, files ...string) {
	x.Helper()
	for _, name := range files {
		product.Command(x, "cp", "--preserve=mode", f.plan()+name, name)
	}
}

// purge empties the cache, as each deployment does.
func (x *puppetProof) purge() {
	x.Helper()
	product.Command(x, "sh", "-c", "if [ -d \"$1\" ]; then /"+sized.PurgeScript+"; fi", "purge", x.cacheDir())
}

// cacheDir is the directory that the script empties which is in place.
func (x *puppetProof) cacheDir() string {
	_, rest, _ := strings.Cut(product.Read(x, "/"+sized.PurgeScript), "exec find '")
	dir, _, ok := strings.Cut(rest, "'")
	if !ok {
		x.Fatalf("/%s names no directory", sized.PurgeScript)
	}
	return dir
}

// side is the log of a front end before its cache was on, or after.
func (f puppetFront) side(cached bool) string {
	dir := map[bool]string{false: "before", true: "after"}[cached]
	return filepath.Join("/srv/logs", dir+"-"+f.Name, filepath.Base(f.log))
}

// addTo adds what a front end has logged to a side.
func (x *puppetProof) addTo(side, log string) {
	x.Helper()
	product.Command(x, "sh", "-c", `mkdir -p "$(dirname "$2")"; cat "$1" >>"$2"`, "add", log, side)
}
