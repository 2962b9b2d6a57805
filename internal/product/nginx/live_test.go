package nginx

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// Debian's nginx: what is read is what nginx -T says, values are taken by a reload
// and given back, and what -t refuses is never told.
func TestServer(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	product.Command(t, "nginx")
	t.Cleanup(func() { product.Command(t, "nginx", "-s", "stop") })
	b := product.New(t, Product)
	product.Eventually(t, "nginx serves", func() bool { return b.Installed().Answer("workers_running").Value != 0.0 })
	i := b.Installed().(*installed)
	if i.FileErr != nil || i.RunErr != nil {
		t.Fatal(i.FileErr, i.RunErr)
	}

	dump := product.Command(t, "nginx", "-T")
	var files []string
	for _, m := range regexp.MustCompile(`(?m)^# configuration file (\S+):$`).FindAllStringSubmatch(dump, -1) {
		files = append(files, m[1])
	}
	if !slices.Equal(slices.Compact(files), i.Files.files) {
		t.Errorf("files\n%q\nnginx reads\n%q", i.Files.files, files)
	}
	for _, p := range parameters {
		want := regexp.MustCompile(`(?m)^\s*`+p.Name+`\s+([^;]*);`).FindAllStringSubmatch(dump, -1)
		got, ok := i.Option(p.Name).File.Get()
		if ok != (len(want) > 0) || ok && got != want[len(want)-1][1] {
			t.Errorf("%s is %q, nginx says %q", p.Name, got, want)
		}
		if running, has := i.Option(p.Name).Running.Get(); has != ok || running != got {
			t.Errorf("%s runs with %q (%s)", p.Name, running, i.Option(p.Name).Running.Unknown())
		}
	}
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Value == nil {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	if v := i.Answer("version").Value; !strings.Contains(product.Command(t, "nginx", "-v"), "nginx/"+v.(string)) {
		t.Errorf("version %v", v)
	}
	if got := b.Archived().Option("worker_connections").Running; got.Or("") != "768" {
		t.Errorf("the archive says %+v, %s", got, got.Unknown())
	}

	const main = "/etc/nginx/nginx.conf"
	before, pid, limit := product.Read(t, main), i.Run.Main.PID, i.Answer("open_files_limit").Value
	b.Set([]string{"reload of nginx " + main}, "worker_processes", "3", "worker_connections", "700", "worker_rlimit_nofile", "800", "keepalive_timeout", "30s")
	// A worker that has just begun is called like its master for a moment.
	product.Eventually(t, "three workers run", func() bool {
		i = b.Installed().(*installed)
		return i.Answer("workers_running").Value == 3.0
	})
	if i.Run.Main.PID != pid {
		t.Errorf("main process %d, was %d", i.Run.Main.PID, pid)
	}
	if got := i.Answer("open_files_limit").Value; got != 800.0 {
		t.Errorf("its workers may open %v files", got)
	}
	b.Running("keepalive_timeout", "30s")
	b.Undo()
	product.Same(t, main, before)
	product.Eventually(t, "as many workers run as before", func() bool {
		i = b.Installed().(*installed)
		return i.Answer("workers_running").Value == i.Answer("workers").Value
	})
	if got := i.Answer("open_files_limit").Value; got != limit {
		t.Errorf("after undo its workers may open %v files, was %v", got, limit)
	}

	// What -t refuses is never told; the same processes go on.
	b.Refused("nginx -t: ", "worker_connections", "900", "keepalive_timeout", "75s 60x")
	b.Refused("want auto", "worker_processes", "5000000")
	b.Refused("not a tuning option", "user", "root")
	// What -t takes and no worker can begin with: too much memory.
	b.Refused("nginx runs no worker with the new configuration", "worker_connections", "2000000000")
	product.Same(t, main, before)
	if got := b.Installed().(*installed).Run.Main.PID; got != pid {
		t.Errorf("main process %d, was %d", got, pid)
	}
	b.Running("worker_connections", "768")
	product.Command(t, "curl", "-sS", "--max-time", "60", "-o", "/dev/null", "http://127.0.0.1/")

	// A change without a reload. Its newest worker says when it read its
	// files last, and on a busy machine one that takes the place of another begins late.
	product.Eventually(t, "it is seen to be older than its files", func() bool {
		if err := os.WriteFile(main, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		return b.Installed().Answer("read_since_change").Value == false
	})
}
