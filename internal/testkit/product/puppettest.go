package product

import (
	_ "embed"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// The paths of Debian's package.
const (
	Java    = "/etc/default/puppetserver"
	Options = "/etc/puppet/puppetserver/conf.d/puppetserver.conf"
	Log     = "/var/log/puppetserver/puppetserver-access.log"
	Code    = "/etc/puppet/code/environments/production"
)

// accessLog is Log after two runs of an agent on localhost, with the package's
// request-logging.xml. TestAgent compares it with a new one.
//
//go:embed testdata/access.log
var accessLog string

// Quick contains arguments for JAVA_ARGS that make Java start faster and run slower, as JRuby's
// --dev does, for tests that measure nothing.
const Quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djruby.compile.mode=OFF"

// Quicken makes the server start with Quick.
func Quicken(t testing.TB) {
	t.Helper()
	machine.WriteFile(t, "/", Java, strings.Replace(Read(t, Java), "-Xms1g", Quick+" -Xms1g", 1))
}

// Server is a running Puppet Server with its own CA.
type Server struct {
	Address string // host and port, of TLS
	SSLDir  string // of the server: certs, private_keys, ca
}

// name is the host name in the server's certificate.
const name = "localhost"

// starts is the command of the server's unit, without default paths.
const starts = `. ` + Java + `
install -d -o puppet -g puppet /run/puppetserver
cd /run/puppetserver
printf 0 >restart; chown puppet restart
setsid setpriv --reuid=puppet --regid=puppet --init-groups java $JAVA_ARGS -Djruby.lib=/usr/share/jruby/lib \
	-jar /usr/share/puppetserver/puppetserver.jar --config "$CONFIG" --bootstrap-config "$BOOTSTRAP_CONFIG" \
	--restart-file /run/puppetserver/restart </dev/null >/run/puppetserver/said 2>&1 &
java=$!
for second in $(seq 900); do
	if [ "$(curl -sk --max-time 5 "$1/status/v1/simple")" = running ]; then exit; fi
	if ! kill -0 $java; then break; fi
	sleep 1
done
tail -n 30 /run/puppetserver/said /var/log/puppetserver/puppetserver.log >&2
exit 1
`

// StartPuppetServer starts the server as its unit does, and waits until it answers: 30 s on an
// idle machine, minutes on a busy one. Its CA signs every request. It ends with the test.
func StartPuppetServer(t testing.TB) Server { return StartBehind(t, "https://"+name+":8140") }

// StartBehind starts a server like StartPuppetServer, behind a front end that may not run yet.
// The server answers at url.
func StartBehind(t testing.TB, url string) Server {
	t.Helper()
	machine.Write(t, "/", map[string]string{
		"/etc/puppet/puppet.conf": "[main]\ncertname = " + name + "\nserver = " + name + "\n[server]\ndns_alt_names = " + name + "\nautosign = true\n",
		Code + "/manifests/.keep": "",
	})
	Command(t, "chown", "-R", "puppet", "/etc/puppet/code")
	t.Cleanup(func() { Stop(t) }) // by then fettle may have started another one
	// If the tests run under nohup, Java would ignore SIGHUP, which makes the server reload.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP)
	defer signal.Stop(ignored)
	Command(t, "sh", "-c", starts, "start", url)
	return Server{Address: name + ":8140", SSLDir: "/var/lib/puppet/ssl"}
}

// Stop kills the server of this root, if there is one, and waits until it has ended.
func Stop(t testing.TB) {
	t.Helper()
	Command(t, "sh", "-c", `for p in $(pgrep -x java); do
	if [ /proc/$p/root/ -ef / ]; then kill -s KILL "$p"; while kill -0 "$p" 2>/dev/null; do sleep 0.1; done; fi
done`)
}

// Agent is a node of the server.
type Agent struct {
	Name   string // of its certificate
	SSLDir string // certs/NAME.pem, private_keys/NAME.pem, certs/ca.pem
	dir    string
}

// Agent returns a node, which gets its certificate during its first run.
func (s Server) Agent(t testing.TB, name string) Agent {
	dir := filepath.Join("/srv", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return Agent{Name: name, SSLDir: dir + "/ssl", dir: dir}
}

// Run runs the agent in the foreground with further options, applies its catalog to this
// machine, and returns the output.
func (a Agent) Run(t testing.TB, options ...string) string {
	t.Helper()
	// Exit code 2 means that something changed.
	return Command(t, append([]string{"sh", "-c", `puppet agent --test --color=false "$@" 2>&1 || { code=$?; [ $code = 2 ] || exit $code; }`, "agent",
		"--certname", a.Name, "--ssldir", a.SSLDir, "--vardir", a.dir, "--statedir", a.dir + "/state"}, options...)...)
}
