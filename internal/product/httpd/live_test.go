package httpd

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

const debianMain = "/etc/apache2/apache2.conf"

// served is /server-status, which Debian allows from the loopback: what the
// running server says of itself.
func served(t *testing.T) string {
	t.Helper()
	return product.Command(t, "curl", "-sS", "--max-time", "60", "http://127.0.0.1/server-status?auto")
}

// slots are the places of the running server's scoreboard: what it can serve at a
// time.
func slots(t *testing.T) int {
	t.Helper()
	_, board, _ := strings.Cut(served(t), "Scoreboard: ")
	return len(strings.TrimSpace(board))
}

// offers waits until the running server has so many places; one that ends serves next to
// the new one for a moment.
func offers(t *testing.T, want int) {
	t.Helper()
	got := 0
	if !root.Eventually(time.Minute, func() bool { got = slots(t); return got == want }) {
		t.Errorf("the scoreboard has %d slots, want %d", got, want)
	}
}

func TestEvent(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	b := serve(t)
	asked(t, b, "event")

	const mpm = "/etc/apache2/mods-available/mpm_event.conf"
	main, event := product.Read(t, debianMain), product.Read(t, mpm)
	pid := b.Installed().(*installed).Run.Main.PID

	// A graceful restart takes it: the same main process.
	b.Set([]string{"reload of httpd " + debianMain}, "MaxRequestWorkers", "100", "keepalivetimeout", "7", "StartServers", "1")
	offers(t, 100)
	if i := b.Installed().(*installed); i.Run.Main.PID != pid {
		t.Errorf("main process %d, was %d", i.Run.Main.PID, pid)
	}
	if got := product.Read(t, mpm); !strings.Contains(got, "MaxRequestWorkers       100\n") {
		t.Errorf("the line that counts is not changed:\n%s", got)
	}
	// A restart takes it.
	b.Set([]string{"restart of httpd " + debianMain}, "ServerLimit", "3", "apache2/ThreadLimit", "32")
	i := b.Installed().(*installed)
	if i.Run.Main.PID == pid {
		t.Error("the main process is the old one")
	}
	if o := i.Option("ServerLimit"); o.Running.Source() != debianMain+":"+fmt.Sprint(strings.Count(main, "\n")+1) || o.Running.Or("") != "3" {
		t.Errorf("ServerLimit %+v", o.Running)
	}
	offers(t, 75)
	b.Undo()
	product.Same(t, debianMain, main)
	product.Same(t, mpm, event)
	offers(t, 150)

	// What -t refuses is never told; the same processes go on.
	pid = b.Installed().(*installed).Run.Main.PID
	b.Refused("ListenBacklog must be > 0 (neither reloaded nor restarted)", "Timeout", "200", "ListenBacklog", "0", "ServerLimit", "5")
	b.Refused("not a number", "MaxRequestWorkers", "many")
	b.Refused("not a tuning option", "Listen", "8080")
	product.Same(t, debianMain, main)
	product.Same(t, mpm, event)
	if got := b.Installed().(*installed).Run.Main.PID; got != pid {
		t.Errorf("main process %d, was %d", got, pid)
	}
	// What -t takes and the kernel does not: a scoreboard of more than 80 GB.
	if ram := memory(t); ram > 0 && ram < 64<<30 {
		b.Refused("has ended again", "ServerLimit", "20000", "ThreadLimit", "20000")
		product.Same(t, debianMain, main)
		product.Same(t, mpm, event)
		if !strings.Contains(served(t), "Scoreboard") {
			t.Error("not running any more")
		}
	}
}

func TestPrefork(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	product.Command(t, "a2dismod", "-q", "mpm_event")
	product.Command(t, "a2enmod", "-q", "mpm_prefork")
	b := serve(t)
	asked(t, b, "prefork")
	main := product.Read(t, debianMain)
	b.Set([]string{"restart of httpd " + debianMain}, "ServerLimit", "20", "MaxRequestWorkers", "20")
	offers(t, 20)
	waits(t, b, 20)
	b.Undo()
	product.Same(t, debianMain, main)
	offers(t, 150)
}

