package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// serve writes Debian's configuration with a frontend and a back end of our own,
// and starts HAProxy with it.
func serve(t *testing.T, argv ...string) (b *product.Bench, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	text := product.Read(t, mainFile)
	text = strings.Replace(text, "\tdaemon\n", "\tmaxconn 500\n", 1)
	text += fmt.Sprintf("frontend web\n\tbind 127.0.0.1:%d\n\thttp-request return status 204\nbackend app\n\tserver a 127.0.0.1:1\n", port)
	if err := os.WriteFile(mainFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	product.Command(t, "install", "-d", "/run/haproxy")
	product.Command(t, append([]string{"haproxy", "-f", mainFile}, argv...)...)
	b = product.New(t, Product)
	t.Cleanup(func() {
		all, err := internalproduct.Find(t.Context(), b.Host, "haproxy")
		if err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if q, err := os.FindProcess(p.PID); err == nil {
				_ = q.Kill()
			}
		}
	})
	var threads fact.Answer
	if !root.Eventually(time.Minute, func() bool {
		threads = b.Installed().Answer("threads")
		return threads.Value != nil
	}) {
		t.Fatalf("HAProxy does not answer: %s", threads.Unknown)
	}
	return b, port
}

// through asks for a page, which HAProxy answers itself.
func through(t *testing.T, port int) {
	t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	if got := product.Command(t, "curl", "-sS", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}", url); got != "204" {
		t.Errorf("a client gets %s", got)
	}
}

// With a master: values are taken by a new worker and given back, what -c refuses
// is never told, and a worker that cannot start leaves the old one and its values.
func TestMaster(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	b, port := serve(t, "-W", "-D")
	through(t, port)
	before := product.Read(t, mainFile)
	i := b.Installed().(*installed)
	compare(t, b, i)
	master, was := i.Run.Main.PID, worker(i.Run).PID

	b.Set([]string{"reload of haproxy " + mainFile}, "maxconn", "300", "nbthread", "1", "timeout-client", "20s", "timeout-tunnel", "1h")
	i = b.Installed().(*installed)
	if i.Run.Main.PID != master || worker(i.Run).PID == was {
		t.Errorf("master %d, was %d; worker %d, was %d", i.Run.Main.PID, master, worker(i.Run).PID, was)
	}
	for option, want := range map[string]string{"maxconn": "300", "nbthread": "1", "timeout-client": "20s", "timeout-tunnel": "1h"} {
		b.Running(option, want)
	}
	if o := i.Option("maxconn").Running; o.Source() != mainFile+":"+strconv.Itoa(lineOf(before, "maxconn 500")+1) {
		t.Errorf("maxconn is from %s", o.Source()) // a line further down: nbthread came before it
	}
	through(t, port)
	b.Undo()
	product.Same(t, mainFile, before)
	b.Running("maxconn", "500")
	through(t, port)

	was = worker(b.Installed().(*installed).Run).PID
	b.Refused("haproxy -c: ", "maxconn", "400", "nbthread", "100000")
	b.Refused("not a HAProxy time", "timeout-client", "soon")
	b.Refused("not a tuning option", "global/chroot", "/")
	product.Same(t, mainFile, before)
	if got := worker(b.Installed().(*installed).Run).PID; got != was {
		t.Errorf("worker %d, was %d", got, was)
	}
	// More files than any process may open (fs.nr_open).
	b.Refused("still serves", "maxconn", "2000000000")
	product.Same(t, mainFile, before)
	b.Running("maxconn", "500")
	through(t, port)
}

// A master that has just counted a reload as failed, and starts itself anew, takes the
// next one: what is rolled back is told at that moment.
func TestMasterAfterFailure(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	b, port := serve(t, "-W", "-D")
	good := product.Read(t, mainFile)
	bad := strings.Replace(good, "maxconn 500", "maxconn 2000000000", 1) // more files than any process may open
	h := b.Host
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	tell := func(config string) (internalproduct.Group, internalproduct.Reloaded) {
		t.Helper()
		if err := os.WriteFile(mainFile, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		g, err := processes(ctx, h, mainFile)
		var replaced internalproduct.Reloaded
		if err == nil {
			replaced, err = reload(ctx, h, mainFile, g.Main)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g, replaced
	}
	for range 5 {
		was, _ := tell(bad)
		if err := internalproduct.Until(ctx, func() error {
			if failures(h, was.Main) == 0 {
				return errors.New("nothing has failed")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, replaced := tell(good)
		if err := internalproduct.Until(ctx, func() error { return errors.Join(replaced(ctx), ready(ctx, h, mainFile)) }); err != nil {
			t.Fatal(err)
		}
	}
	through(t, port)
}

// Without a master a new process takes over.
func TestDaemon(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	b, port := serve(t, "-D")
	before := product.Read(t, mainFile)
	was := b.Installed().(*installed).Run.Main
	b.Set([]string{"reload of haproxy " + mainFile}, "maxconn", "300", "retries", "2")
	b.Running("maxconn", "300")
	b.Running("retries", "2")
	if b.Installed().(*installed).Run.Main.Same(was) {
		t.Error("the old process still serves")
	}
	b.Undo()
	product.Same(t, mainFile, before)
	b.Running("maxconn", "500")
	b.Refused("haproxy -sf: ", "maxconn", "2000000000")
	product.Same(t, mainFile, before)
	b.Running("maxconn", "500")
	through(t, port)
}

func lineOf(text, part string) int {
	head, _, _ := strings.Cut(text, part)
	return strings.Count(head, "\n") + 1
}

// compare holds what is read against what HAProxy says of itself.
func compare(t *testing.T, b *product.Bench, i *installed) {
	t.Helper()
	if i.Name() != "haproxy" || i.FileErr != nil || i.RunErr != nil || i.ReportErr != nil {
		t.Fatal(i.Name(), i.FileErr, i.RunErr, i.ReportErr)
	}
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Value == nil && in.Name != "passthrough_443" {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	version := product.Command(t, "haproxy", "-v")
	if v := i.Answer("version").Value; !strings.Contains(version, fmt.Sprintf("version %v", v)) {
		t.Errorf("version %v: %s", v, version)
	}
	for option, want := range map[string]string{"maxconn": "500", "timeout-client": "50000", "timeout-server": "50000", "timeout-connect": "5000"} {
		b.Running(option, want)
	}
	if v, err := parameter("timeout client").Read("50000"); err != nil || v != 50.0 {
		t.Errorf("timeout client %v, %v", v, err)
	}
	// The queue that the kernel was asked for.
	_, address := i.Files.serves()
	queue := product.Command(t, "ss", "-Hltn", "src", address)
	m := regexp.MustCompile(`^LISTEN\s+\d+\s+(\d+)`).FindStringSubmatch(queue)
	if got := i.Answer("listen_backlog").Value; m == nil || fmt.Sprint(got) != m[1] {
		t.Errorf("backlog %v, ss says %s", got, queue)
	}
	if got := i.Answer("missing_timeouts").Value.([]string); len(got) > 0 {
		t.Errorf("timeouts: %v", got)
	}
	archive := b.Archived()
	if got := archive.Option("maxconn").Running; got.Or("") != "500" {
		t.Errorf("the archive says %+v, %s", got, got.Unknown())
	}
	if got := archive.Answer("read_since_change"); got.Value != true {
		t.Errorf("the archive says %+v", got)
	}
}
