// Package puppettest runs Debian's Puppet Server in the test root that has it
// (testroot.Options.Puppet). Only tests import it.
package puppettest

import (
	"testing"

	"fettle.dev/fettle/internal/component/producttest"
	"fettle.dev/fettle/internal/host/hosttest"
)

// Where Debian's package has its files.
const (
	Java    = "/etc/default/puppetserver"
	Options = "/etc/puppet/puppetserver/conf.d/puppetserver.conf"
	Code    = "/etc/puppet/code/environments/production"
)

// Quick are arguments for Java, of JAVA_ARGS in its file, with which it starts sooner
// and then is slower, as JRuby's --dev does: for tests that measure nothing.
const Quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djruby.compile.mode=OFF"

// name is what its certificate is of.
const name = "localhost"

// starts is what its unit runs, without the paths that are the defaults.
const starts = `. ` + Java + `
install -d -o puppet -g puppet /run/puppetserver
cd /run/puppetserver
printf 0 >restart; chown puppet restart
setsid setpriv --reuid=puppet --regid=puppet --init-groups java $JAVA_ARGS -Djruby.lib=/usr/share/jruby/lib \
	-jar /usr/share/puppetserver/puppetserver.jar --config "$CONFIG" --bootstrap-config "$BOOTSTRAP_CONFIG" \
	--restart-file /run/puppetserver/restart </dev/null >/run/puppetserver/said 2>&1 &
java=$!
for second in $(seq 900); do
	if [ "$(curl -sk --max-time 5 https://` + name + `:8140/status/v1/simple)" = running ]; then exit; fi
	if ! kill -0 $java; then break; fi
	sleep 1
done
tail -n 30 /run/puppetserver/said /var/log/puppetserver/puppetserver.log >&2
exit 1
`

// Start starts the server as its unit does, and waits until it answers: half a minute
// on a machine that does nothing else, minutes on a busy one. Its authority signs whoever asks.
// It ends with the test.
func Start(t testing.TB) {
	t.Helper()
	hosttest.Write(t, "/", map[string]string{
		"/etc/puppet/puppet.conf": "[main]\ncertname = " + name + "\nserver = " + name + "\n[server]\ndns_alt_names = " + name + "\nautosign = true\n",
		Code + "/manifests/.keep": "",
	})
	producttest.Command(t, "chown", "-R", "puppet", "/etc/puppet/code")
	t.Cleanup(func() {
		// By now fettle may have started another one.
		producttest.Command(t, "sh", "-c", `for p in $(pgrep -x java); do if [ /proc/$p/root/ -ef / ]; then kill -s KILL "$p"; fi; done`)
	})
	producttest.Command(t, "sh", "-c", starts)
}
