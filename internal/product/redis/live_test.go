package redis

import (
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

const debianMain = "/etc/redis/redis.conf"

func cli(t testing.TB, words ...string) string {
	t.Helper()
	return product.Command(t, append([]string{"redis-cli"}, words...)...)
}

// serve starts Debian's Redis as its package sets it up.
func serve(t *testing.T) {
	product.Command(t, "install", "-d", "-o", "redis", "/run/redis")
	product.Command(t, "setpriv", "--reuid=redis", "--regid=redis", "--init-groups", "redis-server", debianMain)
	t.Cleanup(func() { product.Command(t, "redis-cli", "shutdown", "nosave") })
	product.Eventually(t, "Redis answers", func() bool {
		c, err := dial(t.Context(), settings{})
		if err == nil {
			_, err = c.do("PING")
			c.close()
		}
		return err == nil
	})
}

// TestFewFiles: Redis lowers maxclients to the files that it may open, and what it was
// asked for is still known.
func TestFewFiles(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	limit := syscall.Rlimit{Cur: 1024, Max: 1024}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	serve(t)
	b := product.New(t, Product)
	b.Running("maxclients", "992")
	i := b.Installed()
	if a := i.Answer("clients_asked"); a.Value != 10000.0 {
		t.Errorf("it was asked for %+v", a)
	}
	if a := i.Answer("open_files_limit"); a.Value != 1024.0 {
		t.Errorf("its files: %+v", a)
	}
}

// Values that a running server takes at once and values for which it is started
// anew, through the journal and back.
func TestServer(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	serve(t)
	before := product.Read(t, debianMain)
	b := product.New(t, Product)
	asked(t, b)

	b.Set([]string{"reload of redis-server " + debianMain + " (maxmemory)", "reload of redis-server " + debianMain + " (timeout)"}, "maxmemory", "100mb", "timeout", "600")
	if got := cli(t, "config", "get", "maxmemory"); got != "maxmemory\n104857600" {
		t.Errorf("maxmemory: %q", got)
	}
	cli(t, "set", "kept", "yes")
	b.Set([]string{"restart of redis-server " + debianMain, "reload of redis-server " + debianMain + " (maxmemory)"}, "redis/tcp-backlog", "128", "maxmemory", "100M")
	b.Running("tcp-backlog", "128")
	b.Running("maxmemory", "100000000")
	if got := cli(t, "get", "kept"); got != "yes" {
		t.Errorf("the restart has lost data: %q", got)
	}
	b.Undo()
	product.Same(t, debianMain, before)
	b.Running("maxmemory", "0")
	b.Running("timeout", "0")
	b.Running("tcp-backlog", "511")

	t.Run("refused", func(t *testing.T) {
		b := *b
		b.TB = t
		b.Refused("keys would be deleted", "maxmemory-policy", "allkeys-lru", "maxmemory", "1000")
		b.Refused("", "maxmemory-policy", "newest-first")
		b.Refused("not a tuning option", "dir", "/tmp")
		// With it, it does not start: io-threads is 128 at most.
		b.Refused("argument must be between 1 and 128", "io-threads", "129")
		product.Same(t, debianMain, before)
		b.Running("io-threads", "1")
		b.Running("maxmemory-policy", "noeviction")
		if got := cli(t, "get", "kept"); got != "yes" {
			t.Errorf("data is lost: %q", got)
		}
	})
	t.Run("memory only", func(t *testing.T) {
		b := *b
		b.TB = t
		cli(t, "config", "set", "save", "")
		b.Refused("a restart would lose 1 keys", "tcp-backlog", "200")
		if got := cli(t, "get", "kept"); got != "yes" {
			t.Errorf("data is lost: %q", got)
		}
	})
}

// asked holds what is read against what redis-cli says.
func asked(t *testing.T, b *product.Bench) {
	i := b.Installed()
	if i.Name() != "redis" {
		t.Errorf("it is called %q", i.Name())
	}
	for _, p := range parameters {
		_, want, _ := strings.Cut(cli(t, "config", "get", p.Name), "\n")
		o := i.Option(p.Name)
		if got, ok := o.Running.Get(); !ok || got != want {
			t.Errorf("%s runs with %q (%s), redis-cli says %q", p.Name, got, o.Running.Unknown(), want)
		}
		def, _ := defaultOf(p.Name, i.Answer("version").Value.(string))
		if file, ok := o.File.Get(); ok && !same(p.Name, file, want) {
			t.Errorf("%s is %q in %s and runs with %q", p.Name, file, o.File.Source(), want)
		} else if !ok && p.Read != nil && (p.Default != "" || p.Name == "save") && !same(p.Name, def, want) {
			t.Errorf("%s is by default %q, and runs with %q", p.Name, def, want)
		}
	}
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Value == nil {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	if got := i.Answer("pending_changes").Value.([]string); len(got) > 0 {
		t.Errorf("pending: %v", got)
	}
	cli(t, "config", "set", "requirepass", "s3cret")
	cli(t, "-a", "s3cret", "config", "set", "requirepass", "")
	archive := b.Archived()
	if v, ok := archive.Option("maxmemory").Running.Get(); !ok || v != "0" {
		t.Errorf("the archive says %q, %s", v, archive.Option("maxmemory").Running.Unknown())
	}
}