// waits opens as many connections as the server has processes, and three more, which no process
// accepts. The requests are not complete, so each holds its process.
func waits(t *testing.T, b *product.Bench, processes int) {
	t.Helper()
	for range processes + 3 {
		c, err := net.Dial("tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	var waiting, running fact.Answer
	if !root.Eventually(30*time.Second, func() bool {
		i := b.Installed()
		waiting, running = i.Answer("connections_waiting"), i.Answer("processes_running")
		return waiting.Value == 3.0 && running.Value == float64(processes)
	}) {
		t.Errorf("%v connections wait, want 3; %v processes run, want %d", waiting, running, processes)
	}
}

// serve starts Debian's apache2 as its package sets it up.
func serve(t *testing.T) *product.Bench {
	t.Helper()
	product.Command(t, "apache2ctl", "start")
	t.Cleanup(func() { product.Command(t, "apache2ctl", "stop") })
	product.Eventually(t, "httpd answers", func() bool {
		all, err := internalproduct.Find(t.Context(), product.New(t, Product).Host, "apache2")
		return err == nil && len(all) > 1
	})
	product.Eventually(t, "httpd serves", func() bool { return strings.Contains(served(t), "Scoreboard") })
	return product.New(t, Product)
}

var dumped = regexp.MustCompile(`(?m)^\s*\([0-9*]+\) (\S+)$`)

// asked holds what is read against what httpd says of its own files.
func asked(t *testing.T, b *product.Bench, mpm string) {
	t.Helper()
	i := b.Installed().(*installed)
	if i.Name() != "apache2" || i.FileErr != nil {
		t.Fatalf("%s: %v", i.Name(), i.FileErr)
	}
	var included []string
	for _, m := range dumped.FindAllStringSubmatch(product.Command(t, "apache2ctl", "-t", "-D", "DUMP_INCLUDES"), -1) {
		included = append(included, m[1])
	}
	if !slices.Equal(i.Files.files, included) {
		t.Errorf("files\n%q\nhttpd reads\n%q", i.Files.files, included)
	}
	// What DUMP_RUN_CFG says of variables, modules and what is defined.
	if got := i.Answer("mpm"); got.Value != mpm {
		t.Errorf("mpm %+v", got)
	}
	modules := product.Command(t, "apache2ctl", "-M")
	for name := range i.Files.modules {
		if !strings.HasSuffix(name, ".c") && !strings.Contains(modules, " "+name+" ") {
			t.Errorf("httpd has no %s:\n%s", name, modules)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ (\S+_module) `).FindAllStringSubmatch(modules, -1) {
		if _, ok := i.Files.modules[m[1]]; !ok && m[1] != "mpm_event_module" {
			t.Errorf("httpd has %s, fettle does not know it", m[1])
		}
	}
	run := product.Command(t, "apache2ctl", "-t", "-D", "DUMP_RUN_CFG")
	if v, _ := i.Files.value("pidfile"); !strings.Contains(run, `PidFile: "`+v.value+`"`) {
		t.Errorf("PidFile %s:\n%s", v.value, run)
	}
	// mod_info's dump of what is read, in order: the last of each for the server.
	config := product.Command(t, "apache2ctl", "-t", "-D", "DUMP_CONFIG", "-C", "LoadModule info_module /usr/lib/apache2/modules/mod_info.so")
	for _, p := range parameters {
		want, has := "", false
		depth := 0
		for line := range strings.Lines(config) {
			l := strings.TrimSpace(line)
			switch w := words(l); {
			case strings.HasPrefix(l, "</"):
				depth--
			case strings.HasPrefix(l, "<"):
				depth++
			case depth == 0 && len(w) > 1 && strings.EqualFold(w[0], p.Name):
				want, has = strings.Join(w[1:], " "), true
			}
		}
		got, ok := i.Option(p.Name).File.Get()
		if ok != has || got != want {
			t.Errorf("%s is %q, httpd says %q", p.Name, got, want)
		}
		if running, ok := i.Option(p.Name).Running.Get(); ok != has || running != want {
			t.Errorf("%s runs with %q (%s), want %q", p.Name, running, i.Option(p.Name).Running.Unknown(), want)
		}
	}
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Value == nil {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	if v := i.Answer("version").Value; !strings.Contains(served(t), fmt.Sprintf("ServerVersion: Apache/%v ", v)) {
		t.Errorf("version %v:\n%s", v, served(t))
	}
	archive := b.Archived()
	if got, ok := archive.Option("MaxRequestWorkers").File.Get(); !ok || got != "150" {
		t.Errorf("the archive says %q", got)
	}
	// A change without a reload.
	text := product.Read(t, debianMain)
	if err := os.WriteFile(debianMain, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	product.Eventually(t, "it is seen to be older than its files", func() bool {
		return b.Installed().Answer("read_since_change").Value == false
	})
}

// memory is that of this machine in bytes.
func memory(t *testing.T) int64 {
	t.Helper()
	var kib int64
	for line := range strings.Lines(product.Read(t, "/proc/meminfo")) {
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
